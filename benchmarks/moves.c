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
#include <math.h>
#include <stdlib.h>

#include "limit.h"
#include "traffic.h"

enum way { SLICES, WHOLE, NWAYS };
static const char *const names[NWAYS][2] = {
    {"slices", "slices, streaming"},
    {"whole",  "whole, streaming" },
};

enum { FEWEST = 5, MOST = 400 };
static const double trial_seconds = 0.005, budget_seconds = 0.1;

struct moves {
    const struct shared *shared;
    const struct measure *m;
    size_t count, lines; /* the call's; cache lines of S */
    enum way way;
    bool stream;
    int root; /* place */
    const char **src;
    char **dst;
};

static char *in(const struct moves *v, int place)
{
    return shared_vector(v->shared, place, 0);
}

static char *out(const struct moves *v, int place)
{
    return shared_vector(v->shared, place, v->shared->per_rank - 1);
}

/* Where part `part` of `parts` of a vector of S begins. Cut at whole lines. */
static size_t begin(const struct moves *v, int part, int parts)
{
    return v->lines * (size_t)part / (size_t)parts * TRAFFIC_LINE;
}

static size_t length(const struct moves *v, int part, int parts)
{
    return begin(v, part + 1, parts) - begin(v, part, parts);
}

/* From all inputs, [at, at + bytes) of each, to the same place in some outputs:
 * of this rank, of the root, or of all. */
static void combine(struct moves *v, size_t at, size_t bytes, int to)
{
    const int n = v->shared->n;
    int ndst = 0;
    for (int p = 0; p < n; p++) {
        v->src[p] = in(v, p) + at;
        if (to < 0 || to == p)
            v->dst[ndst++] = out(v, p) + at;
    }
    traffic(v->dst, ndst, v->src, n, bytes, v->stream);
}

static void copy(struct moves *v, char *to, const char *from, size_t bytes)
{
    if (to != from)
        traffic(&to, 1, &from, 1, bytes, v->stream);
}

static void move_allreduce(struct moves *v)
{
    const struct shared *const s = v->shared;
    if (v->way == SLICES)
        combine(v, begin(v, s->me, s->n), length(v, s->me, s->n), -1);
    else
        combine(v, 0, v->lines * TRAFFIC_LINE, s->me);
}

static void move_reduce(struct moves *v)
{
    const struct shared *const s = v->shared;
    if (v->way == SLICES)
        combine(v, begin(v, s->me, s->n), length(v, s->me, s->n), v->root);
    else if (s->me == v->root)
        combine(v, 0, v->lines * TRAFFIC_LINE, v->root);
}

/* In place the root has what it wants. */
static void move_broadcast(struct moves *v)
{
    const struct shared *const s = v->shared;
    if (v->way == WHOLE) {
        copy(v, out(v, s->me), in(v, v->root), v->lines * TRAFFIC_LINE);
        return;
    }
    const size_t at = begin(v, s->me, s->n);
    int ndst = 0;
    v->src[0] = in(v, v->root) + at;
    for (int p = 0; p < s->n; p++)
        if (out(v, p) != in(v, v->root))
            v->dst[ndst++] = out(v, p) + at;
    traffic(v->dst, ndst, v->src, 1, length(v, s->me, s->n), v->stream);
}

/* Where rank r's part of S begins, or ends where that of r + 1 does; of what
 * `mine` has. Cut at whole lines. */
static size_t part_begin(const struct moves *v, int mine, int r)
{
    return shape_part_begin(&v->m->shape, v->lines, mine, r) * TRAFFIC_LINE;
}

static size_t part_length(const struct moves *v, int mine, int r)
{
    return part_begin(v, mine, r + 1) - part_begin(v, mine, r);
}

/* The part of a place, [at, at + bytes) of S, is to be moved. */
typedef void part_function(struct moves *v, int place, size_t at, size_t bytes);

/* Shares out the parts of this host's ranks, or of all, evenly over this host's
 * ranks, even if parts differ; what belongs elsewhere goes through this one. */
static void share(struct moves *v, bool of_all, part_function *each)
{
    const struct shared *const s = v->shared;
    const int n = v->m->job->nranks;
    const int *const host_of = v->m->job->host_of;
    const int host = host_of[s->rank_of[s->me]];
    size_t total = 0, before = 0;
    for (int r = 0; r < n; r++)
        if (of_all || host_of[r] == host)
            total += part_length(v, r, r) / TRAFFIC_LINE;
    const size_t me = (size_t)s->me, ranks = (size_t)s->n;
    const size_t first = total * me / ranks * TRAFFIC_LINE;
    const size_t end = total * (me + 1) / ranks * TRAFFIC_LINE;
    for (int r = 0; r < n; r++) {
        const size_t length = part_length(v, r, r), after = before + length;
        if (!of_all && host_of[r] != host)
            continue;
        const size_t from = first > before ? first : before;
        const size_t to = end < after ? end : after;
        if (from < to)
            each(v, host_of[r] == host ? shared_place(s, r) : s->me,
                 part_begin(v, r, r) + from - before, to - from);
        before = after;
    }
}

