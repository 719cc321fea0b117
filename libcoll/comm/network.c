/* SPDX-License-Identifier: MIT */
/* What the job's network looks like, and what each candidate costs on it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* All that a layout is made of. */
struct network {
    coll_topo *topo; /* NULL: nothing is described */
    int *host_at;
    struct layout_costs costs;
    struct probe_groups groups;
    struct crowd crowd;
};

static void network_free(struct network *n)
{
    free(n->host_at);
    coll_topo_free(n->topo);
    probe_free(&n->groups);
    crowd_free(&n->crowd);
}

static struct links get_links(const struct network *n)
{
    return (struct links){
        .inside = n->groups.inside,
        .across = n->groups.ngroups > 1 ? n->groups.across : n->groups.inside,
        .local = n->groups.local,
        .shared = n->groups.shared,
        .turn = n->crowd.turn,
        .machine = n->crowd.machine,
    };
}

static void set_links(struct network *n, const struct links *l)
{
    n->groups.inside = n->costs.remote = l->inside;
    n->groups.across = l->across;
    n->groups.local = l->local;
    if (l->local.beta > 0)
        n->costs.local = l->local;
    n->groups.shared = l->shared;
    n->crowd.turn = l->turn;
    n->crowd.machine = l->machine;
}

static void log_links(const struct links *l, const char *who)
{
    log_line(COLL_LOG_INFO, "probe",
             "%s: inside alpha %.3g us, overhead %.3g us, %.3g GB/s; across "
             "%.3g us, %.3g us, %.3g GB/s; a group's link %.3g GB/s; in a host "
             "%.3g us, %.3g us, %.3g GB/s",
             who, 1e6 * l->inside.alpha, 1e6 * l->inside.overhead,
             1e-9 / l->inside.beta, 1e6 * l->across.alpha,
             1e6 * l->across.overhead, 1e-9 / l->across.beta,
             l->shared > 0 ? 1e-9 / l->shared : 0, 1e6 * l->local.alpha,
             1e6 * l->local.overhead,
             l->local.beta > 0 ? 1e-9 / l->local.beta : 0);
}

/* Measures what COLL_CLUSTER does not say. */
static coll_status probe(coll_comm *c, struct network *n)
{
    char found[64];
    int *host = malloc((size_t)c->nranks * sizeof(int));
    if (!host)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks",
                    c->nranks);
    const int nhosts = layout_number_hosts(c->nranks, c->host_of, host);
    coll_status status = probe_hosts(c, host, nhosts, &n->groups);
    if (status == COLL_OK)
        status = crowd_measure(c, host, nhosts, &n->groups, &n->crowd);
    free(host);
    if (status < 0)
        return status;
    c->links = get_links(n);
    set_links(n, &c->links);
    if (c->rank != 0)
        return COLL_OK;
    snprintf(found, sizeof(found), "%d hosts in %d groups after %.1f ms",
             nhosts, n->groups.ngroups, 1e3 * n->groups.seconds);
    log_links(&c->links, found);
    log_line(COLL_LOG_INFO, "probe",
             "rank 0 sent %u messages with %zu KiB; %u times all told all",
             n->groups.cost.messages, n->groups.cost.bytes >> 10,
             n->groups.cost.gathers);
    phases_tell(&n->groups.cost);
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

static coll_status look(coll_comm *c, struct network *n)
{
    *n = (struct network){.costs = here_assumed, .groups = {.ngroups = 1}};
    coll_status status = here_cluster(&n->topo);
    if (status == COLL_OK)
        status = described_hosts(c, n->topo, &n->host_at);
    if (c->calibrates && c->nranks > 1)
        measure_work(c, &n->costs);
    if (status == COLL_OK && c->nhosts > 1 && c->calibrates)
        status = probe(c, n);
    return status;
}

/* May be called again, when links are known better. */
static coll_status lay_out(coll_comm *c, const struct network *n)
{
    const struct layout_groups groups = {
        .ngroups = n->groups.ngroups,
        .group_of = n->groups.group_of,
        .link = n->groups.across,
        .shared = n->groups.shared,
    };
    const int by_hosts = c->layout.by_hosts;
    layout_free(&c->layout);
    coll_status status = layout_create_on(
        &c->layout, c->nranks, c->host_of,
        (struct layout_cluster){n->topo, n->host_at}, &groups, &n->costs);
    if (status == COLL_OK && n->crowd.nmachines > 0)
        status = layout_crowd(&c->layout, &n->crowd);
    c->layout.by_hosts = by_hosts;
    return status;
}

