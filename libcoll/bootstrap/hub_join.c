/* SPDX-License-Identifier: MIT */
/* How a stranger becomes a rank: its hello is checked, and all are welcomed
 * together. */
#include "bootstrap/hub_inside.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((__format__(__printf__, 4, 5))) static void
refuse(struct hub *h, struct conn *k, double now, const char *format, ...)
{
    char why[FRAME_TEXT_MAX + 1];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    outbox_give(&k->out, frame_make_status(FRAME_REFUSED, FRAME_NOBODY,
                                           COLL_ERR_INVALID, why));
    hub_finish_conn(h, k, now);
}

/* Takes the same time wherever the two differ. */
static bool same_key(const unsigned char *a, const unsigned char *b)
{
    unsigned char differ = 0;
    for (int i = 0; i < FRAME_KEY; i++)
        differ |= a[i] ^ b[i];
    return !differ;
}

/* Whether rank and nranks make sense; if not, has refused. */
static bool check_place(struct hub *h, struct conn *k, int rank,
                        uint32_t nranks, double now)
{
    if (nranks < 1 || nranks > FRAME_RANKS_MAX)
        refuse(h, k, now, "%u ranks: a job has 1 to %d", (unsigned)nranks,
               FRAME_RANKS_MAX);
    else if (h->seats && (int)nranks != h->nranks)
        refuse(h, k, now,
               "rank %d was told that the job has %u ranks, but %s that it has "
               "%d",
               rank, (unsigned)nranks, hub_name(h, h->first_rank).text,
               h->nranks);
    else if (rank < 0 || rank >= (int)nranks)
        refuse(h, k, now, "rank %d: the ranks of this job are 0 to %u", rank,
               (unsigned)nranks - 1);
    else if (h->seats && h->seats[rank].state == SEAT_PRESENT)
        refuse(h, k, now, "rank %d has already joined: it is %s", rank,
               hub_name(h, rank).text);
    else
        return true;
    return false;
}

static void welcome(struct hub *h, double now)
{
    struct frame_bytes *frame = frame_make(FRAME_WELCOME, FRAME_NOBODY, 8);
    if (!frame) {
        hub_no_memory(h, now);
        return;
    }
    frame_put64(frame->data + FRAME_HEADER, h->process);
    for (int c = 0; c < h->nconns; c++)
        if (h->conns[c].state == CONN_MEMBER)
            outbox_add(&h->conns[c].out, frame);
    frame_release(frame);
    h->phase = HUB_RUNNING;
    h->join_deadline = INFINITY;
}

static void seat(struct hub *h, struct conn *k, int rank,
                 const struct frame_hello *hello, double now)
{
    const double left = ((double)hello->join_ms - hello->waited_ms) / 1e3;
    hub_leave_strangers(h, k);
    k->state = CONN_MEMBER;
    k->rank = rank;
    h->seats[rank].state = SEAT_PRESENT;
    h->seats[rank].resident = hello->process == h->process;
    h->idle_deadline = INFINITY;
    if (now + left < h->join_deadline) {
        h->join_deadline = now + left;
        h->join_seconds = hello->join_ms / 1e3;
    }
    outbox_give(&k->out, frame_make(FRAME_HEARD, FRAME_NOBODY, 0));
    if (++h->npresent == h->nranks)
        welcome(h, now);
}

/* A rank that comes after the failure learns of it. */
static void seat_late(struct hub *h, struct conn *k, int rank, double now)
{
    if (!h->failure_frame || h->seats[rank].state == SEAT_LEFT) {
        hub_drop(h, k);
        return;
    }
    h->seats[rank].state = SEAT_LEFT;
    if (++h->npresent == h->nranks)
        h->late_deadline = now;
    outbox_add(&k->out, h->failure_frame);
    hub_finish_conn(h, k, now);
}

void hub_hear_stranger(struct hub *h, struct conn *k, const struct frame *frame,
                       double now)
{
    struct frame_hello hello;
    if (frame->type != FRAME_HELLO) {
        hub_drop_stranger(h, k);
        return;
    }
    frame_get_hello(frame, &hello);
    if (!same_key(hello.key, h->key)) {
        hub_drop_stranger(h, k);
        return;
    }
    if (!check_place(h, k, frame->rank, hello.nranks, now))
        return;
    if (!h->seats) {
        h->seats = calloc(hello.nranks, sizeof(*h->seats));
        if (!h->seats) {
            refuse(h, k, now, "the hub has no memory for %u ranks",
                   (unsigned)hello.nranks);
            return;
        }
        h->nranks = (int)hello.nranks;
        h->first_rank = frame->rank;
    }
    if (h->phase == HUB_ENDED)
        seat_late(h, k, frame->rank, now);
    else if (h->seats[frame->rank].state == SEAT_LEFT)
        /* It looks for its next job; that hub is not there yet. */
        hub_drop(h, k);
    else
        seat(h, k, frame->rank, &hello, now);
}
