/* SPDX-License-Identifier: MIT */
#include "tensor.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    float *x = aligned_alloc((size_t)sysconf(_SC_PAGESIZE), bytes);
    if (!x)
        return -1;
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
