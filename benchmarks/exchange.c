/* SPDX-License-Identifier: MIT */
/* The least that ranks can say to each other: each writes one cache line, which
 * holds a number and 56 bytes, and waits until the number is in the lines of
 * those from whom it needs something. The lines of two rounds alternate, so
 * that nobody has to say that it has read. */
#include <sched.h>

#include "limit.h"

enum { FEWEST = 20, MOST = 1000 };

/* Loads in vain, far more than an exchange takes, after which the other rank
 * may be waiting for this CPU, whatever was counted. */
enum { PATIENCE = 4096 };
static const double budget_seconds = 0.04;

struct exchange {
    const struct shared *shared;
    bool publishes, waits;
    int wait_for; /* a place; -1: all */
    uint64_t *sequence;
    uint64_t seen;
};

static struct shared_line *line_of(const struct exchange *e, int place)
{
    return &e->shared->lines[2 * place + (int)(*e->sequence % 2)];
}

/* The acquire pairs with the release in play() on the other rank. */
static void await(struct exchange *e, int place)
{
    struct shared_line *const line = line_of(e, place);
    for (unsigned polls = 1;
         atomic_load_explicit(&line->sequence, memory_order_acquire)
         != *e->sequence;
         polls++)
        if (e->shared->yields || polls % PATIENCE == 0)
            sched_yield();
    for (int i = 0; i < 7; i++)
        e->seen += line->payload[i];
}

static void play(void *context)
{
    struct exchange *const e = context;
    const struct shared *const s = e->shared;
    ++*e->sequence;
    if (e->publishes) {
        struct shared_line *const mine = line_of(e, s->me);
        for (int i = 0; i < 7; i++)
            mine->payload[i] = *e->sequence;
        atomic_store_explicit(&mine->sequence, *e->sequence,
                              memory_order_release);
    }
    if (!e->waits)
        return;
    for (int i = 1; i < s->n; i++) {
        const int place = (s->me + i) % s->n;
        if (e->wait_for < 0 || e->wait_for == place)
            await(e, place);
    }
}

double exchange_seconds(const struct shared *s, const struct measure *m,
                        uint64_t *sequence)
{
    const enum collective c = m->shape.collective;
    const bool root_sends = collective_root_sends(c);
    const int root = shared_place(s, m->shape.root);
    struct exchange e = {
        .shared = s,
        /* of a broadcast the root alone, of a reduce all the others */
        .publishes = !collective_has_root(c) || (s->me == root) == root_sends,
        .waits = !collective_has_root(c) || root_sends || s->me == root,
        .wait_for = root_sends ? root : -1,
        .sequence = sequence,
    };
    const struct limit_trial trial = {.m = m, .timed = play, .context = &e};
    return limit_time(&trial, budget_seconds, FEWEST, MOST);
}