/* Rank 0: what jobs before this one measured counts, too. What hosts found out
 * about far ones before they were connected (c->ways) is not measured again. */
static coll_status settle(coll_comm *c, struct network *n,
                          const struct links *first, bool *again)
{
    char said[64];
    struct links_history history;
    struct links links = c->links;
    if (!(links.inside.beta > 0) || !store_load_links(c, &history, !first))
        return COLL_OK;
    const enum links_verdict verdict =
        links_settle(&links, &history, first, !c->ways);
    *again = verdict == LINKS_ONCE_MORE;
    c->moved = verdict == LINKS_CHANGED;
    if (verdict == LINKS_SETTLED) {
        snprintf(said, sizeof(said), "the middle of this and %d earlier jobs",
                 history.n < LINKS_KEPT ? history.n : LINKS_KEPT - 1);
        log_links(&links, said);
        set_links(n, &links);
        return lay_out(c, n);
    }
    snprintf(said, sizeof(said), "%d earlier jobs measured others; %s",
             history.n,
             *again     ? "once more"
             : c->moved ? "they have changed"
                        : "this counts");
    links = links_middle(&history);
    log_links(&links, said);
    return COLL_OK;
}

static coll_status price_here(coll_comm *c, struct network *n,
                              const struct links *first)
{
    const double begun = comm_clock();
    struct prices *prices = &c->select.prices;
    bool again = false;
    coll_status status = settle(c, n, first, &again);
    prices->again = again;
    if (status < 0 || again)
        return status;
    status = price_within(prices, &c->layout,
                          &(struct price_limits){
                              .messages = PRICE_MAX_MESSAGES,
                              .seconds = affordable_seconds(c),
                              .in_pairs = c->determinism == DETERMINISM_FULL,
                          });
    if (status < 0)
        return status;
    prices->links = get_links(n);
    if (c->adapts)
        store_load(c);
    log_line(COLL_LOG_INFO, "select",
             "%d candidates priced by %u rehearsals in %.1f ms", prices->nrows,
             prices->rehearsals, 1e3 * (comm_clock() - begun));
    return COLL_OK;
}

/* All but rank 0 then lay out what rank 0 has priced. first: what was measured
 * at first, if this is the second time; else NULL. */
static coll_status price(coll_comm *c, struct network *n,
                         const struct links *first)
{
    struct prices *prices = &c->select.prices;
    coll_status status = c->rank == 0 ? price_here(c, n, first) : COLL_OK;
    if (status == COLL_OK && c->nranks > 1)
        status = spread(c, prices, sizeof(*prices));
    if (status < 0 || prices->again)
        return status;
    if (prices->layout != layout_digest(&c->layout))
        return fail(COLL_ERR_MISMATCH, "comm",
                    "rank %d (host %s) sees other groups of hosts than rank 0: "
                    "is COLL_CLUSTER another file there?",
                    c->rank, c->ranks[c->rank].hostname);
    if (c->rank == 0 || !(c->links.inside.beta > 0)
        || !memcmp(&c->links, &prices->links, sizeof(c->links)))
        return COLL_OK;
    set_links(n, &prices->links);
    return lay_out(c, n);
}

static coll_status measure_and_price(coll_comm *c, struct network *n)
{
    coll_status status = price(c, n, NULL);
    if (status < 0 || !c->select.prices.again)
        return status;
    const struct links first = c->links;
    probe_free(&n->groups);
    crowd_free(&n->crowd);
    status = probe(c, n);
    if (status == COLL_OK)
        status = lay_out(c, n);
    return status == COLL_OK ? price(c, n, &first) : status;
}

coll_status comm_price(coll_comm *c)
{
    struct network n = {.topo = NULL};
    coll_status status;
    if (c->same && copy_serves(c)) {
        status = copy_layout(c);
    } else {
        status = look(c, &n);
        if (status == COLL_OK)
            status = lay_out(c, &n);
    }
    if (status == COLL_OK)
        status = copy_fits(c) ? copy_prices(c) : measure_and_price(c, &n);
    if (status == COLL_OK && c->layout.by_hosts)
        status = layout_of_hosts(&c->layout, &c->hosts.layout);
    network_free(&n);
    c->select.adapts = c->nranks > 1 && c->adapts;
    c->select.alone = c->nranks == 1;
    return status;
}
