/* SPDX-License-Identifier: MIT */
/* Rounds of the control plane, once a communicator is in use. */
#include "base/log.h"
#include "comm/comm.h"

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
