/* SPDX-License-Identifier: MIT */
/* Machines out of hwloc: this host, its synthetic texts, its XML files.
 *
 * One conversion serves all three. NUMA nodes hang beside hwloc's tree, as
 * memory of some object; here the first memory of an object becomes a level
 * around what the object holds, so that parents alone say who is near whom.
 * More memory of the same object (the fast one of a KNL, say), and memory of
 * an object that has NUMA nodes further in, has nothing inside.
 */
#include "machine.h"

#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

struct conversion {
    coll_topo *host;
    const cpu_set_t *allowed; /* NULL: every PU is usable */
    size_t allowed_bytes;
    bool full; /* no memory, or MAX_OBJECTS */
};

/* Returns false for what is left out; its children take its place. */
static bool kind_of(const struct hwloc_obj *obj, coll_topo_kind *kind)
{
    switch (obj->type) {
    case HWLOC_OBJ_PACKAGE:
        *kind = COLL_TOPO_PACKAGE;
        return true;
    case HWLOC_OBJ_DIE:
    case HWLOC_OBJ_GROUP:
        *kind = COLL_TOPO_GROUP;
        return obj->memory_arity == 0; /* else its NUMA node stands for it */
    case HWLOC_OBJ_L3CACHE:
        *kind = COLL_TOPO_L3;
        return true;
    case HWLOC_OBJ_L2CACHE:
        *kind = COLL_TOPO_L2;
        return true;
    default:
        return false;
    }
}

static int os_index_of(const struct hwloc_obj *obj)
{
    switch (obj->type) {
    case HWLOC_OBJ_PACKAGE:
    case HWLOC_OBJ_NUMANODE:
    case HWLOC_OBJ_CORE:
    case HWLOC_OBJ_PU:
        return obj->os_index <= MAX_OS_INDEX ? (int)obj->os_index : OS_AUTO;
    default:
        return -1;
    }
}

static int add(struct conversion *c, int parent, coll_topo_kind kind,
               const struct hwloc_obj *obj)
{
    uint64_t bytes = 0;
    if (kind == COLL_TOPO_NUMA)
        bytes = obj->attr->numanode.local_memory;
    else if (kind == COLL_TOPO_L3 || kind == COLL_TOPO_L2)
        bytes = obj->attr->cache.size;
    const int index =
        machine_open(c->host, parent, kind, os_index_of(obj), bytes);
    c->full |= index < 0;
    return c->full ? parent : index;
}

static bool memory_inside(const struct hwloc_obj *obj)
{
    for (hwloc_obj_t o = obj->first_child; o; o = o->next_sibling)
        if (o->memory_arity || memory_inside(o))
            return true;
    return false;
}

/* The NUMA node in a piece of an object's memory, or NULL. */
static hwloc_obj_t node_of(hwloc_obj_t memory)
{
    while (memory && memory->type != HWLOC_OBJ_NUMANODE) /* its cache */
        memory = memory->memory_first_child;
    return memory;
}

/* Opens the node that stands around what obj holds; -1: there is none. */
static int open_memory(struct conversion *c, const struct hwloc_obj *obj,
                       int parent)
{
    const hwloc_obj_t node = node_of(obj->memory_first_child);
    return node && !memory_inside(obj) ? add(c, parent, COLL_TOPO_NUMA, node)
                                       : -1;
}

/* Adds the others, with nothing inside. */
static void add_memory(struct conversion *c, const struct hwloc_obj *obj,
                       int parent)
{
    hwloc_obj_t m = obj->memory_first_child;
    if (m && !memory_inside(obj))
        m = m->next_sibling;
    for (; m; m = m->next_sibling)
        if (node_of(m))
            add(c, parent, COLL_TOPO_NUMA, node_of(m));
}

/* Adds the PUs of obj, without what may be between. */
static void add_pus(struct conversion *c, const struct hwloc_obj *obj, int core)
{
    if (obj->type == HWLOC_OBJ_PU) {
        const int pu = add(c, core, COLL_TOPO_PU, obj);
        if (c->allowed && !c->full)
            c->host->objects[pu].usable =
                CPU_ISSET_S(obj->os_index, c->allowed_bytes, c->allowed) != 0;
    }
    for (hwloc_obj_t o = obj->first_child; o; o = o->next_sibling)
        add_pus(c, o, core);
}

/* Adds a core, or a PU without one, which then gets a core of its own index.
 * Memory of a core alone stands around it. */
