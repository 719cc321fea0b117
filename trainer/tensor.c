/* SPDX-License-Identifier: MIT */
#include "tensor.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

int arena_alloc(struct arena *a, size_t count)
{
    if (count > (SIZE_MAX - ALIGNMENT) / sizeof(float))
        return -1;
    const size_t bytes = (count * sizeof(float) / ALIGNMENT + 1) * ALIGNMENT;
    float *x = aligned_alloc(ALIGNMENT, bytes);
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
