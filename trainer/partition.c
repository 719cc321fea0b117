/* SPDX-License-Identifier: MIT */
#include "partition.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "train.h"

/* The index of a processor's NUMA node in topo; -1: it is in none. */
static int node_of(const coll_topo *topo, int cpu)
{
    for (int i = 0; i < coll_topo_count(topo, COLL_TOPO_PU); i++) {
        int at = coll_topo_pu(topo, i);
        if (coll_topo_get(topo, at)->os_index != cpu)
            continue;
        while (at >= 0 && coll_topo_get(topo, at)->kind != COLL_TOPO_NUMA)
            at = coll_topo_get(topo, at)->parent;
        return at;
    }
    return -1;
}

int partition_find(const coll_topo *topo, const int *cpus, int n,
                   struct partition *p)
{
    int nodes = 0, last = -1;
    for (int i = 0; i < n; i++) {
        const int node = node_of(topo, cpus[i]);
        bool seen = false;
        for (int k = 0; k < i && !seen; k++)
            seen = node_of(topo, cpus[k]) == node;
        nodes += !seen;
        last = node;
    }
    if (nodes != 1)
        return nodes;
    const coll_topo_object *o = last < 0 ? NULL : coll_topo_get(topo, last);
    p->node = o && o->os_index >= 0 ? (uint64_t)o->os_index : 0;
    p->room = o ? o->bytes : 0;
    return 1;
}

int partition_crowded(const struct partition *p, int n, uint64_t *needed)
{
    for (int r = 0; r < n; r++) {
        *needed = 0;
        for (int k = 0; k < n; k++)
            if (p[k].host == p[r].host && p[k].node == p[r].node)
                *needed += p[k].bytes;
        if (p[r].room && *needed > p[r].room)
            return r;
    }
    return -1;
}

/* Those that this process may use, if its threads are not bound. */
static int allowed(int *cpus)
{
    cpu_set_t set;
    int n = 0;
    if (sched_getaffinity(0, sizeof(set), &set))
        return 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, &set))
            cpus[n++] = cpu;
    return n;
}

static int find(struct train *t)
{
    char why[256];
    int cpus[CPU_SETSIZE];
    coll_topo *topo;
    if (coll_topo_discover(&topo, why, sizeof(why)))
        return train_fail(t, 1, "rank %d: --partition: %s", t->rank, why);
    const int n = t->cpus ? (int)t->settings.threads : allowed(cpus),
              nodes = partition_find(topo, t->cpus ? t->cpus : cpus, n,
                                     &t->partition);
    t->partition.host = coll_topo_host_id();
    t->nodes = coll_topo_count(topo, COLL_TOPO_NUMA);
    coll_topo_free(topo);
    return nodes == 1
               ? 0
               : train_fail(t, 2,
                            "rank %d: --partition: found %d NUMA nodes that "
                            "it may run on, valid is one: a rank for each "
                            "node, with as many --threads as that has cores",
                            t->rank, nodes);
}

/* What comes is near, and so is then what has been read already. */
static bool bring_near(unsigned node)
{
    enum { BITS = 8 * sizeof(unsigned long), WORDS = 1024 / BITS };
    unsigned long here[WORDS] = {0}, all[WORDS] = {0};
    if (node >= 1024)
        return false;
    here[node / BITS] = 1ul << node % BITS;
    return !syscall(SYS_set_mempolicy, MPOL_PREFERRED, here, 1024ul)
           && !syscall(SYS_get_mempolicy, NULL, all, 1024ul, NULL,
                       MPOL_F_MEMS_ALLOWED)
           && syscall(SYS_migrate_pages, 0, 1024ul, all, here) >= 0;
}

static uint64_t resident(void)
{
    unsigned long all, pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    if (fscanf(file, "%lu %lu", &all, &pages) != 2)
        pages = 0;
    fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

int train_partition(struct train *t)
{
    if (!t->settings.partition)
        return 0;
    const int status = find(t);
    if (!status && t->nodes > 1 && !bring_near((unsigned)t->partition.node))
        snprintf(t->note, sizeof(t->note),
                 "rank %d: --partition: the system does not say where memory "
                 "comes from (%s); it is near by first touch only",
                 t->rank, strerror(errno));
    t->partition.bytes = resident(); /* the images, above all */
    return status;
}

int train_partition_fits(struct train *t)
{
    if (!t->settings.partition)
        return 0;
    uint64_t needed;
    t->partition.bytes +=
        net_bytes(&t->net) + arena_bytes(t->update.state.count)
        + arena_bytes(t->sum.count) + arena_bytes(t->strategy.centre.count)
        + arena_bytes(t->strategy.state.count) + t->strategy.bytes;
    struct partition *all = malloc((size_t)t->nranks * sizeof(*all));
    const coll_status status =
        all ? coll_allgather(&t->partition, all, sizeof(*all) / 8, COLL_U64,
                             t->comm, NULL)
            : COLL_ERR_MEMORY;
    const int rank = status ? -1 : partition_crowded(all, t->nranks, &needed);
    int failed = status ? train_comm_failed(t, status) : 0;
    if (rank >= 0)
        failed = train_fail(
            t, 2,
            "--partition: found %.0f MiB that all ranks in NUMA node %llu of "
            "rank %d need, valid are the %.0f MiB that it has: fewer ranks "
            "or a smaller --batch",
            (double)needed / 1048576, (unsigned long long)all[rank].node, rank,
            (double)all[rank].room / 1048576);
    free(all);
    return failed;
}
