/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "programs/json.h"
#include "programs/ras.h"

static void put_call(struct json *j, const char *key, const struct ras_rank *r,
                     const struct record *e, double seconds)
{
    char text[TRACE_CALL];
    json_begin(j, key, '{');
    json_number(j, "number", (double)e->number);
    json_text(j, "kind", trace_kind(r->file, e));
    json_text(j, "call", trace_call(r->file, e, text));
    if (trace_message(r->file, e) == CALLED_END)
        json_text(j, "algorithm", trace_way(r->file, e, text));
    json_bool(j, "pending", !e->ended);
    json_number(j, "seconds", seconds);
    json_end(j, '}');
}

static void put_rank(struct json *j, const struct ras_rank *r)
{
    const struct record_header *h = &r->file->header;
    json_begin(j, NULL, '{');
    json_number(j, "rank", h->rank);
    json_text(j, "host", h->host);
    json_number(j, "pid", h->pid);
    json_text(j, "process", ras_process_names[r->process]);
    json_number(j, "behind", (double)r->behind);
    json_number(j, "late_s", r->late);
    if (r->last)
        put_call(j, "operation", r, r->last, r->seconds);
    json_number(j, "messages_pending", (double)r->messages);
    if (r->message)
        put_call(j, "oldest_message", r, r->message, r->message_seconds);
    if (h->failed)
        json_text(j, "failed", h->sentence);
    json_end(j, '}');
}

/* Those that have not come to an operation which others are in. */
static void put_stragglers(struct json *j, const struct ras_comm *c)
{
    bool in = false;
    for (int i = 0; i < c->n; i++)
        in |= ras_is_in(&c->ranks[i]);
    json_begin(j, "stragglers", '[');
    for (int i = 0; i < c->n && in; i++)
        if (c->ranks[i].behind)
            json_number(j, NULL, c->ranks[i].file->header.rank);
    json_end(j, ']');
}

void ras_json(const struct ras_comm *comms, int n, double interval)
{
    struct json j = {.file = stdout};
    json_begin(&j, NULL, '{');
    json_text(&j, "format", "coll_ras 1");
    json_number(&j, "interval_s", interval);
    json_begin(&j, "communicators", '[');
    for (int i = 0; i < n; i++) {
        const struct ras_comm *c = &comms[i];
        char id[20];
        snprintf(id, sizeof(id), "%016llx",
                 (unsigned long long)c->job->files[0]->header.job);
        json_begin(&j, NULL, '{');
        json_text(&j, "job", id);
        json_text(&j, "state", ras_state_names[c->state]);
        json_number(&j, "nranks", c->nranks);
        json_number(&j, "on_record", c->n);
        json_number(&j, "operation", (double)c->operation);
        json_number(&j, "operations_per_s", c->rate);
        json_number(&j, "pending_s", c->pending);
        json_number(&j, "period_s", c->period);
        put_stragglers(&j, c);
        json_begin(&j, "ranks", '[');
        for (int k = 0; k < c->n; k++)
            put_rank(&j, &c->ranks[k]);
        json_end(&j, ']');
        json_end(&j, '}');
    }
    json_end(&j, ']');
    json_end(&j, '}');
}
