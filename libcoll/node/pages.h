/* SPDX-License-Identifier: MIT */
/* What small pages of shared memory cost on this machine. */
#ifndef NODE_PAGES_H
#define NODE_PAGES_H

#include <stdbool.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Whether to reach one again costs more than to copy it. Where the processor
 * walks page tables, in a virtual machine too, it costs as much as a few lines
 * of memory. But some hosts keep page tables of their guests in software and
 * forget parts of them: then it costs microseconds, each time that much other
 * memory was used in between. Huge pages do not suffer, but of shared memory
 * few systems give them. Measured once in a process, which takes some
 * milliseconds there. Any thread. */
bool pages_are_dear(void);

#endif
