/* SPDX-License-Identifier: MIT */
/* The life of a flight recorder's file; what goes on in it is in record.h.
 *
 * A child of fork() writes to memory of its own instead: it may have inherited
 * the communicator, but is no rank.
 */
#include "comm/record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "algo/algo.h"
#include "base/log.h"
#include "coll/coll.h"
#include "comm/layout.h"

_Static_assert(sizeof(struct record_file)
                   == RECORD_HEADER_BYTES
                          + 2 * RECORD_RING * sizeof(struct record),
               "no gap");

/* Those of this process that have a file. */
static struct {
    pthread_mutex_t lock;
    struct recorder *first;
} open_ones = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Whether the processor counts at a constant rate, asleep or not, and on all
 * cores alike. */
static bool counts_steadily(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && d >> 8 & 1;
#elif defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

static enum record_clock clock_of(const struct recorder *d)
{
#if defined(__aarch64__)
    return d->counts ? RECORD_CNTVCT : RECORD_NANOSECONDS;
#else
    return d->counts ? RECORD_TSC : RECORD_NANOSECONDS;
#endif
}

/* Between two looks at clocks the processor may be given away: so the closest
 * of some counts. */
struct record_moment record_moment_now(bool counts)
{
    enum { LOOKS = 5 };
    struct record_moment now = {.ticks = 0};
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < LOOKS; i++) {
        const uint64_t before = record_ticks(counts);
        const uint64_t ns = record_nanoseconds(CLOCK_MONOTONIC);
        const uint64_t between = record_ticks(counts) - before;
        if (between >= least)
            continue;
        least = between;
        now.ticks = before + between / 2;
        now.monotonic_ns = (int64_t)ns;
        now.real_ns = (int64_t)record_nanoseconds(CLOCK_REALTIME);
    }
    return now;
}

