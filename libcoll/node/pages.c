/* SPDX-License-Identifier: MIT */
#include "node/pages.h"

#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Of several tries the least counts: others were interrupted. */
enum { PAGES = 64, TRIES = 4, DEAR_NS = 2000 };

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds to write to a page that a new mapping has, for writing too, but
 * that was not touched there yet. < 0: it cannot be measured. */
static double touch(int file, size_t page)
{
    char *memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_POPULATE, file, 0);
    if (memory == MAP_FAILED)
        return -1;
    (void)madvise(memory, PAGES * page, MADV_POPULATE_WRITE);
    const double start = now_ns();
    for (size_t i = 0; i < PAGES; i++)
        *(volatile char *)(memory + i * page) = 0;
    const double ns = (now_ns() - start) / PAGES;
    munmap(memory, PAGES * page);
    return ns;
}

static bool dear;

static void measure(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const int file = memfd_create("coll-pages", MFD_CLOEXEC);
    double least = INFINITY;
    if (file < 0)
        return;
    for (int i = 0; i < TRIES && !ftruncate(file, (off_t)(PAGES * page)); i++) {
        const double ns = touch(file, page);
        if (ns >= 0 && ns < least)
            least = ns;
    }
    close(file);
    dear = least > DEAR_NS && least < INFINITY;
}

bool pages_are_dear(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, measure);
    return dear;
}
