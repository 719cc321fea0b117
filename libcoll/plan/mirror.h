/* SPDX-License-Identifier: MIT */
/* A plan run backwards: what spreads data becomes what sums it.
 *
 * In a broadcast or an allgather a rank hears each chunk once, and passes it on
 * to others later. Backwards it hears their partial sums of the chunk, adds its
 * own share, and sends the sum to whom it had the chunk from: a reduce, or a
 * reduce-scatter, with as many bytes on every link, the other way.
 *
 *   1 hears c from 0              1 hears c from 2, adds its own
 *   1 sends c to 2, 3     -->     1 hears c from 3, adds it
 *                                 1 sends c to 0
 */
#ifndef PLAN_MIRROR_H
#define PLAN_MIRROR_H

#include "plan/plan.h"

/* Ends a round of a plan that is to be mirrored: what is sent in a round was
 * heard in rounds before it. */
void plan_end_round(struct plan *);

/* Fills an empty plan. spread: sends, receives, joins and copies, in rounds,
 * each receives before its sends; all of them, but the copies of a rank's own
 * chunks, are mirrored. It stays the caller's. own: the chunks that the rank
 * spreads itself, of which it ends with the sum in PLAN_OUT; a run of no chunks
 * if there are none. What a message of the plan names must not be partly own,
 * unless all chunks are of one length, or a call says each one's (exec.h).
 *
 * A chunk's sum is its rank's own share plus those heard, in the order in which
 * the plan posts them. The scratch is what the rank hears in two rounds, and
 * PLAN_SUM. */
void plan_mirror(struct plan *, const struct plan *spread, struct place own);

#endif
