/* SPDX-License-Identifier: MIT */
/* How much memory this process can still have before the system ends one. */
#ifndef COLL_NODE_MEMORY_LEFT_H
#define COLL_NODE_MEMORY_LEFT_H

#include <stdint.h>

/* Bytes that the system has to give, swap included, and its control groups allow
 * (cgroups of both versions); UINT64_MAX: nobody says. Takes tens of
 * microseconds. */
uint64_t memory_left(void);

/* The same of other places than /proc and /sys/fs/cgroup, for tests. */
uint64_t memory_left_in(const char *proc, const char *cgroups);

#endif
