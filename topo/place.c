/* SPDX-License-Identifier: MIT */
/* Ranks on PUs, and what ranks share. */
#include "machine.h"

#include <stdlib.h>

/* cores[i]: how many usable cores stand before object i, so that those inside
 * an object are a difference. */
struct placing {
    const coll_topo *topo;
    const int *cores;
    int *pus;
    int most; /* ranks on one core so far */
};

static bool core_usable(const coll_topo *topo, int core)
{
    for (int i = core + 1; i < topo->objects[core].end; i++)
        if (topo->objects[i].kind == COLL_TOPO_PU && topo->objects[i].usable)
            return true;
    return false;
}

static int *count_cores(const coll_topo *topo)
{
    int *cores = malloc(((size_t)topo->nobjects + 1) * sizeof(int));
    if (!cores)
        return NULL;
    cores[0] = 0;
    for (int i = 0; i < topo->nobjects; i++)
        cores[i + 1] =
            cores[i]
            + (topo->objects[i].kind == COLL_TOPO_CORE && core_usable(topo, i));
    return cores;
}

/* Ranks [first, end) take the usable PUs of the core in turn. */
static void place_in_core(struct placing *p, int core, int first, int end)
{
    const coll_topo_object *o = p->topo->objects;
    for (int rank = first, i = core; rank < end;) {
        i = i + 1 == o[core].end ? core + 1 : i + 1;
        if (o[i].kind == COLL_TOPO_PU && o[i].usable)
            p->pus[rank++] = o[i].logical;
    }
    if (end - first > p->most)
        p->most = end - first;
}

/* Deals n ranks from first on to the parts of an object by their cores: a part
 * with w of the W cores gets n w / W, rounded so that all sums are right. */
static void place_in(struct placing *p, int index, int first, int n)
{
    const coll_topo_object *o = p->topo->objects;
    const int64_t all = p->cores[o[index].end] - p->cores[index];
    if (n == 0 || o[index].kind == COLL_TOPO_CORE) {
        if (n > 0)
            place_in_core(p, index, first, first + n);
        return;
    }
    for (int i = index + 1; i < o[index].end; i = o[i].end) {
        const int64_t before = p->cores[i] - p->cores[index];
        const int64_t until = p->cores[o[i].end] - p->cores[index];
        const int begin = (int)((n * before + all - 1) / all);
        const int end = (int)((n * until + all - 1) / all);
        place_in(p, i, first + begin, end - begin);
    }
}

int coll_topo_place(const coll_topo *topo, int nranks, int pus[])
{
    int *cores = nranks > 0 ? count_cores(topo) : NULL;
    struct placing p = {.topo = topo, .cores = cores, .pus = pus};
    if (cores && cores[topo->nobjects])
        place_in(&p, 0, 0, nranks);
    free(cores);
    return p.most;
}

/* The logical index of the kind of object around index, or -1. */
static int around(const coll_topo *topo, int index, coll_topo_kind kind)
{
    while (index >= 0 && topo->objects[index].kind != kind)
        index = topo->objects[index].parent;
    return index < 0 ? -1 : topo->objects[index].logical;
}

coll_status coll_topo_locate_pu(const coll_topo *topo, int pu,
                                coll_topo_location *location)
{
    const int index = coll_topo_pu(topo, pu);
    if (index < 0)
        return COLL_ERR_INVALID;
    const coll_topo_kind cache =
        topo->counts[COLL_TOPO_L3] ? COLL_TOPO_L3 : COLL_TOPO_L2;
    *location = (coll_topo_location){
        .host = (uint64_t)around(topo, index, COLL_TOPO_HOST),
        .package = around(topo, index, COLL_TOPO_PACKAGE),
        .numa = around(topo, index, COLL_TOPO_NUMA),
        .cache = around(topo, index, cache),
        .core = around(topo, index, COLL_TOPO_CORE),
    };
    return COLL_OK;
}

static void keep_common(int *a, int b)
{
    if (*a != b)
        *a = -1;
}

