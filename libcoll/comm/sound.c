/* SPDX-License-Identifier: MIT */
/* Message 0, 2, ... goes from the lower rank to the higher, 1, 3, ... back. The
 * last one, of the lower rank, says what it found. */
#include "comm/sound.h"

#include <assert.h>
#include <math.h>

struct line {
    struct transfer move; /* message `at`, or its reception */
    double begun, round_trip, word;
    int at;
};

struct sounding {
    struct pair_meter *meter;
    struct line lines[PAIR_MESSAGES];
    int n, last; /* message */
};

static bool sends(const struct sounding *s, const struct line *l)
{
    return (s->meter->comm->rank < l->move.peer) == (l->at % 2 == 0);
}

static void start(struct sounding *s, struct line *l)
{
    struct transport *to = s->meter->comm->to[l->move.peer];
    l->move = (struct transfer){.buf = &l->word,
                                .bytes = sizeof(l->word),
                                .peer = l->move.peer,
                                .status = COLL_IN_PROGRESS};
    if (!sends(s, l)) {
        to->ops->recv(to, &l->move);
        return;
    }
    l->word = l->round_trip;
    l->begun = comm_clock();
    phases_sent(s->meter->cost, 1, sizeof(l->word));
    to->ops->send(to, &l->move);
}

/* What came says. Only the lower rank's clock counts. */
static void hear(struct sounding *s, struct line *l)
{
    if (sends(s, l))
        return;
    l->round_trip =
        l->at % 2 ? fmin(l->round_trip, comm_clock() - l->begun) : l->word;
}

static coll_status advance(void *context)
{
    struct sounding *s = context;
    coll_status status = COLL_OK;
    for (int i = 0; i < s->n; i++) {
        struct line *l = &s->lines[i];
        while (l->at <= s->last && l->move.status == COLL_OK) {
            hear(s, l);
            if (l->at++ < s->last)
                start(s, l);
        }
        if (l->move.status < 0)
            return l->move.status;
        if (l->at <= s->last)
            status = COLL_IN_PROGRESS;
    }
    return status;
}

coll_status sound_peers(struct pair_meter *p, const int *peers, int n,
                        double *round_trip)
{
    struct sounding s = {.meter = p, .n = n, .last = p->comm->crowded ? 4 : 2};
    assert(n <= PAIR_MESSAGES);
    for (int i = 0; i < n; i++) {
        s.lines[i] =
            (struct line){.move.peer = peers[i], .round_trip = INFINITY};
        start(&s, &s.lines[i]);
    }
    phases_waited(p->cost, n > 0 ? 1 + (unsigned)s.last / 2 : 0);
    const coll_status status = comm_wait(
        p->comm, advance, &s, p->comm->join_seconds, "a measurement at start");
    if (status < 0)
        comm_cancel(p->comm);
    for (int i = 0; i < n; i++)
        round_trip[i] = s.lines[i].round_trip;
    return status;
}
