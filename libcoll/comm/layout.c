/* SPDX-License-Identifier: MIT */
#include "comm/layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

const char *const layout_order_names[NLINEUPS] = {
    [ORDER_GIVEN] = "given",
    [ORDER_BLOCK] = "block",
    [ORDER_ROUND_ROBIN] = "round_robin",
    [ORDER_HOSTS] = "by_hosts",
    [ORDER_HOSTS_DEALT] = "hosts_dealt",
};

int layout_number_hosts(int nranks, const uint64_t *host_of, int *host)
{
    int n = 0;
    for (int r = 0; r < nranks; r++) {
        int before = r - 1; /* neighbours share hosts: look back */
        while (host_of && before >= 0 && host_of[before] != host_of[r])
            before--;
        host[r] = host_of && before >= 0 ? host[before] : n++;
    }
    return n;
}

/* Which object of the description each host is, of its levels and hosts. */
static coll_status find_hosts(struct layout_cluster on, int nhosts, int *object,
                              int *scratch)
{
    int ndescribed = 0;
    for (int i = 0; i < coll_topo_size(on.topo); i++)
        if (coll_topo_get(on.topo, i)->kind == COLL_TOPO_HOST)
            scratch[ndescribed++] = i;
    for (int h = 0; h < nhosts; h++) {
        const int at = on.host_at ? on.host_at[h] : h;
        if (at < 0 || at >= ndescribed)
            return fail(COLL_ERR_INVALID, "topo",
                        "the job has %d hosts, but the cluster that is described "
                        "(COLL_CLUSTER) has %d",
                        at < nhosts ? nhosts : at + 1, ndescribed);
        object[h] = scratch[at];
    }
    return COLL_OK;
}

/* The object around `host` that is of a level of the cluster, or of its own. */
static int around(const coll_topo *topo, int host, int level)
{
    int i = host;
    while (coll_topo_get(topo, i)->level > level)
        i = coll_topo_get(topo, i)->parent;
    return i;
}

static struct sim_link link_or(coll_topo_link link, struct sim_link fallback)
{
    if (link.latency_seconds > 0)
        fallback.alpha = link.latency_seconds;
    if (link.bytes_per_second > 0)
        fallback.beta = 1 / link.bytes_per_second;
    return fallback;
}

/* Renumbers a level's groups in the order of their lowest ranks. */
static int renumber(int n, int *group_of, int *scratch, int nscratch)
{
    int ngroups = 0;
    for (int i = 0; i < nscratch; i++)
        scratch[i] = -1;
    for (int r = 0; r < n; r++) {
        int *number = &scratch[group_of[r]];
        if (*number < 0)
            *number = ngroups++;
        group_of[r] = *number;
    }
    return ngroups;
}

/* Adds a level, outermost first, unless it tells no two ranks apart that the
 * ones outside of it do not. */
static void add_level(struct layout *l, struct sim_level level,
                      const char *name)
{
    const int n = l->net.nlevels;
    const int outer = n ? l->net.level[n - 1].ngroups : 1;
    if (level.ngroups == outer)
        return;
    l->net.level[n] = level;
    snprintf(l->level_name[n], sizeof(l->level_name[n]), "%s", name);
    l->net.nlevels = n + 1;
    l->net.nhost_levels = n + 1;
}

/* Whether no two hosts of a measured group are in two groups of a level. */
static bool keeps_whole(const struct layout_groups *groups, const int *host,
                        const struct sim_level *level, int n, int *scratch)
{
    for (int g = 0; g < groups->ngroups; g++)
        scratch[g] = -1;
    for (int r = 0; r < n; r++) {
        int *at = &scratch[groups->group_of[host[r]]];
        if (*at >= 0 && *at != level->group_of[r])
            return false;
        *at = level->group_of[r];
    }
    return true;
}

/* What a level costs, for as far as its description tells; else, what was
 * measured: between its groups, if they are measured ones or made of them. */
static void fill_costs(struct sim_level *level, coll_topo_link link,
                       const struct layout_costs *costs,
                       const struct layout_groups *groups, bool outside)
{
    level->link = link_or(link, outside ? groups->link : costs->remote);
    if (link.bytes_per_second > 0)
        level->shared = link.shared ? 1 / link.bytes_per_second : 0;
    else if (outside && level->ngroups == groups->ngroups)
        level->shared = groups->shared;
}

/* What a job of one rank a host or more is made of: levels of the description,
 * the last of which are the hosts. */