static void convert_core(struct conversion *c, const struct hwloc_obj *obj,
                         int parent)
{
    const int numa = open_memory(c, obj, parent);
    const int core = add(c, numa < 0 ? parent : numa, COLL_TOPO_CORE, obj);
    add_pus(c, obj, core);
    machine_close(c->host, core);
    if (numa >= 0)
        machine_close(c->host, numa);
    add_memory(c, obj, parent);
}

/* Adds obj, if it is of a kind we have, and all it holds. */
static void convert(struct conversion *c, const struct hwloc_obj *obj,
                    int parent)
{
    coll_topo_kind kind;
    if (obj->type == HWLOC_OBJ_CORE || obj->type == HWLOC_OBJ_PU) {
        convert_core(c, obj, parent);
        return;
    }
    const bool known = kind_of(obj, &kind);
    const int index = known ? add(c, parent, kind, obj) : parent;
    const int numa = open_memory(c, obj, index);
    for (hwloc_obj_t o = obj->first_child; o && !c->full; o = o->next_sibling)
        convert(c, o, numa < 0 ? index : numa);
    if (numa >= 0)
        machine_close(c->host, numa);
    add_memory(c, obj, index);
    if (known)
        machine_close(c->host, index);
}

/* Turns a loaded topology into the inside of a host. */
static coll_status from_hwloc(coll_topo **host, hwloc_topology_t hwloc,
                              char *error, size_t error_bytes)
{
    struct conversion c = {.host = machine_new()};
    cpu_set_t *mine = NULL;
    if (!c.host)
        return topo_fail(COLL_ERR_MEMORY, error, error_bytes,
                         "no memory for a machine");
    c.host->this_host = hwloc_topology_is_thissystem(hwloc);
    if (c.host->this_host)
        c.allowed = mine = affinity_read(&c.allowed_bytes);
    convert(&c, hwloc_get_root_obj(hwloc), 0);
    CPU_FREE(mine);
    coll_status status = c.full
                             ? topo_fail(COLL_ERR_MEMORY, error, error_bytes,
                                         "no memory for a machine of this size")
                             : machine_finish(c.host, error, error_bytes);
    if (status)
        coll_topo_free(c.host);
    else
        *host = c.host;
    return status;
}

enum source { THIS_HOST, SYNTHETIC, XML };

static int set_source(hwloc_topology_t hwloc, enum source source,
                      const char *text)
{
    switch (source) {
    case SYNTHETIC:
        return hwloc_topology_set_synthetic(hwloc, text);
    case XML:
        return hwloc_topology_set_xml(hwloc, text);
    default:
        /* All of the machine, so that ranks in different cpusets of one host
         * number its parts alike. */
        return hwloc_topology_set_flags(hwloc,
                                        HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    }
}

static coll_status load(coll_topo **host, enum source source, const char *text,
                        char *error, size_t error_bytes)
{
    static const char *const what[] = {
        "hwloc cannot read this machine",
        "hwloc cannot build a machine of this form",
        "hwloc cannot read this file as the XML of a machine"};
    hwloc_topology_t hwloc;
    coll_status status;
    if (hwloc_topology_init(&hwloc))
        return topo_fail(COLL_ERR_MEMORY, error, error_bytes,
                         "no memory for hwloc");
    if (set_source(hwloc, source, text) || hwloc_topology_load(hwloc))
        status =
            topo_fail(source == THIS_HOST ? COLL_ERR_SYSTEM : COLL_ERR_INVALID,
                      error, error_bytes, "%s", what[source]);
    else
        status = from_hwloc(host, hwloc, error, error_bytes);
    hwloc_topology_destroy(hwloc);
    return status;
}

coll_status coll_topo_discover(coll_topo **topo, char *error,
                               size_t error_bytes)
{
    if (!topo)
        return topo_fail(COLL_ERR_INVALID, error, error_bytes,
                         "coll_topo_discover: topo is NULL");
    return load(topo, THIS_HOST, NULL, error, error_bytes);
}

coll_status machine_from_synthetic(coll_topo **host, const char *text,
                                   char *error, size_t error_bytes)
{
    return load(host, SYNTHETIC, text, error, error_bytes);
}

coll_status machine_from_xml(coll_topo **host, const char *path, char *error,
                             size_t error_bytes)
{
    return load(host, XML, path, error, error_bytes);
}
