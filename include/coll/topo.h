/* SPDX-License-Identifier: MIT */
/* Machines and clusters: what there is, who is near whom, where ranks go.
 *
 * A coll_topo is one array of objects in depth-first order: an object stands
 * before what it contains, and objects[i].end is one past the last object
 * inside i. It comes from this host (coll_topo_discover) or from a description
 * (coll_topo_parse); topo/README.md has the notation. It never changes, so any
 * thread may read it.
 *
 *   index      of an object: into the array; the root is 0
 *   pu         a processing unit (hardware thread): 0 .. count(PU) - 1
 *   errors     a negative coll_status; if error is not NULL, the sentence is
 *              written there, cut to error_bytes. Outputs are then unchanged
 */
#ifndef COLL_TOPO_H
#define COLL_TOPO_H

#include <stddef.h>
#include <stdint.h>

#include "coll/types.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef struct coll_topo coll_topo;

typedef enum coll_topo_kind {
    COLL_TOPO_CLUSTER, /* the root, if there is more than a host */
    COLL_TOPO_LEVEL,   /* a level of the cluster with a name of its own */
    COLL_TOPO_HOST,    /* one operating system; the root of one machine */
    COLL_TOPO_PACKAGE,
    COLL_TOPO_NUMA,  /* without anything inside: memory only */
    COLL_TOPO_GROUP, /* dies, and hwloc's groups */
    COLL_TOPO_L3,
    COLL_TOPO_L2,
    COLL_TOPO_CORE,
    COLL_TOPO_PU,
    COLL_TOPO_NKINDS
} coll_topo_kind;

typedef struct coll_topo_object {
    int parent; /* -1: the root */
    int end;    /* one past the last object inside this one */
    coll_topo_kind kind;
    int level;      /* which level of the cluster, outermost 0; -1: none */
    int logical;    /* how many objects of this kind come before */
    int os_index;   /* the system's number within the host; -1: has none */
    int usable;     /* PU: this process may run there; others: 1 */
    uint64_t bytes; /* memory of a NUMA node, size of a cache; 0: unknown */
} coll_topo_object;

/* What two hosts or groups of hosts are joined by; all 0: not described.
 *
 * Of a level it is the link that leaves each of the level's objects. Latency is
 * from end to end between two hosts whose paths part at the level. So is the
 * bandwidth, for each host, unless the link is shared: then it is that of one
 * link (an uplink, a trunk), which carries whatever enters or leaves the
 * object, all flows together in each direction. */
typedef struct coll_topo_link {
    double latency_seconds;
    double bytes_per_second;
    int shared;
} coll_topo_link;

/* This host, through hwloc: the whole machine, whatever this process may use;
 * PUs outside the affinity mask or cpuset are not `usable`. HWLOC_SYNTHETIC and
 * HWLOC_XMLFILE replace it, see coll_topo_is_this_host(). The caller frees.
 * Fails with SYSTEM, MEMORY. Takes some milliseconds. */
coll_status coll_topo_discover(coll_topo **topo, char *error,
                               size_t error_bytes);

/* What the text describes. `where` stands before line and column in errors:
 * "COLL_CLUSTER:1:12: ...". The caller frees. Fails with INVALID, MEMORY. */
coll_status coll_topo_parse(coll_topo **topo, const char *text,
                            const char *where, char *error, size_t error_bytes);

/* Like coll_topo_parse(), but spec may also be, and is looked at in this order:
 *
 *   a file with such a text          errors then name the file
 *   slurm:FILE                       see coll_topo_parse_slurm(); all nodes, of
 *                                    which a job finds its own by their names
 *   a name of coll_topo_cluster_get()
 *
 * What has no ':' or '{' and is none of these is an error. Fails with INVALID,
 * MEMORY, SYSTEM (cannot read). */
coll_status coll_topo_load(coll_topo **topo, const char *spec,
                           const char *where, char *error, size_t error_bytes);

/* The cluster that the text of a topology.conf describes (Slurm's topology/tree
 * plugin), of the nodes in node_list only, such as "n[0-3,7],gpu12"; NULL: all.
 *
 * Switches become levels: "switch" right above the hosts, "switch2" above that,
 * and so on; a switch that holds all hosts is the root. One that is nearer to
 * its hosts than others stands for every level that it skips. Hosts are in the
 * order of the tree, whatever that of node_list, and have one core. Links are
 * not described: LinkSpeed has no unit. The caller frees. Fails with INVALID,
 * MEMORY. */
coll_status coll_topo_parse_slurm(coll_topo **topo,
                                  const char *topology_conf_text,
                                  const char *node_list, const char *where,
                                  char *error, size_t error_bytes);

/* The name of a host by its logical index; NULL if it has none. Only hosts
 * that Slurm describes have names; they live as long as topo. */
const char *coll_topo_host_name(const coll_topo *topo, int host);

/* Frees one of the above; NULL is allowed. */
void coll_topo_free(coll_topo *topo);

/* 1 if both have the same objects, names of levels, and links. */
int coll_topo_equal(const coll_topo *a, const coll_topo *b);

/* Write at most bytes, with the final 0, and return the length that the whole
 * text has, as snprintf() does. The tree is for people, several lines, equal
 * neighbours once; the notation is one line that coll_topo_parse() turns into
 * an equal coll_topo. */
size_t coll_topo_print_tree(const coll_topo *topo, char *text, size_t bytes);
size_t coll_topo_print_notation(const coll_topo *topo, char *text,
                                size_t bytes);

/* Objects of one kind, and of all; object i, or NULL outside of the array; the
 * index of the pu-th PU, or -1. Pointers live as long as topo. */
int coll_topo_count(const coll_topo *topo, coll_topo_kind kind);
int coll_topo_size(const coll_topo *topo);
const coll_topo_object *coll_topo_get(const coll_topo *topo, int index);
int coll_topo_pu(const coll_topo *topo, int pu);