static coll_status add_described(struct layout *l, const coll_topo *topo,
                                 const int *host, const int *object,
                                 int *scratch, const struct layout_costs *costs,
                                 const struct layout_groups *groups)
{
    const int n = l->nranks, size = coll_topo_size(topo);
    const int nlevels = coll_topo_get(topo, object[0])->level + 1;
    if (nlevels > SIM_LEVELS)
        return fail(COLL_ERR_INVALID, "topo",
                    "the description has %d levels, at most %d are valid",
                    nlevels, SIM_LEVELS);
    for (int level = 0; level < nlevels; level++) {
        int *group_of = l->group_of + (size_t)l->net.nlevels * (size_t)n;
        coll_topo_link link = {0};
        for (int r = 0; r < n; r++)
            group_of[r] = around(topo, object[host[r]], level);
        coll_topo_level_link(topo, group_of[0], &link);
        struct sim_level to = {.group_of = group_of};
        to.ngroups = renumber(n, group_of, scratch, size);
        const bool outside = groups && groups->ngroups > 1
                             && keeps_whole(groups, host, &to, n, scratch);
        fill_costs(&to, link, costs, groups, outside);
        add_level(l, to, coll_topo_name(topo, around(topo, object[0], level)));
    }
    return COLL_OK;
}

/* Groups of hosts, and hosts. */
static void add_measured(struct layout *l, const int *host, int nhosts,
                         const struct layout_groups *groups, int *scratch,
                         const struct layout_costs *costs)
{
    const size_t n = (size_t)l->nranks;
    if (groups && groups->ngroups > 1) {
        for (size_t r = 0; r < n; r++)
            l->group_of[r] = groups->group_of[host[r]];
        const int ngroups =
            renumber(l->nranks, l->group_of, scratch, groups->ngroups);
        add_level(l,
                  (struct sim_level){.group_of = l->group_of,
                                     .ngroups = ngroups,
                                     .link = groups->link,
                                     .shared = groups->shared},
                  "group");
    }
    int *group_of = l->group_of + (size_t)l->net.nlevels * n;
    memcpy(group_of, host, n * sizeof(int));
    add_level(l,
              (struct sim_level){.group_of = group_of,
                                 .ngroups = nhosts,
                                 .link = costs->remote},
              "host");
}

/* The rate of a link that is shared says nothing of the ports behind it: those
 * are the next level's. */
static void fix_ports(struct layout *l)
{
    double beta = 0;
    for (int k = l->net.nhost_levels - 1; k >= 0; k--) {
        struct sim_level *level = &l->net.level[k];
        if (level->shared > 0 && k < l->net.nhost_levels - 1)
            level->link.beta = beta;
        else if (level->shared > 0)
            level->shared = 0; /* a host's link is its port */
        beta = level->link.beta;
    }
}

coll_status layout_create(struct layout *l, int nranks, const uint64_t *host_of,
                          const coll_topo *topo,
                          const struct layout_groups *groups,
                          const struct layout_costs *costs)
{
    return layout_create_on(l, nranks, host_of,
                            (struct layout_cluster){topo, NULL}, groups, costs);
}

coll_status layout_create_on(struct layout *l, int nranks,
                             const uint64_t *host_of, struct layout_cluster on,
                             const struct layout_groups *groups,
                             const struct layout_costs *costs)
{
    const coll_topo *topo = on.topo;
    const size_t n = (size_t)nranks;
    const size_t size = topo ? (size_t)coll_topo_size(topo) : 0;
    *l = (struct layout){
        .nranks = nranks,
        .net = {.link = costs->local,
                .gamma = costs->gamma,
                .copy = costs->copy},
        .memory = costs->memory,
        .cache = costs->cache,
        .group_of = malloc(n * SIM_LEVELS * sizeof(int)),
    };
    int *host = malloc(n * sizeof(int));
    int *object = malloc(n * sizeof(int));
    const size_t ngroups = groups ? (size_t)groups->ngroups : 0;
    int *scratch =
        malloc(((size > ngroups ? size : ngroups) + 1) * sizeof(int));
    coll_status status = COLL_OK;
    if (!l->group_of || !host || !object || !scratch) {
        status =
            fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks", nranks);
        goto out;
    }
    const int nhosts = layout_number_hosts(nranks, host_of, host);
    const bool described = topo && coll_topo_count(topo, COLL_TOPO_HOST) > 1;
    if (described && nhosts > 1)
        status = find_hosts(on, nhosts, object, scratch);
    if (status < 0)
        goto out;
    if (described && nhosts > 1) {
        status = add_described(l, topo, host, object, scratch, costs, groups);
    } else if (nhosts > 1) {
        add_measured(l, host, nhosts, groups, scratch, costs);
    }
    fix_ports(l);
out:
    free(host);
    free(object);
    free(scratch);
    if (status < 0)
        layout_free(l);
    return status;
}

