/* SPDX-License-Identifier: MIT */
/* Rounds of the control plane, once a communicator is in use. */
#include <stdlib.h>

#include "base/log.h"
#include "comm/calls.h"
#include "comm/request.h"

/* For the hub's own deadline to come first: it knows who is missing. */
static const double grace_seconds = 1;

struct meeting {
    coll_comm *comm;
    void *all;
};

static coll_status everyone_here(void *context)
{
    const struct meeting *m = context;
    return bootstrap_allgather_test(m->comm->bootstrap, m->all);
}

coll_status comm_meet(coll_comm *c, const void *mine, void *all, size_t bytes,
                      const char *what)
{
    struct meeting m = {c, all};
    coll_status status = bootstrap_allgather_start(c->bootstrap, mine, bytes);
    if (status < 0)
        return status;
    c->meets = true;
    status =
        comm_wait(c, everyone_here, &m, c->join_seconds + grace_seconds, what);
    c->meets = false;
    return status;
}

static bool differ(const uint32_t *tags, int n)
{
    for (int r = 1; r < n; r++)
        if (tags[r] != tags[0])
            return true;
    return false;
}

coll_status comm_meet_alike(coll_comm *c, const char *what)
{
    if (!c->bootstrap)
        return COLL_OK;
    uint32_t *tags = malloc((size_t)c->nranks * sizeof(*tags));
    if (!tags)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks",
                    c->nranks);
    coll_status status = comm_meet(c, &c->history, tags, sizeof(*tags), what);
    if (status == COLL_OK && differ(tags, c->nranks)) {
        status = fail(COLL_ERR_MISMATCH, "comm",
                      "rank %d: other ranks have made other calls before %s",
                      c->rank, what);
        request_fail(c, status);
    }
    free(tags);
    return status;
}
