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

coll_status world_create(struct world *w, const struct world_request *q)
{
    struct layout_costs costs = here_assumed;
    const bool alone = q->ranks_per_host == 1;
    *w = (struct world){
        .nranks = q->nranks,
        .nhosts = (q->nranks + q->ranks_per_host - 1) / q->ranks_per_host,
    };
    costs.gamma = q->gamma;
    uint64_t *host_of = alone ? NULL : place(q, w->nhosts);
    int *order = malloc((size_t)q->nranks * sizeof(*order));
    coll_status status = COLL_OK;
    if (!order || (!alone && !host_of))
        status =
            fail(COLL_ERR_MEMORY, "sim", "no memory for %d ranks", q->nranks);
    if (status == COLL_OK)
        status = layout_create(&w->layout, q->nranks, host_of, q->topo, NULL,
                               &costs);
    for (int o = 0; o < NORDERS && status == COLL_OK; o++) {
        status = layout_fill_order(&w->layout, (enum layout_order)o, 0, order);
        if (status == COLL_OK)
            status = layout_fill_tree(&w->layout, order, &w->tree[o]);
    }
    free(host_of);
    free(order);
    if (status < 0)
        world_free(w);
    return status;
}

void world_free(struct world *w)
{
    for (int o = 0; o < NORDERS; o++)
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
