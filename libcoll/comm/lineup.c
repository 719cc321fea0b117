/* SPDX-License-Identifier: MIT */
#include "comm/lineup.h"

#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "comm/hosts.h"
#include "exec/bound.h"

coll_status lineup_open(struct lineup *u, const struct layout *l,
                        enum layout_order order)
{
    coll_status status = COLL_OK;
    *u = (struct lineup){.whole = l, .at = l};
    if (layout_by_hosts(order)) {
        status = layout_of_hosts(l, &u->hosts);
        u->at = &u->hosts;
    }
    if (status == COLL_OK)
        u->order = malloc((size_t)u->at->nranks * sizeof(int));
    if (status == COLL_OK && !u->order)
        status = fail(COLL_ERR_MEMORY, "select", "no memory for %d ranks",
                      l->nranks);
    if (status == COLL_OK)
        status =
            layout_fill_order(u->at, layout_of_positions(order), 0, u->order);
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

static enum algo_order less(enum algo_order a, enum algo_order b)
{
    return a < b ? a : b;
}

/* By hosts: two hosts' sums make a pair where each is one of as many. */
enum algo_order lineup_keeps(const struct lineup *u, const struct algo *algo)
{
    const int n = u->at->nranks;
    for (int i = 0; i < n; i++)
        if (u->order[i] != i)
            return ANY_ORDER;
    const enum algo_order kept =
        kind_reduces(algo->kind) ? algo_keeps(algo, n) : ANY_ORDER;
    return u->at == u->whole                  ? kept
           : !layout_hosts_are_runs(u->whole) ? ANY_ORDER
           : layout_hosts_pair_up(u->whole)   ? less(kept, IN_PAIRS)
                                              : less(kept, RANK_ORDER);
}

/* By hosts, segments are those of the plan or those in which it is run: so many
 * times. */
static int times_of(const struct lineup *u, const struct performance *what)
{
    return u->at == u->whole
               ? 1
               : hosts_segments(what->algo, u->at->nranks, what->segments);
}

int lineup_segments(const struct lineup *u, const struct performance *what)
{
    return times_of(u, what) > 1 ? 1 : what->segments;
}

/* What a rank sends in an alltoall the other takes for a part of another
 * number: all are as long. */
static size_t count_of(const struct lineup *u, const struct performance *what,
                       size_t times)
{
    const size_t n = (size_t)u->at->nranks;
    return what->algo->kind == ALLTOALL ? (what->bytes + n - 1) / n * n
                                        : (what->bytes + times - 1) / times;
}

static struct rehearsal rehearsal_of(const struct lineup *u,
                                     const struct performance *what)
{
    const int times = times_of(u, what);
    struct rehearsal c = {
        .plan = what->algo->plan,
        .nranks = u->at->nranks,
        .segments = lineup_segments(u, what),
        .cast = what->cast,
        .tree = &u->tree,
        .order = u->order,
        .count = count_of(u, what, (size_t)times),
        .elem_bytes = 1,
        .net = layout_net(u->at, what->bytes),
        .traffic = what->traffic,
    };
    c.net.instant = what->instant;
    return c;
}

/* Of the whole operation, if what crosses between hosts takes so long once. */
static double seconds_of(const struct lineup *u, const struct performance *what,
                         double across)
{
    return u->at == u->whole
               ? across
               : hosts_seconds(u->whole, what->algo->kind, what->bytes,
                               times_of(u, what), across);
}

/* As many times one after another. */
static void repeat(struct sim_traffic *traffic, int n, uint64_t times)
{
    for (int r = 0; r < n; r++) {
        struct sim_traffic *t = &traffic[r];
        t->messages *= times;
        t->bytes *= times;
        t->reduced_bytes *= times;
        for (int l = 0; l <= SIM_LEVELS; l++)
            t->crossing[l] *= times;
    }
}

coll_status lineup_rehearse(const struct lineup *u,
                            const struct performance *what, double *seconds)
{
    const struct rehearsal c = rehearsal_of(u, what);
    const coll_status status = rehearse(&c, seconds);
    if (status < 0)
        return status;
    *seconds = seconds_of(u, what, *seconds);
    if (what->traffic)
        repeat(what->traffic, c.nranks, (uint64_t)times_of(u, what));
    return COLL_OK;
}

coll_status lineup_bound(const struct lineup *u, const struct performance *what,
                         double *seconds)
{
    const struct rehearsal c = rehearsal_of(u, what);
    const coll_status status = bound(&c, seconds);
    if (status == COLL_OK)
        *seconds = seconds_of(u, what, *seconds);
    return status;
}

coll_status lineup_cast(const struct lineup *u, const struct performance *what,
                        struct cast *cast)
{
    const struct rehearsal c = rehearsal_of(u, what);
    return cast_make(cast, &c);
}

double lineup_messages(const struct lineup *u, const struct algo *algo,
                       int segments)
{
    const int n = u->at->nranks;
    struct plan p;
    double sends = 0, recvs = 0;
    algo->plan(&p, &(struct plan_shape){n - 1, n, segments, &u->tree, 0});
    for (int i = 0; i < p.nsteps; i++) {
        sends += p.steps[i].kind == PLAN_SEND;
        recvs += p.steps[i].kind == PLAN_RECV;
    }
    const bool planned = p.status == COLL_OK;
    plan_free(&p);
    return planned ? fmax(sends, recvs) * n : INFINITY;
}
