/* SPDX-License-Identifier: MIT */
/* Elastic averaging without a server, every tau steps (Li and others, swFLOW,
 * 2021; the three ways to do it are ours): the sums go on while the gradient is
 * computed.
 *
 *   replicated    every rank has the centre: one sum to all
 *   sharded       a rank has one part of it: those of all are gathered, and
 *                 the weights are summed part by part to their owners. As many
 *                 bytes travel, and the centre takes less memory
 *   hierarchical  as replicated, with sums by level: inside each group of
 *                 ranks, then between the groups
 *
 * The first two add as sync EASGD does (sync_easgd.c), the first without trees
 * unless COLL_ALGO says so; the last one in the same order on as many ranks of
 * as many hosts. */
#include <stdlib.h>
#include <string.h>

#include "dist/easgd.h"
#include "dist/elastic.h"

/* Rank r has the counts[r] parameters from number firsts[r] on. */
struct shards {
    size_t *counts, *firsts;
    struct arena centre; /* this rank's part */
};

static void adopt(struct strategy *s)
{
    const struct easgd *e = s->own;
    struct shards *k = e->own;
    if (k)
        memcpy(k->centre.x, s->centre.x + k->firsts[e->rank],
               k->centre.count * sizeof(float));
}

static coll_status open_shards(struct strategy *s, struct easgd *e)
{
    const size_t n = (size_t)e->workers, count = s->net->params.count;
    struct shards *k = e->own = calloc(1, sizeof(*k));
    if (!k || !(k->counts = calloc(2 * n, sizeof(*k->counts))))
        return COLL_ERR_MEMORY;
    k->firsts = k->counts + n;
    for (size_t r = 0; r < n; r++) {
        k->firsts[r] = count * r / n;
        k->counts[r] = count * (r + 1) / n - k->firsts[r];
    }
    if (arena_alloc(&e->sum, k->counts[e->rank])
        || arena_alloc(&k->centre, k->counts[e->rank]))
        return COLL_ERR_MEMORY;
    s->bytes += arena_bytes(k->centre.count);
    e->distance = s->centre.x;
    adopt(s);
    return COLL_OK;
}

static void close_shards(struct easgd *e)
{
    struct shards *k = e->own;
    if (!k)
        return;
    arena_free(&k->centre);
    free(k->counts);
    free(k);
}

static coll_status gather_shards(struct strategy *s, coll_request **request)
{
    const struct easgd *e = s->own;
    const struct shards *k = e->own;
    return coll_allgather_v(k->centre.x, s->centre.x, k->counts, k->firsts,
                            COLL_F32, e->comm, request);
}

static coll_status exchange_shards(struct strategy *s, struct easgd *e)
{
    const struct shards *k = e->own;
    const coll_status status = gather_shards(s, &e->requests[0]);
    return status ? status
                  : coll_reduce_scatter_v(s->net->params.x, e->sum.x, k->counts,
                                          COLL_F32, COLL_SUM, e->comm,
                                          &e->requests[1]);
}

static void move_shard(const struct strategy *s, struct easgd *e, size_t first,
                       size_t count)
{
    const struct shards *k = e->own;
    const size_t mine = k->firsts[e->rank], end = mine + k->centre.count,
                 from = first > mine ? first : mine,
                 to = first + count < end ? first + count : end;
    if (from < to)
        elastic_centre(k->centre.x + (from - mine), e->sum.x + (from - mine),
                       e->alpha, e->workers, to - from);
    elastic_distance(e->distance + first, s->net->params.x + first,
                     s->centre.x + first, count);
}

static const struct easgd_way ways[] = {
    [CENTRE_REPLICATED] = {.early = true,
                           .alike = true,
                           .exchange = easgd_sum,
                           .move = easgd_meet   },
    [CENTRE_SHARDED] = {.early = true,
                           .open = open_shards,
                           .exchange = exchange_shards,
                           .move = move_shard,
                           .close = close_shards},
    [CENTRE_HIERARCHICAL] = {.early = true,
                           .algorithm = "allreduce:hierarchical",
                           .exchange = easgd_sum,
                           .move = easgd_meet},
};

static coll_status open_decentralized(struct strategy *s)
{
    return easgd_open(s, &ways[s->settings.centre]);
}

static coll_status gather(struct strategy *s)
{
    return s->settings.centre == CENTRE_SHARDED ? gather_shards(s, NULL)
                                                : COLL_OK;
}

const struct strategy_ops strategy_decentralized = {
    .name = "decentralized-easgd",
    .uses = USES_TAU | USES_ALPHA | USES_CENTRE,
    .apart = true,
    .open = open_decentralized,
    .begin = easgd_begin,
    .grads_ready = easgd_grads_ready,
    .finish = easgd_finish,
    .prepare = easgd_prepare,
    .settle = easgd_settle,
    .gather = gather,
    .adopt = adopt,
    .close = easgd_close,
};
