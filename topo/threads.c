/* SPDX-License-Identifier: MIT */
/* The threads of ranks on PUs: each rank has a share of the cores of its own,
 * and its threads stay near each other in it. */
#include "machine.h"

#include <stdlib.h>

/* A core that may be used. */
struct place {
    int pu;   /* its first usable one */
    int node; /* of how many NUMA nodes before it cores were seen */
};

static int usable_pu(const coll_topo *topo, int core)
{
    for (int i = core + 1; i < topo->objects[core].end; i++)
        if (topo->objects[i].kind == COLL_TOPO_PU && topo->objects[i].usable)
            return topo->objects[i].logical;
    return -1;
}

/* All of them in order, so that those of a node stand together. NULL: no
 * memory. The caller frees. */
static struct place *usable_cores(const coll_topo *topo, int *count)
{
    const int cores = topo->counts[COLL_TOPO_CORE];
    struct place *places = calloc((size_t)cores + 1, sizeof(*places));
    coll_topo_location at;
    int last = -1;
    *count = 0;
    for (int i = 0; places && i < topo->nobjects; i++) {
        const int pu =
            topo->objects[i].kind == COLL_TOPO_CORE ? usable_pu(topo, i) : -1;
        if (pu < 0 || coll_topo_locate_pu(topo, pu, &at) != COLL_OK)
            continue;
        const int n = (*count)++;
        const int before = n ? places[n - 1].node : 0;
        places[n] =
            (struct place){pu, n && at.numa != last ? before + 1 : before};
        last = at.numa;
    }
    return places;
}

/* Of the n cores of a share: the nodes that hold so many threads and are the
 * fewest, and there every so many-th core, so that threads have caches to
 * themselves as far as there are any. */
static void spread(const struct place *share, int n, int nthreads, int pus[])
{
    int first = 0;
    for (int i = 1; i + nthreads <= n; i++)
        if (share[i + nthreads - 1].node - share[i].node
            < share[first + nthreads - 1].node - share[first].node)
            first = i;
    int end = first + nthreads;
    while (end < n && share[end].node == share[end - 1].node)
        end++;
    while (first > 0 && share[first - 1].node == share[first].node)
        first--;
    for (int t = 0; t < nthreads; t++)
        pus[t] =
            share[first + (int)((long long)t * (end - first) / nthreads)].pu;
}

/* Of all cores: where rank r's share begins, or ends that of the one before. */
struct sharing {
    const struct place *cores;
    int ncores, nranks;
    bool nodes; /* share out whole NUMA nodes */
};

static int share_start(const struct sharing *s, int r)
{
    if (!s->nodes)
        return (int)((long long)s->ncores * r / s->nranks);
    const long long nodes = s->cores[s->ncores - 1].node + 1;
    const int node = (int)(nodes * r / s->nranks);
    int core = 0;
    while (core < s->ncores && s->cores[core].node < node)
        core++;
    return core;
}

static bool all_fit(const struct sharing *s, int nthreads)
{
    for (int r = 0; r < s->nranks; r++)
        if (share_start(s, r + 1) - share_start(s, r) < nthreads)
            return false;
    return true;
}

int coll_topo_place_threads(const coll_topo *topo, int nranks, int nthreads,
                            int pus[])
{
    struct sharing s = {.nranks = nranks, .nodes = true};
    struct place *cores =
        nranks > 0 && nthreads > 0 ? usable_cores(topo, &s.ncores) : NULL;
    s.cores = cores;
    s.nodes = s.ncores && all_fit(&s, nthreads);
    const bool fits = s.nodes || (s.ncores && all_fit(&s, nthreads));
    for (int r = 0; fits && r < nranks; r++) {
        const int first = share_start(&s, r), end = share_start(&s, r + 1);
        spread(cores + first, end - first, nthreads, pus + r * nthreads);
    }
    free(cores);
    return fits;
}
