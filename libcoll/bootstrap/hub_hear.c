/* SPDX-License-Identifier: MIT */
/* What ranks say once they have joined: names, rounds of the allgather, that
 * they give up, that they leave. */
#include "bootstrap/hub_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void hub_not_protocol(struct hub *h, struct conn *k, double now)
{
    const int rank = k->rank;
    hub_drop(h, k);
    hub_fail(h, COLL_ERR_PEER, rank, now,
             "%s sent bytes that are not the bootstrap's protocol",
             hub_name(h, rank).text);
}

static void hear_about(struct hub *h, int rank, const struct frame *frame)
{
    char about[FRAME_ABOUT_MAX + 1];
    frame_get_text(frame, 0, about, sizeof(about));
    free(h->seats[rank].about);
    h->seats[rank].about = strdup(about); /* NULL: it has no name */
}

static void finish_round(struct hub *h, double now)
{
    for (int c = 0; c < h->nconns; c++)
        if (h->conns[c].state == CONN_MEMBER
            && !outbox_add(&h->conns[c].out, h->round)) {
            hub_no_memory(h, now);
            return;
        }
    for (int r = 0; r < h->nranks; r++)
        h->seats[r].given = false;
    frame_release(h->round);
    h->round = NULL;
    h->round_deadline = INFINITY;
    h->nrounds++;
}

/* A rank that has left, but would be needed for the round; -1: none. */
static int gone(const struct hub *h)
{
    for (int r = 0; h->nleft && r < h->nranks; r++)
        if (h->seats[r].state == SEAT_LEFT && !h->seats[r].given)
            return r;
    return -1;
}

static void fail_round(struct hub *h, int left, double now)
{
    hub_fail(h, COLL_ERR_PEER, left, now,
             "%s has left the job, so allgather %u of the bootstrap cannot "
             "finish",
             hub_name(h, left).text, h->nrounds);
}

/* Whether a part of so many bytes fits the round; if not, the job failed. */
static bool check_part(struct hub *h, int rank, size_t bytes, double now)
{
    if (gone(h) >= 0)
        fail_round(h, gone(h), now);
    else if (bytes > (size_t)FRAME_GATHER_MAX / (size_t)h->nranks)
        hub_fail(h, COLL_ERR_INVALID, rank, now,
                 "%s gave %zu bytes to allgather %u of the bootstrap; %d ranks "
                 "may give %zu each",
                 hub_name(h, rank).text, bytes, h->nrounds, h->nranks,
                 (size_t)FRAME_GATHER_MAX / (size_t)h->nranks);
    else if (h->round && bytes != h->round_bytes)
        hub_fail(h, COLL_ERR_MISMATCH, rank, now,
                 "%s gave %zu bytes to allgather %u of the bootstrap, but %s "
                 "gave %zu",
                 hub_name(h, rank).text, bytes, h->nrounds,
                 hub_name(h, h->first_given).text, h->round_bytes);
    else
        return true;
    return false;
}

static void hear_part(struct hub *h, struct conn *k, const struct frame *frame,
                      double now)
{
    struct seat *s = &h->seats[k->rank];
    const size_t bytes = frame->bytes - 4;
    const double wait = frame_get32(frame->body) / 1e3;
    if (h->phase != HUB_RUNNING || s->given) {
        hub_not_protocol(h, k, now);
        return;
    }
    if (!check_part(h, k->rank, bytes, now))
        return;
    if (!h->round) {
        h->round =
            frame_make(FRAME_GATHERED, FRAME_NOBODY, bytes * (size_t)h->nranks);
        h->round_bytes = bytes;
        h->first_given = k->rank;
        h->ngiven = 0;
        if (!h->round) {
            hub_no_memory(h, now);
            return;
        }
    }
    if (bytes)
        memcpy(h->round->data + FRAME_HEADER + bytes * (size_t)k->rank,
               frame->body + 4, bytes);
    s->given = true;
    if (wait > 0 && now + wait < h->round_deadline) {
        h->round_deadline = now + wait;
        h->round_seconds = wait;
    }
    if (++h->ngiven == h->nranks)
        finish_round(h, now);
}

static void hear_abort(struct hub *h, struct conn *k, const struct frame *frame,
                       double now)
{
    char why[FRAME_TEXT_MAX + 1];
    const int rank = k->rank;
    /* Unsigned first: a peer's number may be anything. */
    const uint32_t code = -frame_get32(frame->body);
    const bool known = code >= 1 && code <= (uint32_t)-COLL_ERR_MISMATCH;
    const coll_status status =
        known ? (coll_status) - (int)code : COLL_ERR_ABORTED;
    frame_get_text(frame, 4, why, sizeof(why));
    hub_finish_conn(h, k, now);
    /* It lives, so nobody is to take it for the one that has gone. */
    hub_fail(h, status, FRAME_NOBODY, now, "%s %s: %s", hub_name(h, rank).text,
             status == COLL_ERR_ABORTED ? "aborted" : "gave up", why);
}

/* The last rank of the hub's process to leave is kept waiting for the others,
 * as they would take the end of that process for a failure. */
static bool must_wait(const struct hub *h, int rank)
{
    if (!h->seats[rank].resident)
        return false;
    for (int r = 0; r < h->nranks; r++)
        if (h->seats[r].resident && h->seats[r].state == SEAT_PRESENT)
            return false;
    return h->nleft < h->nranks;
}

static void hear_leave(struct hub *h, struct conn *k, double now)
{
    const int rank = k->rank;
    if (h->phase != HUB_RUNNING) {
        hub_drop(h, k);
        hub_fail(h, COLL_ERR_PEER, rank, now,
                 "%s left before all ranks had joined", hub_name(h, rank).text);
        return;
    }
    h->seats[rank].state = SEAT_LEFT;
    h->nleft++;
    if (must_wait(h, rank))
        k->state = CONN_HELD;
    else
        hub_finish_conn(h, k, now);
    if (h->round && !h->seats[rank].given)
        fail_round(h, rank, now);
    if (h->nleft < h->nranks)
        return;
    hub_end(h);
    for (int c = 0; c < h->nconns; c++)
        if (h->conns[c].state == CONN_HELD)
            hub_finish_conn(h, &h->conns[c], now);
}

void hub_hear_member(struct hub *h, struct conn *k, const struct frame *frame,
                     double now)
{
    if (frame->rank != k->rank)
        hub_not_protocol(h, k, now);
    else if (frame->type == FRAME_ABOUT)
        hear_about(h, k->rank, frame);
    else if (frame->type == FRAME_GATHER)
        hear_part(h, k, frame, now);
    else if (frame->type == FRAME_ABORT)
        hear_abort(h, k, frame, now);
    else if (frame->type == FRAME_INQUIRE)
        hub_hear_inquiry(h, now);
    else if (frame->type == FRAME_CALLS)
        hub_hear_calls(h, k->rank, frame, now);
    else if (frame->type == FRAME_LEAVE)
        hear_leave(h, k, now);
    else
        hub_not_protocol(h, k, now);
}
