/* SPDX-License-Identifier: MIT */
/* coll_sim's machine: a job of so many ranks on the first hosts of a cluster.
 */
#ifndef PROGRAMS_SIM_WORLD_H
#define PROGRAMS_SIM_WORLD_H

#include "coll/topo.h"
#include "comm/layout.h"

struct world {
    int nranks, nhosts;
    struct layout layout;
    struct plan_tree tree[NLINEUPS]; /* of the positions of each order */
};

struct world_request {
    const coll_topo *topo; /* NULL: a host for each rank and no more */
    int nranks, ranks_per_host;
    bool deal;    /* rank r on host r mod nhosts; else on r / ranks_per_host */
    double gamma; /* seconds per byte reduced */
    double overhead; /* seconds of a rank at each end of a message */
};

/* How many hosts a description has. */
int world_hosts(const coll_topo *);

/* What the description does not say costs what the library assumes. Fails with
 * INVALID, MEMORY. */
coll_status world_create(struct world *, const struct world_request *);
void world_free(struct world *);

/* "1024 ranks on 1024 hosts, 4 supernodes" */
void world_print(const struct world *, char *text, size_t bytes);

#endif
