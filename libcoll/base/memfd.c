/* SPDX-License-Identifier: MIT */
#include "base/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

/* Beyond RLIMIT_FSIZE the kernel would not fail but send SIGXFSZ. */
static bool allowed(uint64_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0
           || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

static coll_status too_long(coll_status status, uint64_t bytes)
{
    return fail(status, "shm",
                "shared memory of %llu bytes, what was freed included, is more "
                "than the file size limit of this process allows: raise it "
                "(ulimit -f)",
                (unsigned long long)bytes);
}

coll_status memfd_make(struct memfd_name *name, size_t bytes, unsigned flags)
{
    struct stat st;
    *name = (struct memfd_name){.pid = getpid(), .fd = -1};
    if (!allowed(bytes))
        return too_long(COLL_ERR_SYSTEM, bytes);
    const int fd =
        memfd_create("coll", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0
        && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0 && fstat(fd, &st) == 0) {
        name->fd = fd;
        name->device = st.st_dev;
        name->inode = st.st_ino;
        return COLL_OK;
    }
    const int error = errno;
    if (fd >= 0)
        close(fd);
    return fail(COLL_ERR_SYSTEM, "shm",
                "cannot make a memfd of %zu bytes for shared memory: %s%s",
                bytes, strerror(error),
                error == EMFILE || error == ENFILE ? " (ulimit -n)" : "");
}

coll_status memfd_grow(const struct memfd_name *name, uint64_t bytes)
{
    if (!allowed(bytes))
        return too_long(COLL_ERR_MEMORY, bytes);
    if (ftruncate((int)name->fd, (off_t)bytes) == 0)
        return COLL_OK;
    return fail(COLL_ERR_MEMORY, "shm",
                "no room for %llu bytes of shared memory: %s",
                (unsigned long long)bytes, strerror(errno));
}

const char *memfd_open(const struct memfd_name *name, int *descriptor)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%lld/fd/%lld", (long long)name->pid,
             (long long)name->fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == ENOENT ? "its process or descriptor is gone"
               : errno == EMFILE || errno == ENFILE
                   ? "this process has no descriptor left (ulimit -n)"
                   : "its descriptor may not be opened through /proc (another "
                     "user or namespace?)";
    const int seals = fcntl(fd, F_GET_SEALS);
    const char *wrong = NULL;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_dev != name->device
        || st.st_ino != name->inode)
        wrong = "its descriptor is another file than it said";
    else if (seals < 0 || !(seals & F_SEAL_SHRINK))
        wrong = "its memory is not sealed against shrinking";
    if (wrong)
        close(fd);
    else
        *descriptor = fd;
    return wrong;
}
