/* SPDX-License-Identifier: MIT */
/* The hosts of a job, as the positions of plans by hosts: which rank of each
 * takes part in a plan. Hosts are numbered in the order of their lowest ranks,
 * the ranks of a host in rank order, as node/ numbers its places.
 */
#ifndef COMM_HOSTS_H
#define COMM_HOSTS_H

#include "algo/algo.h"
#include "comm/layout.h"

/* Vectors from here on cross in slices, one carried by each rank of a host,
 * where all hosts have as many. For shorter ones a message for each rank costs
 * more than it saves; assumed. */
enum { HOSTS_SLICES_MIN = 16384 };

struct hosts {
    int n, nranks, most; /* hosts; ranks; ranks on the largest host */
    bool even;           /* as many ranks on each */
    int *host_of;        /* per rank */
    int *place_of;       /* per rank: its number on its host */
    int *rank_at;        /* the ranks, host by host, in rank order on each */
    int *first;          /* per host, and n: where in rank_at its ranks begin */
    struct layout layout; /* one rank a host; group_of NULL until it is known */
};

/* host_of: per rank, equal for ranks of one host. Fails with MEMORY. */
coll_status hosts_create(struct hosts *, int nranks, const uint64_t *host_of);
void hosts_free(struct hosts *); /* also after a failure, and of zeros */

int hosts_rank(const struct hosts *, int host, int place); /* or -1 */

/* Into how many segments an operation by hosts is cut, see staged.h: those that
 * came with its price, unless the planner cuts up the vector by itself. */
int hosts_segments(const struct algo *, int nhosts, int segments);

/* Seconds of an operation by hosts whose plan takes `across` for each of so
 * many segments, of `bytes` in all, in a layout that has by_hosts. */
double hosts_seconds(const struct layout *, enum coll_kind, size_t bytes,
                     int segments, double across);

/* The rank that speaks for a host: root for its own, else the lowest. */
int hosts_leader(const struct hosts *, int host, int root);

#endif