/* NULL: errno says why. fd -1: no file. */
static struct record_file *map(int fd)
{
    const int flags =
        fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE;
    void *memory = mmap(NULL, sizeof(struct record_file),
                        PROT_READ | PROT_WRITE, flags, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void write_to(struct recorder *d, struct record_file *file)
{
    d->file = file;
    d->calls.records = file->calls;
    d->messages.records = file->messages;
}

coll_status recorder_init(struct recorder *d)
{
    *d = (struct recorder){.counts = counts_steadily(), .fd = -1};
    d->first = record_moment_now(d->counts);
    d->own = map(-1);
    if (!d->own)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for a record of calls");
    write_to(d, d->own);
    return COLL_OK;
}

double recorder_seconds(const struct recorder *d, uint64_t ticks)
{
    const struct record_moment now = record_moment_now(d->counts);
    const uint64_t passed = now.ticks - d->first.ticks;
    return passed ? 1e-9 * (double)(now.monotonic_ns - d->first.monotonic_ns)
                        / (double)passed * (double)ticks
                  : 0;
}

void recorder_note(struct recorder *d)
{
    d->file->header.last = record_moment_now(d->counts);
}

/* --- the file --------------------------------------------------------------
 */

static const char *dtype_name(int i)
{
    return coll_dtype_name((coll_dtype)i);
}

static const char *op_name(int i)
{
    return coll_op_name((coll_op)i);
}

static const char *algo_name(int i)
{
    return i < nalgos ? algos[i].name : NULL;
}

static const char *order_name(int i)
{
    return i < NLINEUPS ? layout_order_names[i] : NULL;
}

/* What finds no room has a number only. */
static void write_names(char *at, size_t bytes)
{
    static const char *(*const tables[RECORD_NTABLES])(int) = {
        [RECORD_KINDS] = called_name, [RECORD_DTYPES] = dtype_name,
        [RECORD_OPS] = op_name,       [RECORD_ALGOS] = algo_name,
        [RECORD_ORDERS] = order_name,
    };
    const char *const end = at + bytes - RECORD_NTABLES;
    for (int t = 0; t < RECORD_NTABLES; t++) {
        const char *name;
        for (int i = 0; (name = tables[t](i)); i++) {
            const size_t length = strlen(name) + 1;
            if (length > (size_t)(end - at))
                break;
            memcpy(at, name, length);
            at += length;
        }
        *at++ = '\0';
    }
}

static void write_header(const struct recorder *d, const struct record_job *job)
{
    struct record_header *h = &d->file->header;
    *h = (struct record_header){
        .version = RECORD_VERSION,
        .header_bytes = RECORD_HEADER_BYTES,
        .record_bytes = sizeof(struct record),
        .nrecords = RECORD_RING,
        .coll_version = COLL_VERSION,
        .rank = job->rank,
        .nranks = job->nranks,
        .pid = (int32_t)getpid(),
        .clock = clock_of(d),
        .job = job->job,
        .machine = job->machine,
        .first = d->first,
        .last = record_moment_now(d->counts),
    };
    snprintf(h->host, sizeof(h->host), "%s", job->host);
    write_names(d->file->names, sizeof(d->file->names));
    memcpy(h->magic, RECORD_MAGIC, sizeof(h->magic)); /* the last */
}

/* A file of its full size, so that no write to it fails for want of room. */
static int make_file(const char *path)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct rlimit most;
    if (getrlimit(RLIMIT_FSIZE, &most) == 0
        && most.rlim_cur < sizeof(struct record_file)) {
        errno = EFBIG; /* instead of a signal */
        return -1;
    }
    const int fd =
        open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    /* Vanishes with the process; where there are no locks nothing is cleaned
     * up by others. */
    fcntl(fd, F_SETLK, &all);
    const int error = posix_fallocate(fd, 0, (off_t)sizeof(struct record_file));
    if (error) {
        unlink(path);
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static void before_fork(void)
{
    pthread_mutex_lock(&open_ones.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&open_ones.lock);
}

/* The file is the parent's to remove. */
static void in_child(void)
{
    for (struct recorder *d = open_ones.first; d; d = d->next) {
        munmap(d->file, sizeof(*d->file));
        close(d->fd);
        d->fd = -1;
        write_to(d, d->own);
    }
    open_ones.first = NULL;
    pthread_mutex_init(&open_ones.lock, NULL);
}

static void enter(struct recorder *d)
{
    static bool watched;
    pthread_mutex_lock(&open_ones.lock);
    if (!watched)
        watched = pthread_atfork(before_fork, after_fork, in_child) == 0;
    d->next = open_ones.first;
    open_ones.first = d;
    pthread_mutex_unlock(&open_ones.lock);
}

static void let_go(struct recorder *d)
{
    pthread_mutex_lock(&open_ones.lock);
    for (struct recorder **at = &open_ones.first; *at; at = &(*at)->next)
        if (*at == d) {
            *at = d->next;
            break;
        }
    pthread_mutex_unlock(&open_ones.lock);
}

/* False: errno says why. */
static bool open_file(struct recorder *d, const char *folder,
                      const struct record_job *job)
{
    const size_t bytes = strlen(folder) + 64;
    d->path = malloc(bytes);
    if (!d->path)
        return false;
    snprintf(d->path, bytes, "%s/coll-%016llx-%d-%d.rec", folder,
             (unsigned long long)job->job, job->rank, (int)getpid());
    d->fd = make_file(d->path);
    struct record_file *file = d->fd < 0 ? NULL : map(d->fd);
    if (!file)
        return false;
    write_to(d, file);
    write_header(d, job);
    enter(d);
    return true;
}

/* What there is of a file, if it is not kept. */
static void close_file(struct recorder *d, bool kept)
{
    if (d->file != d->own) {
        let_go(d);
        munmap(d->file, sizeof(*d->file));
        d->file = d->own;
    }
    if (d->fd >= 0 && !kept)
        unlink(d->path);
    if (d->fd >= 0)
        close(d->fd);
    free(d->path);
    d->path = NULL;
    d->fd = -1;
}

void recorder_open(struct recorder *d, const struct record_job *job)
{
    const char *why = NULL;
    char *folder = record_folder(&why);
    /* One rank of a host says it for all. */
    const coll_log_level level = job->cleans ? COLL_LOG_WARN : COLL_LOG_INFO;
    if (folder && job->cleans)
        record_clean(folder);
    if (!folder && why)
        log_line(level, "recorder", "no flight record is kept: %s", why);
    if (folder && !open_file(d, folder, job)) {
        log_line(level, "recorder", "no flight record is kept: %s: %s",
                 d->path ? d->path : folder, strerror(errno));
        close_file(d, false);
    }
    /* The first calls are not to wait for the memory's pages. */
    if (d->file == d->own)
        memset(d->own, 0, sizeof(*d->own));
    free(folder);
}

void recorder_fail(struct recorder *d, coll_status status, const char *sentence)
{
    struct record_header *h = &d->file->header;
    snprintf(h->sentence, sizeof(h->sentence), "%s", sentence);
    atomic_store_explicit(&h->failed, status, memory_order_release);
}

void recorder_close(struct recorder *d, bool kept)
{
    if (!d->own)
        return;
    close_file(d, kept);
    munmap(d->own, sizeof(*d->own));
    d->own = d->file = NULL;
}
