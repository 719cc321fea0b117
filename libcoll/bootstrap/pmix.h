/* SPDX-License-Identifier: MIT */
/* Jobs of launchers that speak PMIx: mpirun of Open MPI, prterun, srun
 * --mpi=pmix. Its library is loaded when it is needed, so programs that are
 * started otherwise do without it. */
#ifndef BOOTSTRAP_PMIX_H
#define BOOTSTRAP_PMIX_H

#include <stdbool.h>

#include "coll/coll.h"

/* Whether such a launcher has started this process; or another, and it was
 * inherited. */
bool pmix_here(void);

/* This process's rank and how many there are; rank 0 makes an id and it comes
 * to all. Every process of the job calls it, as often. Fails with UNSUPPORTED
 * (built without PMIx, or its library is not here), SYSTEM (it says no), and as
 * `make` does. */
coll_status pmix_meet(int *rank, int *nranks,
                      coll_status (*make)(coll_unique_id *),
                      coll_unique_id *id);

#endif
