/* SPDX-License-Identifier: MIT */
/* One rank for each NUMA node, with weights and images of its own in the node's
 * memory: the partitions of a chip (You, Buluc and Demmel, SC 2017,
 * section 6.2). What they learn is added up in shared memory, as between any
 * ranks of a host.
 */
#ifndef TRAINER_PARTITION_H
#define TRAINER_PARTITION_H

#include "coll/topo.h"

/* Where a rank is, and what it needs there. */
struct partition {
    uint64_t host, node; /* the node's number of the system */
    uint64_t room;       /* bytes of the node's memory; 0: not known */
    uint64_t bytes;      /* of this rank */
};

/* Sets node and room to those of the one NUMA node that holds all of n
 * processors (the system's numbers); of a machine without nodes to 0. Returns
 * how many nodes they are in: 1 is right, and nothing is set otherwise. */
int partition_find(const coll_topo *, const int *cpus, int n,
                   struct partition *);

/* Of n ranks: the first one whose node has less room than all in it need, and
 * *needed: how much they do; -1 if all fit. */
int partition_crowded(const struct partition *, int n, uint64_t *needed);

#endif
