/* SPDX-License-Identifier: MIT */
#include "node/foreign.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"

typedef ssize_t transfer_fn(pid_t pid, const struct iovec *local,
                            unsigned long nlocal, const struct iovec *remote,
                            unsigned long nremote, unsigned long flags);

static coll_status transfer(transfer_fn *call, const char *verb, int pid,
                            char *here, char *there, size_t bytes)
{
    while (bytes) {
        const struct iovec local = {here, bytes}, remote = {there, bytes};
        const ssize_t moved = call(pid, &local, 1, &remote, 1, 0);
        if (moved <= 0)
            return fail(errno == ESRCH ? COLL_ERR_PEER : COLL_ERR_SYSTEM, "shm",
                        "cannot %s %zu bytes of process %d: %s", verb, bytes,
                        pid, moved ? strerror(errno) : "nothing was moved");
        here += moved;
        there += moved;
        bytes -= (size_t)moved;
    }
    return COLL_OK;
}

coll_status foreign_read(int pid, void *here, const void *there, size_t bytes)
{
    return transfer(process_vm_readv, "read", pid, here, (char *)there, bytes);
}

coll_status foreign_write(int pid, const void *here, void *there, size_t bytes)
{
    return transfer(process_vm_writev, "write", pid, (char *)here, there,
                    bytes);
}

/* Written to by those who try, each with what it holds already. */
static uint64_t shown = 0x6c6c6f63;

void foreign_offer(struct foreign_probe *p, bool allow)
{
    /* Where Yama's ptrace_scope is 1, each process has to allow it. Not if it
     * is 0 or if there is no Yama; then the call fails and that is fine. */
    if (allow)
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    *p = (struct foreign_probe){getpid(), (uintptr_t)&shown, shown};
}

bool foreign_try(const struct foreign_probe *p)
{
    uint64_t value = 0;
    const struct iovec local = {&value, sizeof(value)};
    const struct iovec remote = {(void *)(uintptr_t)p->address, sizeof(value)};
    const pid_t pid = (pid_t)p->pid;
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == sizeof(value)
           && value == p->value
           && process_vm_writev(pid, &local, 1, &remote, 1, 0) == sizeof(value);
}
