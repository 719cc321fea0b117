/* SPDX-License-Identifier: MIT */
/* Synchronous data parallelism: after every step the gradients of all ranks
 * are summed. Each rank scales its own by one over the images of the whole
 * global batch before the sum, so the sum is the mean gradient, and k ranks
 * do what one rank with a k times larger batch does. */
#include "dist/strategy.h"

/* The gradients move into memory that the ranks of a host share, where they
 * are summed without a copy. */
static coll_status open_sync(struct strategy *s)
{
    struct arena *grads = &s->net->grads;
    return coll_comm_count(s->comm) == 1
               ? COLL_OK
               : coll_comm_register(s->comm, grads->x,
                                    arena_bytes(grads->count), &s->own);
}

/* The whole arena at once: one long vector uses links better than one per
 * layer, and nothing overlaps with backward here. */
static coll_status finish(struct strategy *s)
{
    struct arena *grads = &s->net->grads;
    return coll_allreduce(grads->x, grads->x, grads->count, COLL_F32, COLL_SUM,
                          s->comm, NULL);
}

static void close_sync(struct strategy *s)
{
    if (s->own)
        coll_comm_deregister(s->comm, s->own);
}

const struct strategy_ops strategy_sync = {
    .name = "sync",
    .open = open_sync,
    .finish = finish,
    .close = close_sync,
};
