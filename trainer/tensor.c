/* SPDX-License-Identifier: MIT */
#include "tensor.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 }; /* bytes of a huge page, here and on most machines */

/* Whole pages, so that an arena can be registered for communication. */
size_t arena_bytes(size_t count)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (count * sizeof(float) / page + 1) * page;
}

int arena_alloc(struct arena *a, size_t count)
{
    if (count > SIZE_MAX / sizeof(float) / 2)
        return -1;
    const size_t bytes = arena_bytes(count);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *x = NULL; /* aligned_alloc wants bytes to be a multiple */
    if (posix_memalign(&x, bytes < HUGE_PAGE ? page : HUGE_PAGE, bytes))
        return -1;
    /* A wish: what goes through large tensors is faster by a half with them,
     * and without them right. */
    if (bytes >= HUGE_PAGE)
        (void)madvise(x, bytes, MADV_HUGEPAGE);
    memset(x, 0, bytes);
    a->x = x;
    a->count = count;
    return 0;
}

void arena_free(struct arena *a)
{
    free(a->x);
    a->x = NULL;
    a->count = 0;
}
