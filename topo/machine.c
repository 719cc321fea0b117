/* SPDX-License-Identifier: MIT */
/* A machine as one flat array: building it, and asking about it. */
#include "machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

coll_status topo_fail(coll_status status, char *error, size_t error_bytes,
                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (error && error_bytes)
        vsnprintf(error, error_bytes, format, args);
    va_end(args);
    return status;
}

/* Room for n more objects. */
static bool reserve(coll_topo *topo, int64_t n)
{
    int64_t capacity = topo->capacity;
    if (n > MAX_OBJECTS - topo->nobjects)
        return false;
    while (capacity < topo->nobjects + n)
        capacity = capacity ? 2 * capacity : 64;
    if (capacity > topo->capacity) {
        void *more =
            realloc(topo->objects, (size_t)capacity * sizeof(*topo->objects));
        if (!more)
            return false;
        topo->objects = more;
        topo->capacity = (int)capacity;
    }
    return true;
}

coll_topo *machine_new(void)
{
    coll_topo *topo = calloc(1, sizeof(*topo));
    if (topo && machine_open(topo, -1, COLL_TOPO_HOST, -1, 0) < 0) {
        free(topo);
        return NULL;
    }
    return topo;
}

void coll_topo_free(coll_topo *topo)
{
    if (!topo)
        return;
    for (int i = 0; topo->host_names && i < topo->counts[COLL_TOPO_HOST]; i++)
        free(topo->host_names[i]);
    free(topo->host_names);
    free(topo->objects);
    free(topo->pus);
    free(topo);
}

int machine_open(coll_topo *topo, int parent, coll_topo_kind kind, int os_index,
                 uint64_t bytes)
{
    if (!reserve(topo, 1))
        return -1;
    topo->objects[topo->nobjects] = (coll_topo_object){
        .parent = parent,
        .end = topo->nobjects + 1,
        .kind = kind,
        .level = -1,
        .os_index = os_index,
        .usable = 1,
        .bytes = bytes,
    };
    return topo->nobjects++;
}

void machine_close(coll_topo *topo, int index)
{
    topo->objects[index].end = topo->nobjects;
}

/* Appends a copy of from[first..end), whose root goes below parent. */
static void append_copy(coll_topo *topo, const coll_topo_object *from,
                        int first, int end, int parent)
{
    const int shift = topo->nobjects - first;
    for (int i = first; i < end; i++) {
        coll_topo_object *o = &topo->objects[topo->nobjects++];
        *o = from[i];
        o->parent = i == first ? parent : o->parent + shift;
        o->end += shift;
    }
}

bool machine_repeat(coll_topo *topo, int index, int copies)
{
    const int end = topo->objects[index].end;
    if (!reserve(topo, (int64_t)copies * (end - index)))
        return false;
    for (int i = 0; i < copies; i++)
        append_copy(topo, topo->objects, index, end,
                    topo->objects[index].parent);
    return true;
}

