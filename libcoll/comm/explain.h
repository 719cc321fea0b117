/* SPDX-License-Identifier: MIT */
/* Why an algorithm runs: the candidates, and what each loses by. */
#ifndef COMM_EXPLAIN_H
#define COMM_EXPLAIN_H

#include "comm/comm.h"

/* To the log, if the best of this class of sizes, of ANY_ORDER or IN_PAIRS, is
 * not the one told last. */
void explain_aloud(coll_comm *, enum coll_kind, enum algo_order, size_t bytes);

/* The collective of that name; caller: the function that the sentence names.
 * Fails with INVALID. */
coll_status explain_kind(const char *caller, const char *name,
                         enum coll_kind *);

#endif
