/* SPDX-License-Identifier: MIT */
#include "dist/common.h"

#include "dist/group.h"
#include "dist/strategy.h"

enum { ALL = COMMON_VECTORS + 1 };

/* Ranks then have copies, as they would on several hosts. */
static bool is_denied(coll_status status)
{
    return status == COLL_ERR_UNSUPPORTED || status == COLL_ERR_MEMORY
           || status == COLL_ERR_SYSTEM;
}

/* Two, in turn from meeting to meeting: so each is set back to 0 while nobody
 * looks at it. */
static atomic_uint *taken_in(const struct common *c, unsigned round)
{
    return (atomic_uint *)(void *)c->board.x + round % 2;
}

static coll_status share(struct common *c)
{
    coll_status status = COLL_OK;
    for (int i = 0; i < ALL && !status; i++)
        status =
            coll_comm_share(c->comm, c->vectors[i]->x,
                            arena_bytes(c->vectors[i]->count), &c->handles[i]);
    return status;
}

coll_status common_open(struct common *c, struct strategy *job,
                        struct arena *const vectors[COMMON_VECTORS])
{
    c->job = job;
    for (int i = 0; i < COMMON_VECTORS; i++)
        c->vectors[i] = vectors[i];
    c->vectors[COMMON_VECTORS] = &c->board;
    if (arena_alloc(&c->board, 2))
        return COLL_ERR_MEMORY;
    coll_status status = group_near(job->comm, &c->comm);
    if (!status && coll_comm_count(c->comm) > 1) {
        status = share(c);
        if (!status) {
            c->rank = coll_comm_user_rank(c->comm);
            c->nranks = coll_comm_count(c->comm);
            return COLL_OK;
        }
    }
    common_close(c);
    return is_denied(status) ? COLL_OK : status;
}

void common_close(struct common *c)
{
    group_leave(c->comm, c->job->comm); /* first, as the rest takes its time */
    for (int i = 0; i < ALL; i++)
        if (c->handles[i] && coll_comm_deregister(c->job->comm, c->handles[i]))
            c->vectors[i]->x = NULL;
    arena_free(&c->board);
    *c = (struct common){.nranks = 1};
}

coll_status common_meet(struct common *c)
{
    if (c->nranks == 1)
        return COLL_OK;
    const enum part before = breakdown_enter(c->job->time, c->job->part);
    if (c->rank == 0)
        atomic_store(taken_in(c, c->round + 1), 0);
    const coll_status status = coll_barrier(c->comm, NULL);
    c->round++;
    breakdown_enter(c->job->time, before);
    return status;
}

atomic_uint *common_taken(const struct common *c)
{
    return taken_in(c, c->round);
}
