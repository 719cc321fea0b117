/* SPDX-License-Identifier: MIT */
/* Which cores the ranks of this host are bound to. */
#ifndef PROGRAMS_BIND_H
#define PROGRAMS_BIND_H

#include <sched.h>
#include <stddef.h>

/* One core for each rank, near ranks on near cores: nranks sets, to be freed.
 * NULL if there are not enough cores, or nothing is known of them; the ranks
 * are then left to the scheduler, and `why` holds the sentence. */
cpu_set_t *bind_choose(int nranks, char *why, size_t size);

/* "core 0,2" or "not bound"; returns the length. */
size_t bind_describe(const cpu_set_t *, char *text, size_t size);

#endif
