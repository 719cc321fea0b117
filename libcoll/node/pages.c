/* SPDX-License-Identifier: MIT */
#include "node/pages.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

/* Of several tries the least counts: others were interrupted. Places lie
 * on small pages of their own, be these of 64 KiB. */
enum { PLACES = 32, TRIES = 4, DEAR_NS = 2000 };

size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

char *pages_reserve(size_t bytes, size_t phase)
{
    const size_t slack = bytes < HUGE_PAGE ? 0 : HUGE_PAGE;
    if (bytes > SIZE_MAX / 2)
        return NULL;
    char *p = mmap(NULL, bytes + slack, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (!slack)
        return p;
    const size_t skip = (phase - (uintptr_t)p) % HUGE_PAGE;
    if (skip > 0)
        munmap(p, skip);
    munmap(p + skip + bytes, slack - skip);
    return p + skip;
}

/* What has one page yet can become a huge one; that is several times as fast as
 * to give it all the others. */
static void give_huge(char *address, size_t bytes)
{
    const size_t skip = (0 - (uintptr_t)address) % HUGE_PAGE;
    const size_t n = bytes > skip ? (bytes - skip) / HUGE_PAGE : 0;
    (void)madvise(address, bytes, MADV_HUGEPAGE); /* for older kernels */
    for (size_t i = 0; i < n; i++)
        if (madvise(address + skip + i * HUGE_PAGE, page_bytes(),
                    MADV_POPULATE_WRITE))
            return;
    if (n)
        (void)madvise(address + skip, n * HUGE_PAGE, MADV_COLLAPSE);
}

bool pages_give(char *address, size_t bytes)
{
    give_huge(address, bytes);
    if (madvise(address, bytes, MADV_POPULATE_WRITE) == 0)
        return true;
    if (errno != EINVAL) /* an old kernel does not know it */
        return false;
    for (size_t i = 0; i < bytes; i += page_bytes())
        *(volatile char *)(address + i) = 0;
    return true;
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* MAP_FAILED: it cannot be. */
static void *map_again(char *address, int file, int flags)
{
    return mmap(address, HUGE_PAGE, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_FIXED | flags, file, 0);
}

/* Nanoseconds to write to a place that has its page, but was not touched there
 * yet, in memory as long blocks have it. < 0: it cannot be measured. */
static double touch(int file)
{
    double ns = -1;
    char *memory = pages_reserve(HUGE_PAGE, 0);
    if (!memory)
        return ns;
    if (map_again(memory, file, 0) != MAP_FAILED
        && pages_give(memory, HUGE_PAGE)
        && map_again(memory, file, MAP_POPULATE) != MAP_FAILED) {
        (void)madvise(memory, HUGE_PAGE, MADV_POPULATE_WRITE);
        const double start = now_ns();
        for (size_t i = 0; i < PLACES; i++)
            *(volatile char *)(memory + i * (HUGE_PAGE / PLACES)) = 0;
        ns = (now_ns() - start) / PLACES;
    }
    munmap(memory, HUGE_PAGE);
    return ns;
}

static bool dear;

static void measure(void)
{
    double least = INFINITY;
    for (int i = 0; i < TRIES; i++) {
        const int file = memfd_create("coll-pages", MFD_CLOEXEC);
        if (file < 0)
            return;
        const double ns = ftruncate(file, HUGE_PAGE) == 0 ? touch(file) : -1;
        if (ns >= 0 && ns < least)
            least = ns;
        close(file);
    }
    dear = least > DEAR_NS && least < INFINITY;
}

bool pages_are_dear(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, measure);
    return dear;
}
