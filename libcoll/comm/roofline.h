/* SPDX-License-Identifier: MIT */
/* How fast this processor adds, and how fast its memory is: the two lines of a
 * roofline (Williams, Waterman and Patterson, 2009).
 */
#ifndef COMM_ROOFLINE_H
#define COMM_ROOFLINE_H

#include <stddef.h>

/* Seconds per byte of one of two short f32 vectors that are added up in the
 * caches, the least of a few. Takes tens of microseconds. */
double roofline_sum(void);

/* Seconds per byte that comes from memory: the same with vectors that are put
 * out of the caches before, so it takes 2 MiB and a few milliseconds, however
 * large the caches are. 0: not known, as on processors other than x86-64 and
 * AArch64. */
double roofline_memory(void);

#endif
