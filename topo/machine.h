/* SPDX-License-Identifier: MIT */
/* The inside of a coll_topo, and how the parts of this folder build one.
 *
 * A builder appends objects in depth-first order: machine_open() begins one,
 * machine_close() says that all it contains has been added. The inside of one
 * host is built first, with the host as object 0; machine_expand() repeats it
 * for each host of a cluster.
 */
#ifndef TOPO_MACHINE_H
#define TOPO_MACHINE_H

#include <sched.h>
#include <stdbool.h>

#include "coll/topo.h"

enum {
    MAX_OBJECTS = 1 << 22, /* 170 MB; a description cannot ask for more */
    MAX_LEVELS = 8,
    MAX_NAME = 32, /* of a level, with its final 0 */
    MAX_OS_INDEX = 1 << 20,
    OS_AUTO = -2, /* os_index: becomes the logical one in the host */
};

struct level {
    char name[MAX_NAME];
    int count; /* in each object of the level outside it; 0: they differ */
    coll_topo_link link;
};

/* Levels, outermost first. Where a level's count is 0, counts has one for each
 * object of the level outside it, in order. */
struct shape {
    struct level levels[MAX_LEVELS];
    int *counts[MAX_LEVELS];
    int nlevels;
};

struct coll_topo {
    coll_topo_object *objects;
    int nobjects, capacity;
    int *pus; /* indices of the PUs; set by machine_finish() */
    int counts[COLL_TOPO_NKINDS];
    struct level levels[MAX_LEVELS]; /* the last one's objects are the hosts */
    int nlevels;
    bool this_host;
    char **host_names; /* by logical index; NULL: hosts have no names */
};

#define PRINTF(format, first)                                                  \
    __attribute__((__format__(__printf__, format, first)))

/* Writes the sentence, and returns status. */
PRINTF(4, 5)
coll_status topo_fail(coll_status status, char *error, size_t error_bytes,
                      const char *format, ...);

/* A host with nothing inside, open; NULL: no memory. */
coll_topo *machine_new(void);

/* Appends an object inside the last one that is open and returns its index, or
 * -1 if there is no memory or MAX_OBJECTS are there. */
int machine_open(coll_topo *topo, int parent, coll_topo_kind kind, int os_index,
                 uint64_t bytes);
void machine_close(coll_topo *topo, int index);

/* Appends copies of the closed object index beside it; false as above. */
bool machine_repeat(coll_topo *topo, int index, int copies);

/* Closes the root and numbers everything. */
coll_status machine_finish(coll_topo *topo, char *error, size_t error_bytes);

/* The cluster whose every host is like `host`, which must be finished and
 * stays the caller's, as the shape does. */
coll_status machine_expand(coll_topo **topo, const coll_topo *host,
                           const struct shape *shape, char *error,
                           size_t error_bytes);

/* Objects of a level if there are `outside` in the level outside it; above
 * MAX_OBJECTS whatever the excess. */
int64_t shape_objects(const struct shape *shape, int level, int64_t outside);
void shape_free(struct shape *shape);

/* All of a file as text; the caller frees. NULL: status is set, and the
 * sentence written. (load.c) */
char *topo_read_file(const char *path, const char *where, coll_status *status,
                     char *error, size_t error_bytes);

/* The inside of a host from hwloc's synthetic text, or the XML file at path;
 * where says where the text stands, in errors. (discover.c) */
coll_status machine_from_synthetic(coll_topo **host, const char *text,
                                   char *error, size_t error_bytes);
coll_status machine_from_xml(coll_topo **host, const char *path, char *error,
                             size_t error_bytes);

/* The calling thread's affinity mask, of any size; free with CPU_FREE().
 * NULL: no memory, or the system refuses. (limits.c) */
cpu_set_t *affinity_read(size_t *bytes);

/* CPUs that the cgroups of this process grant, 0: no limit. root stands before
 * every path that is read: "" but in tests. (limits.c) */
double cgroup_quota(const char *root);

#endif
