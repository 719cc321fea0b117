/* SPDX-License-Identifier: MIT */
/* Barrier by dissemination with three messages at once: in round k everybody
 * tells the ranks 4^k, 2 4^k and 3 4^k further on.
 *
 *   time   ceil(log4 n) alpha
 *   when   networks that carry three messages in little more time than one
 *   from   Hoefler, Mehlan, Mietke and Rehm, "Fast barrier synchronization for
 *          InfiniBand", IPDPS 2006 (n-way dissemination)
 */
#include "algo/algo.h"
#include "algo/parts.h"

void plan_barrier_dissemination_4(struct plan *p, const struct plan_shape *s)
{
    plan_dissemination(p, s, 4);
}
