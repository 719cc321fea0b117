/* SPDX-License-Identifier: MIT */
/* Pages of shared memory. */
#ifndef NODE_PAGES_H
#define NODE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

enum { HUGE_PAGE = 2 << 20 };

size_t page_bytes(void);

/* Address space, or NULL. If it is so much that it can have huge pages, it
 * begins as far into one as `phase`, so as its place in a file must. */
char *pages_reserve(size_t bytes, size_t phase);

/* Gives a new, writable mapping of a file all its pages now, from the NUMA node
 * of this thread: huge ones where they fit and the system has them (since
 * Linux 6.1 for who asks, whatever it gives by itself), small ones elsewhere. False, with errno: there is no memory. */
bool pages_give(char *address, size_t bytes);

/* Whether to reach a page of long shared memory again costs more than to copy
 * it. Where the processor walks page tables, in a virtual machine too, it costs
 * as much as a few lines of memory. But some hosts keep page tables of their
 * guests in software and forget parts of them: then a small page costs
 * microseconds, each time that much other memory was used in between. Measured
 * once in a process, which takes some milliseconds there. Any thread. */
bool pages_are_dear(void);

#endif
