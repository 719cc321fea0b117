/* SPDX-License-Identifier: MIT */
/* What was learned, kept between jobs: one text file for each shape of a job.
 *
 *   # libcoll learned 1
 *   # 8 ranks on 4 hosts (rank 0: node17)
 *   links 91ca53af80d24be7 inside 11 us 2.5 us 0.12 GB/s across 30 us ...
 *   allreduce 1048576 ring block 123.4 us 9
 *
 * The job, for people; what a communicator measured of its links (links.h), a
 * line for each of the last few to end, the last one first; collective, least
 * bytes of the class of sizes, algorithm, order of the ranks, time, samples.
 * The file's name is a hash of the ranks' layout, of the settings that say by
 * what they reach one another, and of rank 0's host. It appears whole, by
 * rename.
 */
#ifndef COMM_STORE_H
#define COMM_STORE_H

#include "comm/comm.h"

/* Rank 0: what an earlier job has kept, into recalled[] of the prices. A line
 * that does not parse is warned about and left out. */
void store_load(coll_comm *);

/* Rank 0, which knows its layout: what earlier jobs measured of the links of
 * these hosts. What does not parse is left out, and warned about if that is
 * wanted. False: nothing. */
bool store_load_links(const coll_comm *, struct links_history *, bool warns);

/* Rank 0, in an orderly end: what is known now. Nothing is written if nothing
 * was measured. A failure is warned about, or told, where only links are lost.
 */
void store_save(const coll_comm *);

#endif
