/* SPDX-License-Identifier: MIT */
/* Sync EASGD (You, Buluc, Demmel, 2017): in a step each worker computes the
 * gradient of its own images by its own weights, and all weights are summed;
 * then each worker moves by its optimiser and towards the centre, and the
 * centre towards the workers (elastic.h).
 *
 *   1  rank 0 has the centre: a broadcast of it, and a sum to rank 0
 *   2  every rank has it and moves it alike: one sum to all
 *   3  as 2, but the sum goes on while the gradient is computed
 *
 * Sums are made in pairs (COLL_DETERMINISM=full), so all three give the same
 * bits, by the paper's trees or not, whichever is faster. */
#include "dist/easgd.h"
#include "dist/elastic.h"

static coll_status to_and_fro(struct strategy *s, struct easgd *e)
{
    const size_t count = s->net->params.count;
    const coll_status status = coll_broadcast(s->centre.x, s->centre.x, count,
                                              COLL_F32, 0, e->comm, NULL);
    return status ? status
                  : coll_reduce(s->net->params.x, e->sum.x, count, COLL_F32,
                                COLL_SUM, 0, e->comm, NULL);
}

static void move_at_root(const struct strategy *s, struct easgd *e,
                         size_t first, size_t count)
{
    if (e->rank == 0)
        easgd_meet(s, e, first, count);
    else
        elastic_distance(e->distance + first, s->net->params.x + first,
                         s->centre.x + first, count);
}

static coll_status send_centre(struct strategy *s)
{
    const struct easgd *e = s->own;
    return coll_broadcast(s->centre.x, s->centre.x, s->centre.count, COLL_F32,
                          0, e->comm, NULL);
}

static const struct easgd_way at_root = {.exchange = to_and_fro,
                                         .move = move_at_root},
                              late = {.exchange = easgd_sum,
                                      .move = easgd_meet},
                              early = {.early = true,
                                       .exchange = easgd_sum,
                                       .move = easgd_meet};

static coll_status open_1(struct strategy *s)
{
    return easgd_open(s, &at_root);
}

static coll_status open_2(struct strategy *s)
{
    return easgd_open(s, &late);
}

static coll_status open_3(struct strategy *s)
{
    return easgd_open(s, &early);
}

const struct strategy_ops strategy_sync_easgd1 = {
    .name = "sync-easgd1",
    .uses = USES_TAU | USES_ALPHA,
    .apart = true,
    .open = open_1,
    .begin = easgd_begin,
    .finish = easgd_finish,
    .prepare = easgd_prepare,
    .settle = easgd_settle,
    .gather = send_centre,
    .close = easgd_close,
};

const struct strategy_ops strategy_sync_easgd2 = {
    .name = "sync-easgd2",
    .uses = USES_TAU | USES_ALPHA,
    .apart = true,
    .open = open_2,
    .begin = easgd_begin,
    .finish = easgd_finish,
    .prepare = easgd_prepare,
    .settle = easgd_settle,
    .close = easgd_close,
};

const struct strategy_ops strategy_sync_easgd3 = {
    .name = "sync-easgd3",
    .uses = USES_TAU | USES_ALPHA,
    .apart = true,
    .open = open_3,
    .begin = easgd_begin,
    .grads_ready = easgd_grads_ready,
    .finish = easgd_finish,
    .prepare = easgd_prepare,
    .settle = easgd_settle,
    .close = easgd_close,
};
