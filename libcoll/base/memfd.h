/* SPDX-License-Identifier: MIT */
/* Files in memory that other processes of this host open through /proc.
 *
 * A memfd has no name in any file system and is no file of /dev/shm, so nothing
 * is left behind however its processes end, and a small /dev/shm is no limit.
 */
#ifndef BASE_MEMFD_H
#define BASE_MEMFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/types.h"

/* How to find one; plain bytes, sent to other ranks. */
struct memfd_name {
    int64_t pid, fd;
    uint64_t device, inode;
};

/* The file has `bytes` zero bytes and never gets smaller, so that access to
 * what is mapped of it never raises SIGBUS. flags: MFD_HUGETLB or 0. Fails with
 * SYSTEM; name->fd is the descriptor, to be closed by the caller. */
coll_status memfd_make(struct memfd_name *name, size_t bytes, unsigned flags);

/* Makes the file larger. Fails with MEMORY. */
coll_status memfd_grow(const struct memfd_name *name, uint64_t bytes);

/* A descriptor of another process's file, checked to be the one that was
 * named. Returns NULL, else what is wrong. */
const char *memfd_open(const struct memfd_name *name, int *fd);

#endif
