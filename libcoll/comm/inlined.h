/* SPDX-License-Identifier: MIT */
/* Up to what length an allreduce on one host copies each rank's vector into a
 * slot of shared memory (node_inline), rather than read it where it lies
 * (node_direct). The one costs a copy, the other one exchange more, and what
 * these cost depends on where the cores are: node.h assumes 2 KiB, and between
 * the cores of a virtual machine a copy of 4 KiB was faster by a quarter. So it
 * is measured. Of other collectives that were tried none gained there.
 */
#ifndef COMM_INLINED_H
#define COMM_INLINED_H

#include "comm/comm.h"

enum { INLINED_SIZES = 4, INLINED_LEAST = 1024 }; /* bytes; doubled each time */

/* The length up to which inlined[] is faster than direct[], on the whole: what
 * operations of each size took, in any unit. INLINED_LEAST / 2: nowhere. */
size_t inlined_best(const float inlined[INLINED_SIZES],
                    const float direct[INLINED_SIZES]);

/* Collective, while a communicator is made: sets select.node.allreduce_bytes,
 * alike on all ranks. Takes about half a millisecond; once five are over it
 * gives up and leaves what is assumed. It leaves all as it is where there are
 * several hosts, where ranks take turns on the processors, and where nothing is
 * to be measured (COLL_CALIBRATE). */
coll_status inlined_measure(coll_comm *);

#endif
