/* SPDX-License-Identifier: MIT */
/* What messages between the hosts of a job cost, measured when it starts, and
 * which hosts are near one another.
 *
 * One rank of each host takes part. In round k, host i meets host i xor k, all
 * pairs at the same time, as a collective would: a few short messages in turn,
 * a handful at once, and a longer one both ways. Then the first two ranks of
 * each host do the same. Hosts whose messages are fast form groups; if there
 * are several, one pair of hosts of different groups then exchanges alone, and
 * all such pairs at once, which tells a link that the hosts of a group share
 * from slow ports. Bounded: each pair stops measuring once it has spent its
 * share of the time.
 */
#ifndef COMM_PROBE_H
#define COMM_PROBE_H

#include "comm/comm.h"

/* Figures of LogGP: a message of b bytes takes alpha + 2 overhead + beta b. */
struct probe_groups {
    int ngroups;            /* 1: all hosts are alike */
    int *group_of;          /* per host, in the order of their lowest ranks */
    struct sim_link inside; /* between hosts of one group */
    struct sim_link across;
    double shared; /* seconds per byte of a group's link; 0: not shared */
    struct sim_link local; /* between ranks of one host; beta 0: not measured */
    double seconds;        /* that it took */
};

/* All ranks call it and get the same. host: per rank, numbered from 0 by lowest
 * ranks. Fails with MEMORY, and as messages do. probe_free() afterwards. */
coll_status probe_hosts(coll_comm *, const int *host, int nhosts,
                        struct probe_groups *);
void probe_free(struct probe_groups *);

/* Seconds per byte to add up two vectors of so many bytes each, the least of a
 * few. */
double probe_gamma(size_t bytes);

#endif