void layout_free(struct layout *l)
{
    free(l->group_of);
    free(l->machine_of);
    l->group_of = l->machine_of = NULL;
}

static int *copy_numbers(const int *from, size_t n)
{
    int *copy = malloc(n * sizeof(int) + 1);
    if (copy && n)
        memcpy(copy, from, n * sizeof(int));
    return copy;
}

coll_status layout_copy(struct layout *l, const struct layout *from)
{
    const size_t n = (size_t)from->nranks;
    *l = *from;
    l->group_of = copy_numbers(from->group_of, n * (size_t)l->net.nlevels);
    l->machine_of = from->machine_of ? copy_numbers(from->machine_of, n) : NULL;
    if (!l->group_of || (from->machine_of && !l->machine_of)) {
        layout_free(l);
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %zu ranks", n);
    }
    for (int k = 0; k < l->net.nlevels; k++)
        l->net.level[k].group_of =
            l->group_of + (from->net.level[k].group_of - from->group_of);
    if (from->net.machine_of)
        l->net.machine_of = l->machine_of;
    return COLL_OK;
}

struct sim_net layout_net(const struct layout *l, size_t bytes)
{
    struct sim_net net = l->net;
    if (l->cache && bytes > l->cache) {
        net.gamma = fmax(net.gamma, 3 * l->memory);
        net.copy = net.copy > 0 ? fmax(net.copy, 2 * l->memory) : 0;
    }
    return net;
}

coll_status layout_crowd(struct layout *l, const struct crowd *crowd)
{
    const size_t bytes = (size_t)l->nranks * sizeof(int);
    l->machine_of = malloc(bytes);
    if (!l->machine_of)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks",
                    l->nranks);
    memcpy(l->machine_of, crowd->machine_of, bytes);
    l->net.machine_of = l->machine_of;
    l->net.nmachines = crowd->nmachines;
    l->net.nprocessors = crowd->nprocessors;
    l->net.machine = crowd->machine;
    l->net.turn = crowd->turn;
    return COLL_OK;
}

coll_status layout_of_hosts(const struct layout *l, struct layout *hosts)
{
    const int nlevels = l->net.nhost_levels;
    const struct sim_level *host = &l->net.level[nlevels - 1];
    const size_t n = (size_t)host->ngroups;
    int *group_of = malloc(n * (size_t)nlevels * sizeof(int));
    int *machine_of = malloc(n * sizeof(int));
    *hosts = (struct layout){.nranks = 0};
    if (!group_of || !machine_of) {
        free(group_of);
        free(machine_of);
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %zu hosts", n);
    }
    for (int r = l->nranks - 1; r >= 0; r--)
        machine_of[host->group_of[r]] = l->machine_of ? l->machine_of[r] : 0;
    *hosts = *l;
    hosts->machine_of = machine_of;
    hosts->net.machine_of = l->machine_of ? machine_of : NULL;
    hosts->nranks = host->ngroups;
    hosts->net.nlevels = nlevels;
    hosts->group_of = group_of;
    hosts->by_hosts = 0;
    for (int k = 0; k < nlevels; k++, group_of += n) {
        for (int r = 0; r < l->nranks; r++)
            group_of[host->group_of[r]] = l->net.level[k].group_of[r];
        hosts->net.level[k].group_of = group_of;
    }
    return COLL_OK;
}

int layout_hosts(const struct layout *l)
{
    return l->net.level[l->net.nhost_levels - 1].ngroups;
}

bool layout_hosts_are_runs(const struct layout *l)
{
    const int *host = l->net.level[l->net.nhost_levels - 1].group_of;
    int r = 1;
    while (r < l->nranks && host[r - 1] <= host[r])
        r++;
    return r == l->nranks;
}

bool layout_hosts_pair_up(const struct layout *l)
{
    const int *host = l->net.level[l->net.nhost_levels - 1].group_of;
    const int each = l->by_hosts;
    int r = 0;
    while (r < l->nranks && (each & (each - 1)) == 0 && host[r] == r / each)
        r++;
    return r == l->nranks;
}

bool layout_even(const struct layout *l)
{
    return l->by_hosts * layout_hosts(l) == l->nranks;
}

