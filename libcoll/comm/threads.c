/* SPDX-License-Identifier: MIT */
/* Where the threads of a rank run: its share of the processors that it and
 * other ranks of the machine may use. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "coll/topo.h"
#include "comm/comm.h"
#include "comm/here.h"

/* The ranks that may use the very processors that this one may. */
struct sharers {
    int count, before; /* with this rank; of lower rank */
    int other;         /* a rank that may use only some of them; -1: none */
};

static bool overlap(const struct rank_info *a, const struct rank_info *b)
{
    uint64_t both = 0;
    for (size_t i = 0; i < sizeof(a->cpus) / sizeof(a->cpus[0]); i++)
        both |= a->cpus[i] & b->cpus[i];
    return both != 0;
}

static struct sharers find_sharers(const coll_comm *c)
{
    const struct rank_info *mine = &c->ranks[c->rank];
    struct sharers s = {0, 0, -1};
    for (int r = 0; r < c->nranks; r++) {
        const struct rank_info *other = &c->ranks[r];
        if (other->machine != mine->machine || !overlap(mine, other))
            continue;
        if (memcmp(other->cpus, mine->cpus, sizeof(mine->cpus)))
            s.other = r;
        s.count++;
        s.before += r < c->rank;
    }
    return s;
}

static coll_status choose(const coll_topo *topo, struct sharers s, int nthreads,
                          int cpus[])
{
    const int usable = coll_topo_usable_cpus();
    if (!coll_topo_is_this_host(topo))
        return fail(COLL_ERR_UNSUPPORTED, "topo",
                    "HWLOC_SYNTHETIC or HWLOC_XMLFILE describes another "
                    "machine than this");
    int *pus = s.count <= usable && nthreads <= usable / s.count
                   ? malloc((size_t)s.count * nthreads * sizeof(int))
                   : NULL;
    if (!pus || !coll_topo_place_threads(topo, s.count, nthreads, pus)) {
        free(pus);
        return fail(COLL_ERR_UNSUPPORTED, "topo",
                    "%lld threads in all of %d rank%s are more than the cores "
                    "there are for them (usable CPUs: %d)",
                    (long long)nthreads * s.count, s.count,
                    s.count == 1 ? "" : "s", usable);
    }
    for (int t = 0; t < nthreads; t++) {
        const int pu = pus[s.before * nthreads + t];
        cpus[t] = coll_topo_get(topo, coll_topo_pu(topo, pu))->os_index;
    }
    free(pus);
    return COLL_OK;
}

coll_status coll_comm_place_threads(const coll_comm *comm, int nthreads,
                                    int cpus[])
{
    char why[256];
    coll_topo *topo;
    if (nthreads < 1 || !cpus)
        return fail(COLL_ERR_INVALID, "topo",
                    "coll_comm_place_threads: %d threads, valid is 1 or more, "
                    "and room for as many numbers",
                    nthreads);
    const struct sharers s =
        comm ? find_sharers(comm) : (struct sharers){1, 0, -1};
    if (s.other >= 0)
        return fail(COLL_ERR_UNSUPPORTED, "topo",
                    "rank %d may use some of the processors of rank %d, but "
                    "not the same ones",
                    s.other, comm->rank);
    coll_status status = coll_topo_discover(&topo, why, sizeof(why));
    if (status)
        return fail(status, "topo", "%s", why);
    status = choose(topo, s, nthreads, cpus);
    coll_topo_free(topo);
    return status;
}