/* "package"; of the levels of a cluster the name they were given. */
const char *coll_topo_kind_name(coll_topo_kind kind);
const char *coll_topo_name(const coll_topo *topo, int index);

/* 1 if PUs are those of this host, so that a thread may be bound to their
 * os_index; 0 for descriptions. */
int coll_topo_is_this_host(const coll_topo *topo);

/* The index of the smallest object that holds both PUs; -1 if one is none. */
int coll_topo_common(const coll_topo *topo, int pu_a, int pu_b);

/* What leaves one object of the cluster, a level's or a host: the figures of
 * its level. All 0 for other objects, and where nothing is described. INVALID:
 * no such object. */
coll_status coll_topo_level_link(const coll_topo *topo, int object_index,
                                 coll_topo_link *link);

/* The link between two PUs: of the outermost level that they differ in, with
 * the least bandwidth from there inward, so figures are from end to end. That
 * of a shared link is what one flow alone gets; shared is 1 if it is the least.
 * All 0 inside a host and where nothing is described. INVALID: no such PU. */
coll_status coll_topo_link_between(const coll_topo *topo, int pu_a, int pu_b,
                                   coll_topo_link *link);

/* The i-th machine that machine:NAME knows; 0 past the last. Static storage. */
typedef struct coll_topo_machine {
    const char *name, *text, *source;
} coll_topo_machine;
int coll_topo_machine_get(int i, coll_topo_machine *machine);

/* The i-th cluster that coll_topo_load() knows by name; 0 past the last. text
 * is all of its file, with the sources of the figures as comments, and about
 * the first line. Static storage. */
typedef struct coll_topo_cluster {
    const char *name, *text, *about;
} coll_topo_cluster;
int coll_topo_cluster_get(int i, coll_topo_cluster *cluster);

/* What of this host the calling process may use, read anew at each call. */
typedef struct coll_topo_limits {
    int online;        /* CPUs that the system has running */
    int allowed;       /* of those, in the affinity mask of this thread */
    double quota_cpus; /* CPU time per time that the cgroups grant; 0: all */
    int usable;        /* allowed, but not above the whole part of the quota;
                          at least 1 */
} coll_topo_limits;
void coll_topo_limits_get(coll_topo_limits *limits);

/* How many threads can really run at once: coll_topo_limits.usable. */
int coll_topo_usable_cpus(void);

/* Equal on processes that run on the same kernel in the same network, IPC and
 * process namespaces, so that they can share memory; else different but for a
 * 1 in 2^64. A host's name plays no part. */
uint64_t coll_topo_host_id(void);

/* Where a rank is, by logical index, or -1 where it spans several (or none
 * exists). The cache is the last one: L3, or where there is none L2. */
typedef struct coll_topo_location {
    uint64_t host;
    int package, numa, cache, core;
} coll_topo_location;

/* The calling thread, by its present affinity; host is coll_topo_host_id().
 * All -1 if topo is not this host. */
void coll_topo_locate(const coll_topo *topo, coll_topo_location *location);

/* One PU; host is the logical index of its host. INVALID: no such PU. */
coll_status coll_topo_locate_pu(const coll_topo *topo, int pu,
                                coll_topo_location *location);

/* Chooses a PU for each of nranks ranks: pus[r] for rank r.
 *
 * Ranks are spread evenly over usable cores, outermost objects first (hosts,
 * packages, NUMA nodes, caches), neighbours in rank next to each other. Each
 * has a core to itself while there are enough; then cores take several ranks,
 * on different PUs while there are enough.
 *
 * Returns the largest number of ranks on one core: 1 is what one wants, more
 * says that ranks share. 0: nothing was placed, as nranks < 1, memory is short
 * or no PU is usable. */
int coll_topo_place(const coll_topo *topo, int nranks, int pus[]);

/* Chooses a PU for each of nthreads threads of each of nranks ranks: that of
 * thread t of rank r is pus[r * nthreads + t].
 *
 * A rank's share is a run of neighbouring usable cores: whole NUMA nodes if there
 * are enough for all ranks, else as many as others have. Its threads, one
 * on a core, are in as few NUMA nodes as hold them, and spread evenly over what
 * the share has of these: eight ranks with eight threads get a panel each of
 * machine:ft2000plus.
 *
 * Returns 1; 0: nothing was placed, as there are more threads than cores, a
 * number is below 1 or memory is short. */
int coll_topo_place_threads(const coll_topo *topo, int nranks, int nthreads,
                            int pus[]);

/* What two ranks share, the closest last. */
typedef enum coll_topo_share {
    COLL_TOPO_SHARE_NONE,
    COLL_TOPO_SHARE_HOST,
    COLL_TOPO_SHARE_PACKAGE,
    COLL_TOPO_SHARE_NUMA,
    COLL_TOPO_SHARE_CACHE,
    COLL_TOPO_SHARE_CORE,
} coll_topo_share;

/* The closest thing that both are known to be in. */
coll_topo_share coll_topo_shared(const coll_topo_location *a,
                                 const coll_topo_location *b);
const char *coll_topo_share_name(coll_topo_share share); /* "numa" */

/* Groups ranks that have the same `share` (NONE: all ranks are one group).
 *
 * A rank that spans several such objects is a group alone. Groups are numbered
 * in the order of their lowest ranks, which are their leaders. Where not NULL,
 * group_of[r] is set for each of nranks ranks and leaders[g] for each group, so
 * both have room for nranks. Returns the number of groups; 0 if nranks < 1 or
 * memory is short. */
int coll_topo_group(const coll_topo_location locations[], int nranks,
                    coll_topo_share share, int group_of[], int leaders[]);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
