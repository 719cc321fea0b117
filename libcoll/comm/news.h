/* SPDX-License-Identifier: MIT */
/* What operations took, and how all ranks come to know it: in the tags of the
 * messages of a later operation, see exec.h. */
#ifndef COMM_NEWS_H
#define COMM_NEWS_H

#include "comm/request.h"

/* Of a request by a plan that has just finished, whose messages said `heard`.
 * All ranks make the same calls, so all learn alike (select.h). */
void news_learn(coll_request *, uint16_t heard);

#endif
