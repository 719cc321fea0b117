/* SPDX-License-Identifier: MIT */
/* Names for sentences, the ways in which a connection ends, and the end of the
 * job. */
#include "bootstrap/hub_inside.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const double linger_seconds = 2; /* to take the last frames */
static const double late_seconds = 10;  /* to tell late ranks of a failure */

struct hub_name hub_name(const struct hub *h, int rank)
{
    struct hub_name n;
    const char *about = h->seats[rank].about;
    if (about && *about)
        snprintf(n.text, sizeof(n.text), "rank %d (%s)", rank, about);
    else
        snprintf(n.text, sizeof(n.text), "rank %d", rank);
    return n;
}

struct hub_name hub_names(const struct hub *h,
                          bool (*lacks)(const struct seat *))
{
    enum { MAX_RUNS = 8 };
    struct hub_name n;
    char list[MAX_RUNS * 16] = "";
    size_t length = 0;
    int nruns = 0, count = 0, more = 0;

    for (int a = 0, b; a < h->nranks; a = b + 1) {
        for (b = a; b < h->nranks && lacks(&h->seats[b]); b++)
            ;
        if (b == a)
            continue;
        count += b - a;
        if (++nruns > MAX_RUNS)
            more += b - a;
        else if (b - a == 1)
            length += (size_t)snprintf(list + length, sizeof(list) - length,
                                       "%s%d", nruns > 1 ? ", " : "", a);
        else
            length +=
                (size_t)snprintf(list + length, sizeof(list) - length,
                                 "%s%d-%d", nruns > 1 ? ", " : "", a, b - 1);
    }
    const char *s = count == 1 ? "" : "s";
    if (more)
        snprintf(n.text, sizeof(n.text), "rank%s %s and %d more of %d", s, list,
                 more, h->nranks);
    else
        snprintf(n.text, sizeof(n.text), "rank%s %s of %d", s, list, h->nranks);
    return n;
}

void hub_leave_strangers(struct hub *h, struct conn *k)
{
    if (k->state == CONN_STRANGER)
        h->nstrangers--;
}

void hub_drop(struct hub *h, struct conn *k)
{
    hub_leave_strangers(h, k);
    k->state = CONN_DROP;
}

void hub_drop_stranger(struct hub *h, struct conn *k)
{
    h->dropped++;
    hub_drop(h, k);
}

void hub_finish_conn(struct hub *h, struct conn *k, double now)
{
    hub_leave_strangers(h, k);
    k->state = CONN_CLOSING;
    k->deadline = now + linger_seconds;
}

void hub_end(struct hub *h)
{
    h->phase = HUB_ENDED;
    h->join_deadline = h->round_deadline = h->idle_deadline =
        h->answer_deadline = INFINITY;
}

void hub_fail(struct hub *h, coll_status status, int culprit, double now,
              const char *format, ...)
{
    char why[FRAME_TEXT_MAX + 1];
    va_list args;
    if (h->phase == HUB_ENDED)
        return;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);

    /* Without memory for the frame the links end without a word, which the
     * ranks take for a failure too. */
    h->failure = status;
    h->failure_frame = frame_make_status(FRAME_FAILED, culprit, status, why);
    h->late_deadline = now;
    if (h->phase == HUB_JOINING && now < h->join_deadline)
        h->late_deadline = now + late_seconds;
    hub_end(h);
    for (int c = 0; c < h->nconns; c++) {
        struct conn *k = &h->conns[c];
        if (k->state == CONN_MEMBER)
            outbox_add(&k->out, h->failure_frame);
        if (k->state == CONN_MEMBER || k->state == CONN_HELD)
            hub_finish_conn(h, k, now);
    }
}

void hub_no_memory(struct hub *h, double now)
{
    hub_fail(h, COLL_ERR_MEMORY, FRAME_NOBODY, now,
             "the hub has no memory left");
}
