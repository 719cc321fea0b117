/* SPDX-License-Identifier: MIT */
#include "programs/sim_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/here.h"

int world_hosts(const coll_topo *topo)
{
    return coll_topo_count(topo, COLL_TOPO_HOST);
}

static uint64_t *place(const struct world_request *q, int nhosts)
{
    uint64_t *host_of = malloc((size_t)q->nranks * sizeof(*host_of));
    for (int r = 0; host_of && r < q->nranks; r++)
        host_of[r] = (uint64_t)(q->deal ? r % nhosts : r / q->ranks_per_host);
    return host_of;
}

/* Of the ranks, or of the hosts. */
static coll_status fill_tree(struct world *w, enum layout_order order)
{
    struct layout hosts = {.nranks = 0};
    const bool by_hosts = layout_by_hosts(order);
    const struct layout *l = by_hosts ? &hosts : &w->layout;
    int *ranks = malloc((size_t)w->nranks * sizeof(*ranks));
    coll_status status = ranks ? COLL_OK
                               : fail(COLL_ERR_MEMORY, "sim",
                                      "no memory for %d ranks", w->nranks);
    if (status == COLL_OK && by_hosts)
        status = layout_of_hosts(&w->layout, &hosts);
    if (status == COLL_OK)
        status = layout_fill_order(l, layout_of_positions(order), 0, ranks);
    if (status == COLL_OK)
        status = layout_fill_tree(l, ranks, &w->tree[order]);
    layout_free(&hosts);
    free(ranks);
    return status;
}

coll_status world_create(struct world *w, const struct world_request *q)
{
    struct layout_costs costs = here_assumed;
    const bool alone = q->ranks_per_host == 1;
    *w = (struct world){
        .nranks = q->nranks,
        .nhosts = (q->nranks + q->ranks_per_host - 1) / q->ranks_per_host,
    };
    costs.gamma = q->gamma;
    costs.local.overhead = costs.remote.overhead = q->overhead;
    uint64_t *host_of = alone ? NULL : place(q, w->nhosts);
    coll_status status = COLL_OK;
    if (!alone && !host_of)
        status =
            fail(COLL_ERR_MEMORY, "sim", "no memory for %d ranks", q->nranks);
    if (status == COLL_OK)
        status = layout_create(&w->layout, q->nranks, host_of, q->topo, NULL,
                               &costs);
    if (!alone && w->nhosts > 1)
        w->layout.by_hosts = q->deal ? (q->nranks + w->nhosts - 1) / w->nhosts
                                     : q->ranks_per_host;
    for (int o = 0; o < NLINEUPS && status == COLL_OK; o++)
        if (!layout_by_hosts((enum layout_order)o) || w->layout.by_hosts)
            status = fill_tree(w, (enum layout_order)o);
    free(host_of);
    if (status < 0)
        world_free(w);
    return status;
}

void world_free(struct world *w)
{
    for (int o = 0; o < NLINEUPS; o++)
        layout_free_tree(&w->tree[o]);
    layout_free(&w->layout);
}

void world_print(const struct world *w, char *text, size_t bytes)
{
    const struct sim_net *net = &w->layout.net;
    int length = snprintf(text, bytes, "%d rank%s on %d host%s", w->nranks,
                          w->nranks == 1 ? "" : "s", w->nhosts,
                          w->nhosts == 1 ? "" : "s");
    for (int l = 0; l < net->nlevels && length < (int)bytes; l++)
        if (net->level[l].ngroups < w->nhosts)
            length +=
                snprintf(text + length, bytes - (size_t)length, ", %d %ss",
                         net->level[l].ngroups, w->layout.level_name[l]);
}
