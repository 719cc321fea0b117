/* SPDX-License-Identifier: MIT */
#include "moves.h"

static size_t part_length(const struct moves *v, int mine, int r)
{
    return moves_part_begin(v, mine, r + 1) - moves_part_begin(v, mine, r);
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
                 moves_part_begin(v, r, r) + from - before, to - from);
        before = after;
    }
}

static void reduce_part(struct moves *v, int place, size_t at, size_t bytes)
{
    moves_combine(v, at, bytes, place);
}

/* Where the input of a place is that belongs at `at` of S. In place it is
 * there. */
static const char *part_in(const struct moves *v, int place, size_t at)
{
    const int r = v->shared->rank_of[place];
    return moves_in(v, place) + at
           - (v->m->shape.in_place ? 0 : moves_part_begin(v, r, r));
}

/* Of several hosts, also what this one must pass on. */
void move_reduce_scatter(struct moves *v)
{
    share(v, true, reduce_part);
}

static void spread_part(struct moves *v, int place, size_t at, size_t bytes)
{
    int ndst = 0;
    v->src[0] = part_in(v, place, at);
    for (int p = 0; p < v->shared->n; p++)
        if (moves_out(v, p) + at != v->src[0])
            v->dst[ndst++] = moves_out(v, p) + at;
    traffic(v->dst, ndst, v->src, 1, bytes, v->stream);
}

void move_allgather(struct moves *v)
{
    const struct shared *const s = v->shared;
    if (v->way == SLICES)
        share(v, false, spread_part);
    for (int i = 0; v->way == WHOLE && i < s->n; i++) {
        const int p = (s->me + i) % s->n, r = s->rank_of[p];
        const size_t at = moves_part_begin(v, r, r);
        moves_copy(v, moves_out(v, s->me) + at, part_in(v, p, at),
                   part_length(v, r, r));
    }
}

static void gather_part(struct moves *v, int place, size_t at, size_t bytes)
{
    moves_copy(v, moves_out(v, v->root) + at, part_in(v, place, at), bytes);
}

/* The part of each rank of this host, wherever the root is. */
void move_gather(struct moves *v)
{
    const struct shared *const s = v->shared;
    if (v->way == SLICES)
        share(v, false, gather_part);
    for (int p = 0; v->way == WHOLE && p < s->n && s->me == v->root; p++) {
        const int r = s->rank_of[p];
        gather_part(v, p, moves_part_begin(v, r, r), part_length(v, r, r));
    }
}

static void scatter_part(struct moves *v, int place, size_t at, size_t bytes)
{
    moves_copy(v, moves_out(v, place) + at, moves_in(v, v->root) + at, bytes);
}

void move_scatter(struct moves *v)
{
    share(v, false, scatter_part);
}

void move_alltoall(struct moves *v)
{
    const struct shared *const s = v->shared;
    const int mine = s->rank_of[s->me];
    for (int i = 0; i < s->n; i++) {
        const int p = (s->me + i) % s->n, r = s->rank_of[p];
        const size_t here = part_length(v, r, mine);
        const size_t there = part_length(v, mine, r);
        const size_t bytes = here < there ? here : there;
        if (v->way == WHOLE)
            moves_copy(v, moves_out(v, s->me) + moves_part_begin(v, mine, r),
                       moves_in(v, p) + moves_part_begin(v, r, mine), bytes);
        else
            moves_copy(v, moves_out(v, p) + moves_part_begin(v, r, mine),
                       moves_in(v, s->me) + moves_part_begin(v, mine, r),
                       bytes);
    }
}
