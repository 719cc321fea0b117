/* SPDX-License-Identifier: MIT */
/* Runs a function as every rank of a job of threads of this process, for
 * programs that the thread sanitizer is to see. */
#ifndef TESTS_RANK_THREADS_H
#define TESTS_RANK_THREADS_H

#include "coll/coll.h"

/* A rank's part; returns 0 if all was right. The communicator is made before
 * and destroyed after. */
typedef int part_fn(coll_comm *comm, int rank, int nranks);

/* Ranks take themselves for ranks of so many hosts: the linker puts a number of
 * ours in place of the machine's (--wrap=coll_topo_host_id). 1 at first. */
extern int nhosts;

/* Done again, with a pause twice as long, while it is late on some rank: on a
 * busy machine nobody may have run meanwhile. 0: it was in time once. */
typedef int late_fn(coll_comm *comm, int rank, int nranks, unsigned pause_us,
                    int *late);
int in_time(coll_comm *comm, int rank, int nranks, late_fn *part);

/* Whether every one of n ranks did its part right. */
int run(int n, part_fn *part);

#endif
