/* SPDX-License-Identifier: MIT */
#include "programs/bind.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "coll/topo.h"

/* The core around a PU, or the PU where cores are not known. */
static int core_of(const coll_topo *topo, int pu)
{
    for (int i = pu; i >= 0; i = coll_topo_get(topo, i)->parent)
        if (coll_topo_get(topo, i)->kind == COLL_TOPO_CORE)
            return i;
    return pu;
}

/* All of a core's PUs that this process may use. */
static void fill(const coll_topo *topo, int core, cpu_set_t *set)
{
    CPU_ZERO(set);
    for (int i = core; i < coll_topo_get(topo, core)->end; i++) {
        const coll_topo_object *object = coll_topo_get(topo, i);
        if (object->kind == COLL_TOPO_PU && object->usable
            && object->os_index >= 0 && object->os_index < CPU_SETSIZE)
            CPU_SET((unsigned)object->os_index, set);
    }
}

/* False, with the reason, if the ranks do not get a core each. */
static bool choose(const coll_topo *topo, int nranks, cpu_set_t *sets,
                   char *why, size_t size)
{
    int *pus = calloc((size_t)nranks, sizeof(*pus));
    const int usable = coll_topo_usable_cpus();
    bool good = false;
    if (!pus)
        abort();
    if (!coll_topo_is_this_host(topo))
        snprintf(why, size,
                 "not bound: HWLOC_SYNTHETIC or HWLOC_XMLFILE "
                 "describes another machine");
    else if (nranks > usable || coll_topo_place(topo, nranks, pus) != 1)
        snprintf(why, size,
                 "not bound: %d ranks are more than the cores "
                 "(usable CPUs: %d)",
                 nranks, usable);
    else
        good = true;
    for (int r = 0; good && r < nranks; r++) {
        fill(topo, core_of(topo, coll_topo_pu(topo, pus[r])), &sets[r]);
        good = CPU_COUNT(&sets[r]) > 0; /* beyond CPU_SETSIZE */
    }
    free(pus);
    return good;
}

cpu_set_t *bind_choose(int nranks, char *why, size_t size)
{
    cpu_set_t *sets = calloc((size_t)nranks, sizeof(*sets));
    coll_topo *topo = NULL;
    if (!sets)
        abort();
    if (coll_topo_discover(&topo, why, size)
        || !choose(topo, nranks, sets, why, size)) {
        free(sets);
        sets = NULL;
    }
    coll_topo_free(topo);
    return sets;
}

size_t bind_describe(const cpu_set_t *set, char *text, size_t size)
{
    const char *lead = set ? "bound to CPU" : "not bound";
    size_t used = (size_t)snprintf(text, size, "%s", lead);
    char separator = ' ';
    for (int cpu = 0; set && cpu < CPU_SETSIZE && used + 8 < size; cpu++)
        if (CPU_ISSET(cpu, set)) {
            used += (size_t)snprintf(text + used, size - used, "%c%d",
                                     separator, cpu);
            separator = ',';
        }
    return used;
}
