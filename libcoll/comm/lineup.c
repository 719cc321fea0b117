/* SPDX-License-Identifier: MIT */
#include "comm/lineup.h"

#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "comm/hosts.h"
#include "exec/bound.h"

/* What the ranks of the largest host take before and after: assumed, but for
 * the bytes, which are copied once where a message there is copied twice, and
 * for the work of a rank that has to wait for a processor. */
static double seconds_inside(const struct layout *l, enum coll_kind kind,
                             size_t bytes)
{
    static const double line = 0.15e-6, least = 0.01e-6;
    const double each = fmax(least, l->net.link.overhead);
    const bool parts = kind == REDUCE_SCATTER || kind == ALLGATHER;
    const double exchanges = (bytes >= HOSTS_SLICES_MIN ? 4 : 2)
                             * (parts ? 0.5 * layout_hosts(l) : 1);
    const double passes = kind == BARRIER ? 0 : kind == ALLREDUCE ? 2 : 1;
    return exchanges * (line + each * l->by_hosts)
           + passes * (double)bytes * l->net.link.beta / 2;
}

coll_status lineup_open(struct lineup *u, const struct layout *l,
                        enum layout_order order)
{
    coll_status status = COLL_OK;
    *u = (struct lineup){.whole = l, .at = l};
    if (order == ORDER_HOSTS) {
        status = layout_of_hosts(l, &u->hosts);
        u->at = &u->hosts;
        order = ORDER_BLOCK;
    }
    if (status == COLL_OK)
        u->order = malloc((size_t)u->at->nranks * sizeof(int));
    if (status == COLL_OK && !u->order)
        status = fail(COLL_ERR_MEMORY, "select", "no memory for %d ranks",
                      l->nranks);
    if (status == COLL_OK)
        status = layout_fill_order(u->at, order, 0, u->order);
    if (status == COLL_OK)
        status = layout_fill_tree(u->at, u->order, &u->tree);
    return status;
}

void lineup_close(struct lineup *u)
{
    free(u->order);
    layout_free_tree(&u->tree);
    layout_free(&u->hosts);
}

static struct rehearsal rehearsal_of(const struct lineup *u,
                                     const struct performance *what)
{
    const bool by_hosts = u->at != u->whole;
    struct rehearsal c = {
        .plan = what->algo->plan,
        .nranks = u->at->nranks,
        .segments = what->segments,
        .tree = &u->tree,
        .order = u->order,
        .count = what->bytes,
        .elem_bytes = 1,
        .net = layout_net(u->at, what->bytes),
        .traffic = by_hosts ? NULL : what->traffic,
    };
    c.net.instant = what->instant;
    return c;
}

static double seconds_around(const struct lineup *u,
                             const struct performance *what)
{
    return u->at == u->whole
               ? 0
               : seconds_inside(u->whole, what->algo->kind, what->bytes);
}

coll_status lineup_rehearse(const struct lineup *u,
                            const struct performance *what, double *seconds)
{
    const struct rehearsal c = rehearsal_of(u, what);
    const coll_status status = rehearse(&c, seconds);
    *seconds += seconds_around(u, what);
    return status;
}

coll_status lineup_bound(const struct lineup *u, const struct performance *what,
                         double *seconds)
{
    const struct rehearsal c = rehearsal_of(u, what);
    const coll_status status = bound(&c, seconds);
    *seconds += seconds_around(u, what);
    return status;
}

double lineup_messages(const struct lineup *u, const struct algo *algo,
                       int segments)
{
    const int n = u->at->nranks;
    struct plan p;
    double sends = 0, recvs = 0;
    algo->plan(&p, &(struct plan_shape){n - 1, n, segments, &u->tree});
    for (int i = 0; i < p.nsteps; i++) {
        sends += p.steps[i].kind == PLAN_SEND;
        recvs += p.steps[i].kind == PLAN_RECV;
    }
    const bool planned = p.status == COLL_OK;
    plan_free(&p);
    return planned ? fmax(sends, recvs) * n : INFINITY;
}
