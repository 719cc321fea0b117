/* SPDX-License-Identifier: MIT */
#include "moves.h"

/* Where part `part` of `parts` of a vector of S begins. Cut at whole lines. */
static size_t begin(const struct moves *v, int part, int parts)
{
    return v->lines * (size_t)part / (size_t)parts * TRAFFIC_LINE;
}

static size_t length(const struct moves *v, int part, int parts)
{
    return begin(v, part + 1, parts) - begin(v, part, parts);
}

void move_allreduce(struct moves *v)
{
    const struct shared *const s = v->shared;
    if (v->way == SLICES)
        moves_combine(v, begin(v, s->me, s->n), length(v, s->me, s->n), -1);
    else
        moves_combine(v, 0, v->lines * TRAFFIC_LINE, s->me);
}

void move_reduce(struct moves *v)
{
    const struct shared *const s = v->shared;
    if (v->way == SLICES)
        moves_combine(v, begin(v, s->me, s->n), length(v, s->me, s->n),
                      v->root);
    else if (s->me == v->root)
        moves_combine(v, 0, v->lines * TRAFFIC_LINE, v->root);
}

/* In place the root has what it wants. */
void move_broadcast(struct moves *v)
{
    const struct shared *const s = v->shared;
    if (v->way == WHOLE) {
        moves_copy(v, moves_out(v, s->me), moves_in(v, v->root),
                   v->lines * TRAFFIC_LINE);
        return;
    }
    const size_t at = begin(v, s->me, s->n);
    int ndst = 0;
    v->src[0] = moves_in(v, v->root) + at;
    for (int p = 0; p < s->n; p++)
        if (moves_out(v, p) != moves_in(v, v->root))
            v->dst[ndst++] = moves_out(v, p) + at;
    traffic(v->dst, ndst, v->src, 1, length(v, s->me, s->n), v->stream);
}

/* Who sends stores into the output of the next rank, or who receives loads from
 * the one before. */
void move_sendrecv(struct moves *v)
{
    const struct shared *const s = v->shared;
    const int n = v->m->job->nranks;
    for (int p = 0; p < s->n; p++) {
        const int from = v->way == WHOLE ? p : s->me;
        const int to = v->way == WHOLE ? s->me : p;
        if (s->rank_of[to] == (s->rank_of[from] + 1) % n)
            moves_copy(v, moves_out(v, to), moves_in(v, from),
                       v->lines * TRAFFIC_LINE);
    }
}

/* One way: both share the work, or who receives does it. */
void move_pingpong(struct moves *v)
{
    const struct shared *const s = v->shared;
    const int last = v->m->job->nranks - 1, me = s->rank_of[s->me];
    const int from = shared_place(s, 0), to = shared_place(s, last);
    if (s->rank_of[from] != 0 || s->rank_of[to] != last)
        return;
    if (v->way == WHOLE && me == last)
        moves_copy(v, moves_out(v, to), moves_in(v, from),
                   v->lines * TRAFFIC_LINE);
    if (v->way == SLICES && (me == 0 || me == last)) {
        const size_t at = begin(v, me == last, 2);
        moves_copy(v, moves_out(v, to) + at, moves_in(v, from) + at,
                   length(v, me == last, 2));
    }
}
