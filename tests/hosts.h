/* SPDX-License-Identifier: MIT */
/* Jobs of real processes that take themselves for ranks of several hosts: the
 * linker puts the hosts' numbers in place of the machine's (--wrap), and names
 * n0, n1 and so on in place of its name. */
#ifndef TESTS_HOSTS_H
#define TESTS_HOSTS_H

#include "by_hosts.h"
#include "comm/comm.h"
#include "ranks.h"

/* With the hosts dealt over their groups where that is offered. */
#define HOSTS_DEALT                                                            \
    "@hosts_dealt;reduce:@by_hosts;broadcast:@by_hosts;barrier:@by_hosts"

#define BY_MESSAGES                                                            \
    "^@by_hosts;reduce:^@by_hosts;broadcast:^@by_hosts;barrier:^@by_hosts;"    \
    "reduce_scatter:^@by_hosts;allgather:^@by_hosts"

/* Settings that leave out the measuring at start. */
extern const char *const quick[];
/* And nothing is tried, so that what is chosen is what runs. */
extern const char *const still[];

/* Operations of all sizes are cut into so many segments, if they can be: a
 * power of two. The same on all ranks, before the first one. */
void cut_into(coll_comm *, int segments);

/* A reduce_scatter, allgather, reduce or else allreduce of f32, by sum, with
 * root 0. */
coll_status sum_or_gather(coll_comm *, enum coll_kind, const float *in,
                          float *out, size_t count, coll_request **);

/* As run_ranks(), of as many ranks as host_of has letters. */
int run_on(const char *host_of, const char *const *settings, rank_fn *);

#endif
