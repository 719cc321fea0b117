/* SPDX-License-Identifier: MIT */
#include "bootstrap/hub_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STRANGERS = 64 };
static const double stranger_seconds = 2; /* to give a right hello */
static const double crowded_seconds = .1; /* the same, if others wait */

struct hub *hub_create(const unsigned char key[FRAME_KEY], uint64_t process,
                       double join_seconds, double now)
{
    struct hub *h = calloc(1, sizeof(*h));
    if (!h)
        return NULL;
    memcpy(h->key, key, FRAME_KEY);
    h->process = process;
    h->idle_deadline = now + join_seconds;
    h->join_deadline = h->round_deadline = h->answer_deadline = INFINITY;
    return h;
}

void hub_free(struct hub *h)
{
    if (!h)
        return;
    for (int c = 0; c < h->nconns; c++) {
        frame_reader_clear(&h->conns[c].reader);
        outbox_clear(&h->conns[c].out);
    }
    for (int r = 0; h->seats && r < h->nranks; r++) {
        free(h->seats[r].about);
        free(h->seats[r].calls);
    }
    frame_release(h->round);
    frame_release(h->failure_frame);
    free(h->conns);
    free(h->seats);
    free(h);
}

/* --- events --------------------------------------------------------------- */

bool hub_accepts(struct hub *h, double now)
{
    struct conn *oldest = NULL;
    if (h->nstrangers < MAX_STRANGERS)
        return true;
    for (int c = 0; c < h->nconns; c++) {
        struct conn *k = &h->conns[c];
        if (k->state == CONN_STRANGER
            && (!oldest || k->opened < oldest->opened))
            oldest = k;
    }
    if (now < oldest->opened + crowded_seconds)
        return false;
    hub_drop_stranger(h, oldest);
    return true;
}

void hub_opened(struct hub *h, int conn, double now)
{
    if (conn >= h->nconns) {
        const int room = 2 * conn + 16;
        struct conn *conns = realloc(h->conns, (size_t)room * sizeof(*conns));
        if (!conns) /* hub_wish() of an unknown connection is DROP */
            return;
        memset(conns + h->nconns, 0,
               (size_t)(room - h->nconns) * sizeof(*conns));
        h->conns = conns;
        h->nconns = room;
    }
    h->conns[conn] = (struct conn){
        .state = CONN_STRANGER,
        .opened = now,
        .deadline = now + stranger_seconds,
    };
    h->nstrangers++;
}

void hub_received(struct hub *h, int conn, const void *bytes, size_t n,
                  double now)
{
    const unsigned char *at = bytes;
    while (n && conn < h->nconns) {
        struct conn *k = &h->conns[conn];
        struct frame frame;
        const bool stranger = k->state == CONN_STRANGER;
        if (!stranger && k->state != CONN_MEMBER)
            return;
        switch (frame_read(&k->reader,
                           stranger ? FRAME_STRANGER_MAX
                                    : FRAME_HEADER + 4 + FRAME_GATHER_MAX,
                           &at, &n, &frame)) {
        case FRAME_PARTIAL:
            return;
        case FRAME_COMPLETE:
            if (stranger)
                hub_hear_stranger(h, k, &frame, now);
            else
                hub_hear_member(h, k, &frame, now);
            break;
        case FRAME_BAD:
            if (stranger)
                hub_drop_stranger(h, k);
            else
                hub_not_protocol(h, k, now);
            break;
        case FRAME_MEMORY:
            hub_drop(h, k);
            hub_no_memory(h, now);
            break;
        }
    }
}

void hub_sent(struct hub *h, int conn, size_t bytes)
{
    outbox_sent(&h->conns[conn].out, bytes);
}

void hub_closed(struct hub *h, int conn, const char *why, double now)
{
    if (conn >= h->nconns)
        return;
    struct conn *k = &h->conns[conn];
    const bool died = k->state == CONN_MEMBER;
    const int rank = k->rank;
    if (k->state == CONN_STRANGER)
        hub_drop_stranger(h, k);
    frame_reader_clear(&k->reader);
    outbox_clear(&k->out);
    k->state = CONN_FREE;
    if (died)
        hub_fail(h, COLL_ERR_PEER, rank, now,
                 "%s went away without a word%s: %s", hub_name(h, rank).text,
                 h->phase == HUB_JOINING ? " while others were still joining"
                                         : "",
                 why);
}

static bool not_present(const struct seat *s)
{
    return s->state != SEAT_PRESENT;
}

static bool not_given(const struct seat *s)
{
    return !s->given;
}

void hub_tick(struct hub *h, double now)
{
    bool busy = false;
    h->last_tick = now;
    if (now >= h->idle_deadline)
        hub_end(h);
    if (now >= h->join_deadline)
        hub_fail(h, COLL_ERR_PEER, FRAME_NOBODY, now,
                 "%s did not join within %g s", hub_names(h, not_present).text,
                 h->join_seconds);
    if (now >= h->round_deadline)
        hub_fail(h, COLL_ERR_TIMEOUT, FRAME_NOBODY, now,
                 "%s did not come to allgather %u of the bootstrap within %g s",
                 hub_names(h, not_given).text, h->nrounds, h->round_seconds);
    if (now >= h->answer_deadline)
        hub_judge(h, now);
    for (int c = 0; c < h->nconns; c++) {
        struct conn *k = &h->conns[c];
        if (k->state == CONN_STRANGER && now >= k->deadline)
            hub_drop_stranger(h, k);
        else if (k->state == CONN_CLOSING && now >= k->deadline)
            hub_drop(h, k);
        busy |= k->state != CONN_FREE && k->state != CONN_STRANGER;
    }
    h->finished = h->phase == HUB_ENDED && !busy && now >= h->late_deadline;
}

/* --- questions ------------------------------------------------------------ */

enum link_wish hub_wish(const struct hub *h, int conn)
{
    if (conn >= h->nconns || h->conns[conn].state == CONN_DROP)
        return LINK_DROP;
    return h->conns[conn].state == CONN_CLOSING ? LINK_FINISH : LINK_KEEP;
}

size_t hub_output(const struct hub *h, int conn, const unsigned char **bytes)
{
    return conn < h->nconns ? outbox_peek(&h->conns[conn].out, bytes) : 0;
}

double hub_deadline(const struct hub *h)
{
    double deadline = fmin(fmin(h->idle_deadline, h->answer_deadline),
                           fmin(h->join_deadline, h->round_deadline));
    if (h->phase == HUB_ENDED)
        deadline =
            h->late_deadline > h->last_tick ? h->late_deadline : INFINITY;
    for (int c = 0; c < h->nconns; c++) {
        const struct conn *k = &h->conns[c];
        if (k->state == CONN_STRANGER && h->nstrangers == MAX_STRANGERS)
            deadline = fmin(deadline, k->opened + crowded_seconds);
        if (k->state == CONN_STRANGER || k->state == CONN_CLOSING)
            deadline = fmin(deadline, k->deadline);
    }
    return deadline;
}

bool hub_listens(const struct hub *h)
{
    return h->phase != HUB_ENDED || h->late_deadline > 0;
}

bool hub_runs(const struct hub *h)
{
    return h->phase == HUB_RUNNING;
}

bool hub_finished(const struct hub *h)
{
    return h->finished;
}

unsigned long hub_strangers(const struct hub *h)
{
    return h->dropped;
}