uint64_t layout_digest(const struct layout *l)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int k = 0; k < l->net.nlevels; k++)
        for (int r = 0; r < l->nranks; r++)
            h = (h ^ (uint64_t)l->net.level[k].group_of[r]) * 0x100000001b3u;
    return h ^ (uint64_t)l->net.nhost_levels << 32 ^ (uint64_t)l->net.nlevels;
}

/* --- Orders ----------------------------------------------------------------
 */

/* Of one rank: the number of its group within the group outside, by level, and
 * of itself within its innermost group; root's are all 0. */
struct seat {
    int rank, nlevels;
    int at[SIM_LEVELS + 1];
};

static int by_groups(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;
    for (int l = 0; l <= x->nlevels; l++)
        if (x->at[l] != y->at[l])
            return x->at[l] - y->at[l];
    return 0;
}

static int by_turns(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;
    for (int l = x->nlevels; l >= 0; l--)
        if (x->at[l] != y->at[l])
            return x->at[l] - y->at[l];
    return 0;
}

/* Sets at[] to global numbers, with root's as 0. */
static void take_seats(const struct layout *l, int root, struct seat *seats)
{
    const int n = l->nranks, nlevels = l->net.nlevels;
    for (int r = 0; r < n; r++) {
        seats[r].rank = r;
        seats[r].nlevels = nlevels;
        for (int k = 0; k < nlevels; k++) {
            const struct sim_level *level = &l->net.level[k];
            seats[r].at[k] =
                (level->group_of[r] - level->group_of[root] + level->ngroups)
                % level->ngroups;
        }
        seats[r].at[nlevels] = (r - root + n) % n;
    }
}

/* Of seats in block order: makes numbers count from 0 within each group. */
static void number_within(struct seat *seats, int n)
{
    const int nlevels = seats[0].nlevels;
    struct seat before = seats[0], within = {0};
    for (int i = 0; i < n; i++) {
        const struct seat now = seats[i];
        for (int l = 0; i > 0 && l <= nlevels; l++)
            if (now.at[l] != before.at[l]) {
                within.at[l]++;
                memset(&within.at[l + 1], 0,
                       sizeof(int) * (size_t)(SIM_LEVELS - l));
                break;
            }
        memcpy(seats[i].at, within.at, sizeof(within.at));
        before = now;
    }
}

coll_status layout_fill_order(const struct layout *l, enum layout_order order,
                              int root, int *ranks)
{
    const int n = l->nranks;
    if (order == ORDER_GIVEN || l->net.nlevels == 0) {
        for (int i = 0; i < n; i++)
            ranks[i] = (i + root) % n;
        return COLL_OK;
    }
    struct seat *seats = malloc((size_t)n * sizeof(*seats));
    if (!seats)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks", n);
    take_seats(l, root, seats);
    qsort(seats, (size_t)n, sizeof(*seats), by_groups);
    if (order == ORDER_ROUND_ROBIN) {
        number_within(seats, n);
        qsort(seats, (size_t)n, sizeof(*seats), by_turns);
    }
    for (int i = 0; i < n; i++)
        ranks[i] = seats[i].rank;
    free(seats);
    return COLL_OK;
}

coll_status layout_fill_tree(const struct layout *l, const int *order,
                             struct plan_tree *tree)
{
    const int n = l->nranks;
    *tree = (struct plan_tree){0};
    size_t room = 0;
    for (int k = 0; k < l->net.nlevels; k++)
        room += (size_t)l->net.level[k].ngroups + 1;
    int *first = malloc((room + 1) * sizeof(int));
    if (!first)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks", n);
    tree->level[0].first = first;
    for (int k = 0; k < l->net.nlevels; k++) {
        const struct sim_level *level = &l->net.level[k];
        if (level->ngroups == n)
            break;
        int nruns = 0;
        for (int i = 0; i < n; i++)
            if (i == 0
                || level->group_of[order[i]] != level->group_of[order[i - 1]])
                nruns++;
        if (nruns > level->ngroups)
            continue;
        struct plan_level *to = &tree->level[tree->nlevels++];
        to->ngroups = level->ngroups;
        to->first = first;
        for (int i = 0; i < n; i++)
            if (i == 0
                || level->group_of[order[i]] != level->group_of[order[i - 1]])
                *first++ = i;
        *first++ = n;
    }
    return COLL_OK;
}

void layout_free_tree(struct plan_tree *tree)
{
    free((int *)tree->level[0].first);
    tree->nlevels = 0;
}
