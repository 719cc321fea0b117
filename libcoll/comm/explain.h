/* SPDX-License-Identifier: MIT */
/* Why an algorithm runs: the candidates, and what each loses by. */
#ifndef COMM_EXPLAIN_H
#define COMM_EXPLAIN_H

#include "comm/comm.h"

/* To the log, if the best of this class of sizes is not the one told last. */
void explain_aloud(coll_comm *, enum coll_kind, size_t bytes);

#endif
