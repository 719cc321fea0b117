/* SPDX-License-Identifier: MIT */
/* What the communicator from which one is split off has measured is taken over
 * where it holds for both, and not measured again. The same on all ranks. */
#ifndef COMM_COPY_H
#define COMM_COPY_H

#include "comm/comm.h"

/* Of the same ranks in the same order: in the place of comm_reach(), and of
 * looking at the network. Fail with MEMORY. */
coll_status copy_rails(coll_comm *);
coll_status copy_layout(coll_comm *);

/* Whether what one may measure the other may, too; false without another one.
 */
bool copy_serves(const coll_comm *);

/* Whether both have the same groups of as many ranks, so that prices and what
 * was learned hold. */
bool copy_fits(const coll_comm *);
coll_status copy_prices(coll_comm *); /* fails with MEMORY */

#endif
