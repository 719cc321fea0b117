/* SPDX-License-Identifier: MIT */
/* What the messages of a simulation use of its network. */
#include "transport/sim_inside.h"

int sim_level_of(const struct sim_net *net, int a, int b)
{
    int l = 0;
    while (l < net->nlevels
           && net->level[l].group_of[a] == net->level[l].group_of[b])
        l++;
    return l;
}

const struct sim_link *sim_link_of(const struct sim_net *net, int a, int b)
{
    return link_at(net, sim_level_of(net, a, b));
}

/* Half of a message's bytes are moved at each end. */
static int machine_uses(const struct sim *s, int a, int b,
                        struct flow_use *uses)
{
    const struct sim_net *net = &s->net;
    if (!net->machine_of || net->machine <= 0)
        return 0;
    const int from = net->machine_of[a], to = net->machine_of[b];
    uses[0] = (struct flow_use){s->first_machine + from, net->machine};
    if (from == to)
        return 1;
    uses[0].weight = net->machine / 2;
    uses[1] = (struct flow_use){s->first_machine + to, net->machine / 2};
    return 2;
}

int sim_uses(const struct sim *s, int from, int to,
             struct flow_use uses[FLOW_USES])
{
    const struct sim_net *net = &s->net;
    const int level = sim_level_of(net, from, to);
    const double beta = link_at(&s->net, level)->beta;
    const bool between_hosts = level < net->nhost_levels;
    const int *host_of =
        between_hosts ? net->level[net->nhost_levels - 1].group_of : NULL;
    const int ends[2] = {from, to};
    int n = 0;
    for (int out = 0; out < 2 && beta > 0; out++) {
        const int port =
            host_of ? host_of[ends[out]] : s->first_rank_port + ends[out];
        uses[n++] = (struct flow_use){2 * port + out, beta};
    }
    for (int l = level; l < net->nlevels; l++)
        for (int out = 0; out < 2 && net->level[l].shared > 0; out++) {
            const int group = net->level[l].group_of[ends[out]];
            uses[n++] = (struct flow_use){s->first_link[l] + 2 * group + out,
                                          net->level[l].shared};
        }
    return n + machine_uses(s, from, to, uses + n);
}

/* Numbers the resources: ports of hosts, ports of ranks, shared links,
 * machines.
 */
int sim_number_resources(struct sim *s)
{
    const struct sim_net *net = &s->net;
    int n = net->nhost_levels ? net->level[net->nhost_levels - 1].ngroups : 0;
    s->first_rank_port = n;
    n = 2 * (n + s->nranks);
    for (int l = 0; l < net->nlevels; l++) {
        s->first_link[l] = n;
        n += net->level[l].shared > 0 ? 2 * net->level[l].ngroups : 0;
    }
    s->first_machine = n;
    return net->machine_of ? n + net->nmachines : n;
}

int sim_resources(const struct sim *s)
{
    return s->nresources;
}