static void reduce_part(struct moves *v, int place, size_t at, size_t bytes)
{
    combine(v, at, bytes, place);
}

/* Where the input of a place is that belongs at `at` of S. In place it is
 * there. */
static const char *part_in(const struct moves *v, int place, size_t at)
{
    const int r = v->shared->rank_of[place];
    return in(v, place) + at - (v->m->shape.in_place ? 0 : part_begin(v, r, r));
}

/* Of several hosts, also what this one must pass on. */
static void move_reduce_scatter(struct moves *v)
{
    share(v, true, reduce_part);
}

static void spread_part(struct moves *v, int place, size_t at, size_t bytes)
{
    int ndst = 0;
    v->src[0] = part_in(v, place, at);
    for (int p = 0; p < v->shared->n; p++)
        if (out(v, p) + at != v->src[0])
            v->dst[ndst++] = out(v, p) + at;
    traffic(v->dst, ndst, v->src, 1, bytes, v->stream);
}

static void move_allgather(struct moves *v)
{
    const struct shared *const s = v->shared;
    if (v->way == SLICES)
        share(v, false, spread_part);
    for (int i = 0; v->way == WHOLE && i < s->n; i++) {
        const int p = (s->me + i) % s->n, r = s->rank_of[p];
        const size_t at = part_begin(v, r, r);
        copy(v, out(v, s->me) + at, part_in(v, p, at), part_length(v, r, r));
    }
}

static void gather_part(struct moves *v, int place, size_t at, size_t bytes)
{
    copy(v, out(v, v->root) + at, part_in(v, place, at), bytes);
}

/* The part of each rank of this host, wherever the root is. */
static void move_gather(struct moves *v)
{
    const struct shared *const s = v->shared;
    if (v->way == SLICES)
        share(v, false, gather_part);
    for (int p = 0; v->way == WHOLE && p < s->n && s->me == v->root; p++) {
        const int r = s->rank_of[p];
        gather_part(v, p, part_begin(v, r, r), part_length(v, r, r));
    }
}

static void scatter_part(struct moves *v, int place, size_t at, size_t bytes)
{
    copy(v, out(v, place) + at, in(v, v->root) + at, bytes);
}

static void move_scatter(struct moves *v)
{
    share(v, false, scatter_part);
}

static void move_alltoall(struct moves *v)
{
    const struct shared *const s = v->shared;
    const int mine = s->rank_of[s->me];
    for (int i = 0; i < s->n; i++) {
        const int p = (s->me + i) % s->n, r = s->rank_of[p];
        const size_t here = part_length(v, r, mine);
        const size_t there = part_length(v, mine, r);
        const size_t bytes = here < there ? here : there;
        if (v->way == WHOLE)
            copy(v, out(v, s->me) + part_begin(v, mine, r),
                 in(v, p) + part_begin(v, r, mine), bytes);
        else
            copy(v, out(v, p) + part_begin(v, r, mine),
                 in(v, s->me) + part_begin(v, mine, r), bytes);
    }
}

/* Who sends stores into the output of the next rank, or who receives loads from
 * the one before. */
static void move_sendrecv(struct moves *v)
{
    const struct shared *const s = v->shared;
    const int n = v->m->job->nranks;
    for (int p = 0; p < s->n; p++) {
        const int from = v->way == WHOLE ? p : s->me;
        const int to = v->way == WHOLE ? s->me : p;
        if (s->rank_of[to] == (s->rank_of[from] + 1) % n)
            copy(v, out(v, to), in(v, from), v->lines * TRAFFIC_LINE);
    }
}

/* One way: both share the work, or who receives does it. */
static void move_pingpong(struct moves *v)
{
    const struct shared *const s = v->shared;
    const int last = v->m->job->nranks - 1, me = s->rank_of[s->me];
    const int from = shared_place(s, 0), to = shared_place(s, last);
    if (s->rank_of[from] != 0 || s->rank_of[to] != last)
        return;
    if (v->way == WHOLE && me == last)
        copy(v, out(v, to), in(v, from), v->lines * TRAFFIC_LINE);
    if (v->way == SLICES && (me == 0 || me == last)) {
        const size_t at = begin(v, me == last, 2);
        copy(v, out(v, to) + at, in(v, from) + at, length(v, me == last, 2));
    }
}

static void (*const move[NCOLLECTIVES])(struct moves *) = {
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
    char *const vector = in(v, v->shared->me);
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
    const char *x = out(v, v->shared->me);
    const enum collective c = collective_even(s->collective);
    if (c == REDUCE_SCATTER || c == SCATTER)
        x += part_begin(v, s->rank, s->rank);
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
