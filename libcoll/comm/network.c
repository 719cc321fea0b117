/* SPDX-License-Identifier: MIT */
/* What the job's network looks like, and what each candidate costs on it. */
#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "comm/copy.h"
#include "comm/crowd.h"
#include "comm/described.h"
#include "comm/here.h"
#include "comm/probe.h"
#include "comm/roofline.h"
#include "comm/store.h"

static coll_status spreads(void *context)
{
    return exec_progress(context);
}

/* Rank 0's bytes to all, over the transports: the control plane is a star. */
static coll_status spread(coll_comm *c, void *bytes, size_t count)
{
    struct plan plan;
    struct exec exec;
    plan_broadcast_binomial_tree(&plan, &(struct plan_shape){
                                            .rank = c->rank,
                                            .nranks = c->nranks,
                                            .segments = 1,
                                        });
    coll_status status = plan.status;
    if (status == COLL_OK)
        status = exec_init(&exec, &plan, c->to);
    if (status == COLL_OK) {
        exec_start(&exec, &(struct exec_call){.in = bytes,
                                              .out = bytes,
                                              .count = count,
                                              .elem_bytes = 1});
        status = comm_wait(c, spreads, &exec, c->join_seconds,
                           "the exchange of prices");
        if (status < 0)
            comm_cancel(c);
        exec_free(&exec);
    }
    plan_free(&plan);
    return status;
}

/* Measures what COLL_CLUSTER does not say. */
static coll_status probe(coll_comm *c, struct layout_costs *costs,
                         struct probe_groups *groups, struct crowd *crowd)
{
    int *host = malloc((size_t)c->nranks * sizeof(int));
    if (!host)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks",
                    c->nranks);
    const int nhosts = layout_number_hosts(c->nranks, c->host_of, host);
    coll_status status = probe_hosts(c, host, nhosts, groups);
    if (status == COLL_OK)
        status = crowd_measure(c, host, nhosts, groups, crowd);
    free(host);
    if (status < 0)
        return status;
    costs->remote = groups->inside;
    if (groups->local.beta > 0)
        costs->local = groups->local;
    if (c->rank == 0)
        log_line(COLL_LOG_INFO, "probe",
                 "%d hosts in %d groups after %.1f ms; inside alpha %.3g us, "
                 "overhead %.3g us, %.3g GB/s; across %.3g us, %.3g us, %.3g "
                 "GB/s; a group's link %.3g GB/s; in a host %.3g us, %.3g us, "
                 "%.3g GB/s",
                 nhosts, groups->ngroups, 1e3 * groups->seconds,
                 1e6 * groups->inside.alpha, 1e6 * groups->inside.overhead,
                 1e-9 / groups->inside.beta, 1e6 * groups->across.alpha,
                 1e6 * groups->across.overhead, 1e-9 / groups->across.beta,
                 groups->shared > 0 ? 1e-9 / groups->shared : 0,
                 1e6 * costs->local.alpha, 1e6 * costs->local.overhead,
                 1e-9 / costs->local.beta);
    if (c->rank == 0)
        log_line(COLL_LOG_INFO, "probe",
                 "rank 0 sent %u messages with %zu KiB; %u times all told all",
                 groups->cost.messages, groups->cost.bytes >> 10,
                 groups->cost.gathers);
    if (c->rank == 0)
        phases_tell(&groups->cost);
    return COLL_OK;
}

/* Adding and copying, in the caches and beyond them, all ranks at the same
 * time. */
static void measure_work(const coll_comm *c, struct layout_costs *costs)
{
    const struct layout *known = copy_serves(c) ? &c->parent->layout : NULL;
    costs->gamma = known ? known->net.gamma : roofline_sum();
    if (c->nhosts == 1) /* by plans only if somebody asks for it */
        return;
    costs->cache = here_cache() / (2 * (size_t)c->local_ranks);
    costs->copy = costs->gamma * 2 / 3;
    costs->memory = known ? known->memory : roofline_memory();
}

/* What is rehearsed must not depend on how fast rank 0 is if algorithms are to
 * be the same in every job. */
static double affordable_seconds(const coll_comm *c)
{
    if (c->determinism == DETERMINISM_LAYOUT)
        return INFINITY;
    return c->select.node.nranks ? PRICE_NODE_SECONDS : PRICE_MAX_SECONDS;
}

static coll_status lay_out(coll_comm *c)
{
    coll_topo *topo = NULL;
    struct layout_costs costs = here_assumed;
    struct probe_groups found = {.ngroups = 1};
    struct crowd crowd = {.nmachines = 0};
    int *host_at = NULL;
    coll_status status = here_cluster(&topo);
    if (status == COLL_OK)
        status = described_hosts(c, topo, &host_at);
    if (c->calibrates && c->nranks > 1)
        measure_work(c, &costs);
    if (status == COLL_OK && c->nhosts > 1 && c->calibrates)
        status = probe(c, &costs, &found, &crowd);
    const struct layout_groups groups = {
        .ngroups = found.ngroups,
        .group_of = found.group_of,
        .link = found.across,
        .shared = found.shared,
    };
    const int by_hosts = c->layout.by_hosts;
    if (status == COLL_OK)
        status = layout_create_on(&c->layout, c->nranks, c->host_of,
                                  (struct layout_cluster){topo, host_at},
                                  &groups, &costs);
    if (status == COLL_OK && crowd.nmachines > 0)
        status = layout_crowd(&c->layout, &crowd);
    c->layout.by_hosts = by_hosts;
    free(host_at);
    coll_topo_free(topo);
    probe_free(&found);
    crowd_free(&crowd);
    return status;
}

static coll_status price(coll_comm *c)
{
    const double begun = comm_clock();
    coll_status status = COLL_OK;
    if (c->rank == 0)
        status =
            price_within(&c->select.prices, &c->layout,
                         &(struct price_limits){
                             .messages = PRICE_MAX_MESSAGES,
                             .seconds = affordable_seconds(c),
                             .in_pairs = c->determinism == DETERMINISM_FULL,
                         });
    if (status == COLL_OK && c->rank == 0 && c->adapts)
        store_load(c);
    if (status == COLL_OK && c->rank == 0)
        log_line(COLL_LOG_INFO, "select",
                 "%d candidates priced by %u rehearsals in %.1f ms",
                 c->select.prices.nrows, c->select.prices.rehearsals,
                 1e3 * (comm_clock() - begun));
    if (status == COLL_OK && c->nranks > 1)
        status = spread(c, &c->select.prices, sizeof(c->select.prices));
    if (status == COLL_OK
        && c->select.prices.layout != layout_digest(&c->layout))
        status = fail(COLL_ERR_MISMATCH, "comm",
                      "rank %d (host %s) sees other groups of hosts than rank "
                      "0: is COLL_CLUSTER another file there?",
                      c->rank, c->ranks[c->rank].hostname);
    return status;
}

coll_status comm_price(coll_comm *c)
{
    coll_status status =
        c->same && copy_serves(c) ? copy_layout(c) : lay_out(c);
    if (status == COLL_OK && c->layout.by_hosts)
        status = layout_of_hosts(&c->layout, &c->hosts.layout);
    if (status == COLL_OK)
        status = copy_fits(c) ? copy_prices(c) : price(c);
    c->select.adapts = c->nranks > 1 && c->adapts;
    return status;
}
