/* SPDX-License-Identifier: MIT */
/* Memory of other processes that is not shared: process_vm_readv(), _writev().
 * Both need the right to trace the process: same user, and no stricter rule of
 * the system (Yama, seccomp, containers). */
#ifndef NODE_FOREIGN_H
#define NODE_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/types.h"

/* Copy bytes between here and a process. PEER: it is gone; SYSTEM else. */
coll_status foreign_read(int pid, void *here, const void *there, size_t bytes);
coll_status foreign_write(int pid, const void *here, void *there, size_t bytes);

/* What a process shows to those who try whether they may read it. allow: where
 * the system asks each process (Yama), it says that all may. */
struct foreign_probe {
    int64_t pid;
    uint64_t address, value;
};
void foreign_offer(struct foreign_probe *, bool allow);
bool foreign_try(const struct foreign_probe *);

#endif