void coll_topo_locate(const coll_topo *topo, coll_topo_location *location)
{
    coll_topo_location one, all = {0, -1, -1, -1, -1};
    bool first = true;
    size_t bytes = 0;
    cpu_set_t *mine = topo->this_host ? affinity_read(&bytes) : NULL;
    for (int pu = 0; mine && pu < topo->counts[COLL_TOPO_PU]; pu++) {
        const int os = topo->objects[topo->pus[pu]].os_index;
        if (!CPU_ISSET_S((size_t)os, bytes, mine))
            continue;
        coll_topo_locate_pu(topo, pu, &one);
        if (first)
            all = one;
        first = false;
        keep_common(&all.package, one.package);
        keep_common(&all.numa, one.numa);
        keep_common(&all.cache, one.cache);
        keep_common(&all.core, one.core);
    }
    CPU_FREE(mine);
    all.host = coll_topo_host_id();
    *location = all;
}

/* The index that two locations must have in common to share `share`. */
static int part(const coll_topo_location *l, coll_topo_share share)
{
    switch (share) {
    case COLL_TOPO_SHARE_PACKAGE:
        return l->package;
    case COLL_TOPO_SHARE_NUMA:
        return l->numa;
    case COLL_TOPO_SHARE_CACHE:
        return l->cache;
    case COLL_TOPO_SHARE_CORE:
        return l->core;
    default:
        return 0;
    }
}

coll_topo_share coll_topo_shared(const coll_topo_location *a,
                                 const coll_topo_location *b)
{
    int share = COLL_TOPO_SHARE_CORE;
    if (a->host != b->host)
        return COLL_TOPO_SHARE_NONE;
    while (part(a, (coll_topo_share)share) != part(b, (coll_topo_share)share)
           || part(a, (coll_topo_share)share) < 0)
        share--;
    return (coll_topo_share)share;
}

const char *coll_topo_share_name(coll_topo_share share)
{
    static const char *const names[] = {"nothing", "host",  "package",
                                        "numa",    "cache", "core"};
    return share <= COLL_TOPO_SHARE_CORE ? names[share] : "";
}

struct member {
    uint64_t host;
    int part, rank;
};

static int by_place(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->host != y->host)
        return x->host < y->host ? -1 : 1;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Sets leader_of[r]: the lowest rank with the same host and part. */
static bool find_leaders(const coll_topo_location locations[], int nranks,
                         coll_topo_share share, int leader_of[])
{
    struct member *members = malloc((size_t)nranks * sizeof(*members));
    if (!members)
        return false;
    for (int r = 0; r < nranks; r++)
        members[r] = (struct member){
            .host = share == COLL_TOPO_SHARE_NONE ? 0 : locations[r].host,
            .part = part(&locations[r], share),
            .rank = r,
        };
    qsort(members, (size_t)nranks, sizeof(*members), by_place);
    for (int i = 0, leader = 0; i < nranks; i++) {
        const struct member *m = &members[i], *before = m - 1;
        if (i == 0 || m->part < 0 || m->host != before->host
            || m->part != before->part)
            leader = m->rank;
        leader_of[m->rank] = leader;
    }
    free(members);
    return true;
}

int coll_topo_group(const coll_topo_location locations[], int nranks,
                    coll_topo_share share, int group_of[], int leaders[])
{
    int ngroups = 0;
    int *group = nranks > 0 ? malloc((size_t)nranks * sizeof(int)) : NULL;
    if (!group || !find_leaders(locations, nranks, share, group)) {
        free(group);
        return 0;
    }
    /* A leader comes before its members, so its entry is already a group. */
    for (int r = 0; r < nranks; r++) {
        const bool leads = group[r] == r;
        if (leads && leaders)
            leaders[ngroups] = r;
        group[r] = leads ? ngroups++ : group[group[r]];
        if (group_of)
            group_of[r] = group[r];
    }
    free(group);
    return ngroups;
}
