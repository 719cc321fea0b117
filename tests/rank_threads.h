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

/* Whether every one of n ranks did its part right. */
int run(int n, part_fn *part);

#endif
