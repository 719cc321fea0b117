/* SPDX-License-Identifier: MIT */
/* What operations took, and how all ranks come to know it: in the tags of the
 * messages of a later operation, see exec.h.
 *
 * That must be one in which every rank hears from every other. Programs that
 * only reduce and broadcast have none. So before some of these, few once the
 * choice is settled (select_is_due()), the library runs a barrier of its own:
 *
 *   broadcast, timed     ...     meeting     broadcast, timed
 *         what it took is         what the first one took is known to all, and
 *         each rank's news        they are in step: the clock starts
 */
#ifndef COMM_NEWS_H
#define COMM_NEWS_H

#include "comm/request.h"

/* Decides whether a request by a plan that now starts is timed; may put a
 * meeting before it, which then is first. */
void news_time(coll_request *);

/* Of a request by a plan that has just finished, whose messages said `heard`.
 * All ranks make the same calls, so all learn alike (select.h). */
void news_learn(coll_request *, uint16_t heard);

#endif
