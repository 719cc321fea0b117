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
    bool publishes, waits, answers; /* answers: it waits first */
    int wait_for;                   /* a place; -1: all */
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
        if (e->shared->yields || polls % PATIENCE == 0) {
            sched_yield();
            if (polls % PATIENCE == 0)
                job_look_up();
        }
    for (int i = 0; i < 7; i++)
        e->seen += line->payload[i];
}

static void publish(struct exchange *e)
{
    struct shared_line *const mine = line_of(e, e->shared->me);
    for (int i = 0; i < 7; i++)
        mine->payload[i] = *e->sequence;
    atomic_store_explicit(&mine->sequence, *e->sequence, memory_order_release);
}

static void await_all(struct exchange *e)
{
    const struct shared *const s = e->shared;
    for (int i = 1; i < s->n; i++) {
        const int place = (s->me + i) % s->n;
        if (e->wait_for < 0 || e->wait_for == place)
            await(e, place);
    }
}

static void play(void *context)
{
    struct exchange *const e = context;
    ++*e->sequence;
    if (e->publishes && !e->answers)
        publish(e);
    if (e->waits)
        await_all(e);
    if (e->publishes && e->answers)
        publish(e);
}

/* Who does what where there is a root, or where all have something for all. */
static struct exchange collective(const struct shared *s,
                                  const struct shape *shape)
{
    const enum collective c = shape->collective;
    const bool root_sends = collective_root_sends(c);
    const int root = shared_place(s, shape->root);
    return (struct exchange){
        /* of a broadcast the root alone, of a reduce all the others */
        .publishes = !collective_has_root(c) || (s->me == root) == root_sends,
        .waits = !collective_has_root(c) || root_sends || s->me == root,
        .wait_for = root_sends ? root : -1,
    };
}

/* Who waits for a line of one other rank, if that is on this host. */
static struct exchange pair(const struct shared *s, const struct shape *shape)
{
    const int from = shape_source(shape), place = shared_place(s, from);
    const bool here = from >= 0 && s->rank_of[place] == from;
    return (struct exchange){
        .publishes = shape->collective == SENDRECV || here,
        .waits = here,
        .answers = shape->collective == PINGPONG && shape->rank > 0,
        .wait_for = place,
    };
}

double exchange_seconds(const struct shared *s, const struct measure *m,
                        uint64_t *sequence)
{
    const enum collective c = m->shape.collective;
    const bool pairs = c == SENDRECV || c == PINGPONG;
    struct exchange e = pairs ? pair(s, &m->shape) : collective(s, &m->shape);
    e.shared = s;
    e.sequence = sequence;
    const struct limit_trial trial = {.m = m, .timed = play, .context = &e};
    return collective_share(c)
           * limit_time(&trial, budget_seconds, FEWEST, MOST);
}
