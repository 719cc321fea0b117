/* SPDX-License-Identifier: MIT */
/* The loads and stores of the best algorithm there could be, with nobody
 * waiting for anybody. What is best depends on length and machine, so several
 * ways are tried at each size, and the fastest counts:
 *
 *   SLICES  all ranks share the work: each takes its slice of the inputs and
 *           stores the result wherever it is wanted
 *   WHOLE   who wants a result makes all of it: more loads, but every store
 *           goes to memory of the own rank
 *
 * and each with ordinary stores and with such that go past the caches.
 */
#include "moves.h"

#include <math.h>
#include <stdlib.h>

static const char *const names[NWAYS][2] = {
    {"slices", "slices, streaming"},
    {"whole",  "whole, streaming" },
};

enum { FEWEST = 5, MOST = 400 };
static const double trial_seconds = 0.005, budget_seconds = 0.1;

char *moves_in(const struct moves *v, int place)
{
    return shared_vector(v->shared, place, 0);
}

char *moves_out(const struct moves *v, int place)
{
    return shared_vector(v->shared, place, v->shared->per_rank - 1);
}

size_t moves_part_begin(const struct moves *v, int mine, int r)
{
    return shape_part_begin(&v->m->shape, v->lines, mine, r) * TRAFFIC_LINE;
}

void moves_combine(struct moves *v, size_t at, size_t bytes, int to)
{
    const int n = v->shared->n;
    int ndst = 0;
    for (int p = 0; p < n; p++) {
        v->src[p] = moves_in(v, p) + at;
        if (to < 0 || to == p)
            v->dst[ndst++] = moves_out(v, p) + at;
    }
    traffic(v->dst, ndst, v->src, n, bytes, v->stream);
}

void moves_copy(const struct moves *v, char *to, const char *from, size_t bytes)
{
    if (to != from)
        traffic(&to, 1, &from, 1, bytes, v->stream);
}

static move_function *const move[NCOLLECTIVES] = {
    [ALLREDUCE] = move_allreduce, [REDUCE] = move_reduce,
    [BROADCAST] = move_broadcast, [REDUCE_SCATTER] = move_reduce_scatter,
    [ALLGATHER] = move_allgather, [GATHER] = move_gather,
    [SCATTER] = move_scatter,     [ALLTOALL] = move_alltoall,
    [SENDRECV] = move_sendrecv,   [PINGPONG] = move_pingpong,
};

/* Whether an algorithm could do it so: in place nobody may read a whole input
 * that others replace. */
static bool possible(const struct moves *v, enum way way)
{
    const struct shape *const s = &v->m->shape;
    const enum collective c = collective_even(s->collective);
    return way == SLICES || c == BROADCAST || c == ALLGATHER || c == REDUCE
           || c == GATHER || c == SENDRECV || c == PINGPONG
           || ((c == ALLREDUCE || c == ALLTOALL) && !s->in_place);
}

static void rewrite(void *context, long iteration)
{
    const struct moves *const v = context;
    const struct shape *const s = &v->m->shape;
    char *const vector = moves_in(v, v->shared->me);
    const size_t offset = s->in_place ? shape_send_offset(s, v->count) : 0;
    inputs_write(&v->m->inputs, vector + offset * v->m->inputs.elem_bytes,
                 v->count, iteration);
}

static void play(void *context)
{
    struct moves *const v = context;
    move[collective_even(v->m->shape.collective)](v);
}

static void consume(void *context)
{
    const struct moves *const v = context;
    const struct shape *const s = &v->m->shape;
    const char *x = moves_out(v, v->shared->me);
    const enum collective c = collective_even(s->collective);
    if (c == REDUCE_SCATTER || c == SCATTER)
        x += moves_part_begin(v, s->rank, s->rank);
    inputs_read(x, shape_receives(s, v->count) * v->m->inputs.elem_bytes);
}

/* Each way a few times, then the best of them. */
static struct limit_bound fastest(struct moves *v)
{
    const struct limit_trial trial = {v->m, rewrite, play, consume, v};
    enum way best = SLICES;
    bool best_streams = false;
    double least = INFINITY;
    for (int i = 0; i < 2 * NWAYS; i++) {
        v->way = (enum way)(i / 2);
        v->stream = i % 2;
        if (!possible(v, v->way))
            continue;
        const double seconds = limit_time(&trial, trial_seconds, 1, MOST);
        if (seconds >= least)
            continue;
        least = seconds;
        best = v->way;
        best_streams = v->stream;
    }
    v->way = best;
    v->stream = best_streams;
    return (struct limit_bound){
        limit_time(&trial, budget_seconds, FEWEST, MOST),
        names[best][best_streams],
    };
}

struct limit_bound moves_seconds(const struct shared *s,
                                 const struct measure *m)
{
    struct moves v = {
        .shared = s,
        .m = m,
        .count = m->count,
        .lines = (measure_bytes(m) + TRAFFIC_LINE - 1) / TRAFFIC_LINE,
        .root = shared_place(s, m->shape.root),
    };
    v.src = job_alloc((size_t)s->n * sizeof *v.src);
    v.dst = job_alloc((size_t)s->n * sizeof *v.dst);
    const struct limit_bound bound = fastest(&v);
    free(v.src);
    free(v.dst);
    return bound;
}
