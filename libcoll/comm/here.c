/* SPDX-License-Identifier: MIT */
#include "comm/here.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "coll/topo.h"

uint64_t here_machine(void)
{
    uint64_t id = 0xcbf29ce484222325;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file)
        return 0;
    for (int c; (c = fgetc(file)) != EOF;)
        id = (id ^ (uint64_t)c) * 0x100000001b3;
    fclose(file);
    return id;
}

void here_fill(struct rank_info *info)
{
    gethostname(info->hostname, sizeof(info->hostname) - 1);
    info->host = coll_topo_host_id();
    info->machine = here_machine();
    coll_topo_limits limits;
    coll_topo_limits_get(&limits);
    if (limits.quota_cpus > 0)
        info->quota = limits.quota_cpus < 1 ? 1 : (int32_t)limits.quota_cpus;
    cpu_set_t set; /* beyond its 1024 CPUs the call fails: then none is known */
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        for (int i = 0; i < limits.allowed && i < CPU_SETSIZE; i++)
            CPU_SET((size_t)i, &set);
    _Static_assert(sizeof(set) == sizeof(info->cpus), "1024 bits");
    memcpy(info->cpus, &set, sizeof(set));
}

static struct node_place place_of(const coll_topo_location *at)
{
    return (struct node_place){
        .package = at->package, .numa = at->numa, .cache = at->cache};
}

size_t here_cache(void)
{
    char path[64], unit = ' ';
    unsigned long n = 0;
    snprintf(path, sizeof(path),
             "/sys/devices/system/cpu/cpu%d/cache/index3/size", sched_getcpu());
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%lu%c", &n, &unit) < 1)
            n = 0;
        fclose(file);
    }
    if (n > 0)
        return n << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return cache > 0 ? (size_t)cache : (size_t)32 << 20;
}

/* By the affinity of the calling thread. */
static struct node_place real_place(void)
{
    char error[256];
    coll_topo *topo;
    coll_topo_location at = {.package = -1, .numa = -1, .cache = -1};
    if (coll_topo_discover(&topo, error, sizeof(error)) == COLL_OK) {
        coll_topo_locate(topo, &at);
        coll_topo_free(topo);
    } else {
        log_line(COLL_LOG_WARN, "topo", "this machine's layout is unknown: %s",
                 error);
    }
    return place_of(&at);
}

/* On the first host of topo, all of which are alike: with as many ranks on each
 * of them, the first local_ranks are those of the first host. False where hosts
 * have no inside, or no memory is left. */
static bool place_on(const coll_topo *topo, struct node_place *place,
                     int local_rank, int local_ranks)
{
    const int hosts = coll_topo_count(topo, COLL_TOPO_HOST);
    if (coll_topo_count(topo, COLL_TOPO_PU) == hosts
        || local_ranks > INT_MAX / hosts)
        return false;
    const int n = local_ranks * hosts;
    int *pus = malloc((size_t)n * sizeof(int));
    coll_topo_location at;
    const bool placed =
        pus && coll_topo_place(topo, n, pus) > 0
        && coll_topo_locate_pu(topo, pus[local_rank], &at) == COLL_OK;
    free(pus);
    if (placed)
        *place = place_of(&at);
    return placed;
}

void here_place(struct node_place *place, int local_rank, int local_ranks)
{
    const char *spec = setting_text(SETTING_CLUSTER);
    coll_topo *topo = NULL;
    /* here_cluster() says what is wrong with the text, if anything is. */
    if (*spec)
        coll_topo_load(&topo, spec, "COLL_CLUSTER", NULL, 0);
    if (!topo || !place_on(topo, place, local_rank, local_ranks))
        *place = real_place();
    coll_topo_free(topo);
}

/* Processors that the ranks of a rank's machine may use, all together: each
 * alone is often bound to one. */
static int machine_cpus(const coll_comm *c, int rank)
{
    const uint64_t machine = c->ranks[rank].machine;
    uint64_t all[sizeof(c->ranks->cpus) / sizeof(c->ranks->cpus[0])] = {0};
    int ncpus = 0;
    for (int r = 0; r < c->nranks; r++)
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
            if (c->ranks[r].machine == machine)
                all[i] |= c->ranks[r].cpus[i];
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        ncpus += __builtin_popcountll(all[i]);
    return ncpus;
}

bool here_is_crowded(const coll_comm *c, int rank)
{
    const struct rank_info *mine = &c->ranks[rank];
    int on_machine = 0, on_host = 0;
    for (int r = 0; r < c->nranks; r++) {
        on_machine += c->ranks[r].machine == mine->machine;
        on_host += c->ranks[r].host == mine->host;
    }
    return (mine->quota > 0 && on_host > mine->quota)
           || on_machine > machine_cpus(c, rank);
}

int here_fewest_processors(const coll_comm *c)
{
    int fewest = INT_MAX;
    for (int r = 0; r < c->nranks; r++) {
        const struct rank_info *info = &c->ranks[r];
        if (r > 0 && info->host == c->host_of[r - 1])
            continue;
        const int cpus = machine_cpus(c, r);
        if (cpus > 0 && cpus < fewest)
            fewest = cpus;
        if (info->quota > 0 && info->quota < fewest)
            fewest = info->quota;
    }
    return fewest == INT_MAX ? 1 : fewest;
}

/* Shared memory within a host, TCP on 10 Gbit/s between hosts, a sum at 8 GB/s.
 */
const struct layout_costs here_assumed = {
    .local = {.alpha = 0.5e-6, .beta = 1 / 8e9  },
    .remote = {.alpha = 15e-6,  .beta = 1 / 1.1e9},
    .gamma = 1 / 8e9,
};

coll_status here_cluster(coll_topo **topo)
{
    const char *spec = setting_text(SETTING_CLUSTER);
    char error[512];
    *topo = NULL;
    if (!*spec)
        return COLL_OK;
    const coll_status status =
        coll_topo_load(topo, spec, "COLL_CLUSTER", error, sizeof(error));
    return status < 0 ? fail(status, "topo", "%s", error) : COLL_OK;
}
