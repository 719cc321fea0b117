/* SPDX-License-Identifier: MIT */
#include "network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "comm/here.h"
#include "comm/layout.h"

static char wrong[600];

/* The figures of the layout that links can have, else a complaint. */
static const char *take_figures(struct network *net)
{
    const struct layout *l = net->layout;
    const int n = net->nlevels = l->net.nlevels;
    if (n == 0)
        return "one host is no network";
    net->port = 1 / l->net.level[n - 1].link.beta;
    for (int k = n - 1; k >= 0; k--) {
        const struct sim_level *from = &l->net.level[k];
        if (fabs(from->link.beta * net->port - 1) > 1e-9
            || (k < n - 1 && from->link.alpha < net->level[k + 1].alpha)) {
            snprintf(wrong, sizeof(wrong),
                     "level %s: only a shared link can be slower than what is "
                     "inside, and no latency lower",
                     l->level_name[k]);
            return wrong;
        }
        net->level[k] = (struct network_level){
            .group_of = from->group_of,
            .ngroups = from->ngroups,
            .alpha = from->link.alpha,
            .shared = from->shared > 0 ? 1 / from->shared : 0,
        };
    }
    return NULL;
}

const char *network_open(struct network *net, const char *cluster, double gamma)
{
    coll_topo *topo;
    struct layout_costs costs = here_assumed;
    costs.gamma = gamma;
    *net = (struct network){.layout = calloc(1, sizeof(struct layout))};
    if (!net->layout)
        return "no memory";
    if (coll_topo_load(&topo, cluster, "cluster", wrong, sizeof(wrong))
        != COLL_OK)
        return wrong;
    net->nranks = coll_topo_count(topo, COLL_TOPO_HOST);
    const coll_status status =
        layout_create(net->layout, net->nranks, NULL, topo, NULL, &costs);
    coll_topo_free(topo);
    return status < 0 ? fail_sentence() : take_figures(net);
}

void network_close(struct network *net)
{
    if (net->layout)
        layout_free(net->layout);
    free(net->layout);
    net->layout = NULL;
}
