/* SPDX-License-Identifier: MIT */
#include "dist/common.h"

#include "dist/group.h"
#include "dist/strategy.h"

static bool is_denied(coll_status status)
{
    return status == COLL_ERR_UNSUPPORTED || status == COLL_ERR_MEMORY;
}

coll_status common_open(struct common *c, struct strategy *job,
                        struct arena *const vectors[COMMON_VECTORS])
{
    c->job = job;
    coll_status status = group_near(job->comm, &c->comm);
    if (status)
        return status;
    for (int i = 0; i < COMMON_VECTORS && !status; i++)
        status =
            coll_comm_share(c->comm, vectors[i]->x,
                            arena_bytes(vectors[i]->count), &c->handles[i]);
    c->rank = coll_comm_user_rank(c->comm);
    c->nranks = coll_comm_count(c->comm);
    if (!status && c->nranks > 1)
        return COLL_OK;
    common_close(c);
    return is_denied(status) ? COLL_OK : status;
}

void common_close(struct common *c)
{
    for (int i = 0; i < COMMON_VECTORS; i++)
        if (c->handles[i])
            coll_comm_deregister(c->comm, c->handles[i]);
    if (c->comm)
        group_leave(c->comm, c->job->comm);
    *c = (struct common){.nranks = 1};
}

coll_status common_meet(const struct common *c)
{
    if (c->nranks == 1)
        return COLL_OK;
    const enum part before = breakdown_enter(c->job->time, c->job->part);
    const coll_status status = coll_barrier(c->comm, NULL);
    breakdown_enter(c->job->time, before);
    return status;
}