static int by_value(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* The first os_index that two PUs of a host have in common; -1: none. The
 * array of PUs serves as room to sort in. */
static int twice_used(coll_topo *host)
{
    int n = 0, twice = -1;
    for (int i = 0; i < host->nobjects; i++)
        if (host->objects[i].kind == COLL_TOPO_PU)
            host->pus[n++] = host->objects[i].os_index;
    qsort(host->pus, (size_t)n, sizeof(int), by_value);
    for (int i = n - 1; i > 0; i--)
        if (host->pus[i] == host->pus[i - 1])
            twice = host->pus[i];
    return twice;
}

/* Logical indices, counts, and the list of PUs. */
static coll_status number(coll_topo *topo, char *error, size_t error_bytes)
{
    memset(topo->counts, 0, sizeof(topo->counts));
    for (int i = 0; i < topo->nobjects; i++) {
        coll_topo_object *o = &topo->objects[i];
        o->logical = topo->counts[o->kind]++;
        if (o->os_index == OS_AUTO)
            o->os_index = o->logical;
    }
    const int npus = topo->counts[COLL_TOPO_PU];
    topo->pus = malloc((size_t)(npus ? npus : 1) * sizeof(int));
    if (!topo->pus)
        return topo_fail(COLL_ERR_MEMORY, error, error_bytes,
                         "no memory for a machine of %d PUs", npus);
    return COLL_OK;
}

static void list_pus(coll_topo *topo)
{
    for (int i = 0, n = 0; i < topo->nobjects; i++)
        if (topo->objects[i].kind == COLL_TOPO_PU)
            topo->pus[n++] = i;
}

coll_status machine_finish(coll_topo *topo, char *error, size_t error_bytes)
{
    machine_close(topo, 0);
    coll_status status = number(topo, error, error_bytes);
    if (status)
        return status;
    if (!topo->counts[COLL_TOPO_PU])
        return topo_fail(COLL_ERR_INVALID, error, error_bytes,
                         "the machine has no core");
    const int twice = twice_used(topo);
    if (twice >= 0)
        return topo_fail(COLL_ERR_INVALID, error, error_bytes,
                         "two PUs have the index %d", twice);
    list_pus(topo);
    return COLL_OK;
}

int64_t shape_objects(const struct shape *shape, int level, int64_t outside)
{
    int64_t n = 0;
    if (shape->levels[level].count)
        return outside * shape->levels[level].count;
    for (int64_t i = 0; i < outside && n <= MAX_OBJECTS; i++)
        n += shape->counts[level][i];
    return n;
}

void shape_free(struct shape *shape)
{
    for (int l = 0; l < shape->nlevels; l++)
        free(shape->counts[l]);
}

/* Objects of the whole cluster, or -1 if that is above MAX_OBJECTS. */
static int64_t cluster_size(const coll_topo *host, const struct shape *shape)
{
    int64_t size = 1, n = 1;
    for (int l = 0; l < shape->nlevels; l++) {
        n = shape_objects(shape, l, n);
        if (n > MAX_OBJECTS)
            return -1;
        size += l < shape->nlevels - 1 ? n : n * host->nobjects;
        if (size > MAX_OBJECTS)
            return -1;
    }
    return size;
}

/* What is to be added; next[l] walks along shape->counts[l]. */
struct expansion {
    const coll_topo *host;
    const int *next[MAX_LEVELS];
};

static void add_level(coll_topo *topo, struct expansion *e, int parent,
                      int level)
{
    const bool hosts = level == topo->nlevels - 1;
    const int count = topo->levels[level].count ? topo->levels[level].count
                                                : *e->next[level]++;
    for (int i = 0; i < count; i++) {
        const int index = topo->nobjects;
        if (hosts) {
            append_copy(topo, e->host->objects, 0, e->host->nobjects, parent);
        } else {
            machine_open(topo, parent, COLL_TOPO_LEVEL, -1, 0);
            add_level(topo, e, index, level + 1);
            machine_close(topo, index);
        }
        topo->objects[index].level = level;
    }
}

coll_status machine_expand(coll_topo **out, const coll_topo *host,
                           const struct shape *shape, char *error,
                           size_t error_bytes)
{
    const int64_t size = cluster_size(host, shape);
    struct expansion e = {.host = host};
    if (size < 0)
        return topo_fail(COLL_ERR_INVALID, error, error_bytes,
                         "the cluster has more than %d objects; fewer levels "
                         "or cores inside a node would fit",
                         MAX_OBJECTS);
    coll_topo *topo = calloc(1, sizeof(*topo));
    if (!topo || !reserve(topo, size)) {
        coll_topo_free(topo);
        return topo_fail(COLL_ERR_MEMORY, error, error_bytes,
                         "no memory for a cluster of %lld objects",
                         (long long)size);
    }
    machine_open(topo, -1, COLL_TOPO_CLUSTER, -1, 0);
    topo->nlevels = shape->nlevels;
    memcpy(topo->levels, shape->levels, sizeof(topo->levels));
    for (int l = 0; l < shape->nlevels; l++)
        e.next[l] = shape->counts[l];
    add_level(topo, &e, 0, 0);
    machine_close(topo, 0);
    const coll_status status = number(topo, error, error_bytes);
    if (status) {
        coll_topo_free(topo);
        return status;
    }
    list_pus(topo);
    *out = topo;
    return COLL_OK;
}

static bool same_object(const coll_topo_object *a, const coll_topo_object *b)
{
    return a->parent == b->parent && a->end == b->end && a->kind == b->kind
           && a->level == b->level && a->logical == b->logical
           && a->os_index == b->os_index && a->usable == b->usable
           && a->bytes == b->bytes;
}

static bool same_level(const struct level *a, const struct level *b)
{
    return !strcmp(a->name, b->name) && a->count == b->count
           && a->link.latency_seconds == b->link.latency_seconds
           && a->link.bytes_per_second == b->link.bytes_per_second
           && a->link.shared == b->link.shared;
}

int coll_topo_equal(const coll_topo *a, const coll_topo *b)
{
    if (a->nobjects != b->nobjects || a->nlevels != b->nlevels)
        return 0;
    for (int l = 0; l < a->nlevels; l++)
        if (!same_level(&a->levels[l], &b->levels[l]))
            return 0;
    for (int i = 0; i < a->nobjects; i++)
        if (!same_object(&a->objects[i], &b->objects[i]))
            return 0;
    return 1;
}

int coll_topo_count(const coll_topo *topo, coll_topo_kind kind)
{
    return (unsigned)kind < COLL_TOPO_NKINDS ? topo->counts[kind] : 0;
}

int coll_topo_size(const coll_topo *topo)
{
    return topo->nobjects;
}

const coll_topo_object *coll_topo_get(const coll_topo *topo, int index)
{
    return index >= 0 && index < topo->nobjects ? &topo->objects[index] : NULL;
}

int coll_topo_pu(const coll_topo *topo, int pu)
{
    return pu >= 0 && pu < topo->counts[COLL_TOPO_PU] ? topo->pus[pu] : -1;
}

const char *coll_topo_kind_name(coll_topo_kind kind)
{
    static const char *const names[COLL_TOPO_NKINDS] = {
        "cluster", "level", "host", "package", "numa",
        "group",   "l3",    "l2",   "core",    "pu",
    };
    return (unsigned)kind < COLL_TOPO_NKINDS ? names[kind] : "";
}

const char *coll_topo_name(const coll_topo *topo, int index)
{
    const coll_topo_object *o = coll_topo_get(topo, index);
    if (!o)
        return "";
    return o->level >= 0 ? topo->levels[o->level].name
                         : coll_topo_kind_name(o->kind);
}

const char *coll_topo_host_name(const coll_topo *topo, int host)
{
    return topo->host_names && host >= 0 && host < topo->counts[COLL_TOPO_HOST]
               ? topo->host_names[host]
               : NULL;
}

int coll_topo_is_this_host(const coll_topo *topo)
{
    return topo->this_host;
}

/* A parent stands before its children, so of two different objects the later
 * one does not hold the other. */
int coll_topo_common(const coll_topo *topo, int pu_a, int pu_b)
{
    int a = coll_topo_pu(topo, pu_a), b = coll_topo_pu(topo, pu_b);
    if (a < 0 || b < 0)
        return -1;
    while (a != b) {
        if (a > b)
            a = topo->objects[a].parent;
        else
            b = topo->objects[b].parent;
    }
    return a;
}

coll_status coll_topo_level_link(const coll_topo *topo, int object_index,
                                 coll_topo_link *link)
{
    const coll_topo_object *o = coll_topo_get(topo, object_index);
    if (!o)
        return COLL_ERR_INVALID;
    *link = o->level >= 0 ? topo->levels[o->level].link : (coll_topo_link){0};
    return COLL_OK;
}

coll_status coll_topo_link_between(const coll_topo *topo, int pu_a, int pu_b,
                                   coll_topo_link *link)
{
    const int common = coll_topo_common(topo, pu_a, pu_b);
    if (common < 0)
        return COLL_ERR_INVALID;
    const coll_topo_object *o = &topo->objects[common];
    const int outermost = o->kind == COLL_TOPO_CLUSTER ? 0
                          : o->kind == COLL_TOPO_LEVEL ? o->level + 1
                                                       : topo->nlevels;
    *link = (coll_topo_link){0};
    if (outermost < topo->nlevels)
        *link = topo->levels[outermost].link;
    for (int l = outermost; l < topo->nlevels; l++) {
        const coll_topo_link *inner = &topo->levels[l].link;
        if (inner->bytes_per_second > 0
            && inner->bytes_per_second < link->bytes_per_second) {
            link->bytes_per_second = inner->bytes_per_second;
            link->shared = inner->shared;
        }
    }
    return COLL_OK;
}
