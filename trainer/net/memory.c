/* SPDX-License-Identifier: MIT */
/* The largest first, each at the lowest place that is free all its time
 * (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net
 * Inference, MLSys 2020 workshop: greedy by size). */
#include "net/memory.h"

#include <stdlib.h>

enum { LINE = 16 }; /* floats of a cache line */

static int larger(const void *a, const void *b)
{
    const struct buffer *x = *(struct buffer *const *)a,
                        *y = *(struct buffer *const *)b;
    if (x->floats != y->floats)
        return x->floats < y->floats ? 1 : -1;
    return x < y ? -1 : x > y; /* so that every machine has one order */
}

static size_t end_of(const struct buffer *b)
{
    return b->at + (b->floats + LINE - 1) / LINE * LINE;
}

/* The lowest place for b beside those placed before. */
static size_t free_place(const struct buffer *b, struct buffer *const *placed,
                         int count)
{
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        const struct buffer *p = placed[i];
        const bool together = p->first <= b->last && b->first <= p->last;
        const struct buffer moved = {.floats = b->floats, .at = at};
        if (together && p->at < end_of(&moved) && at < end_of(p)) {
            at = end_of(p);
            i = -1; /* places before may be in the way now */
        }
    }
    return at;
}

size_t memory_plan(struct buffer *buffers, int count)
{
    struct buffer **order = calloc((size_t)count + 1, sizeof(*order));
    size_t floats = 0;
    if (!order)
        return 0;
    for (int i = 0; i < count; i++)
        order[i] = &buffers[i];
    qsort(order, (size_t)count, sizeof(struct buffer *), larger);
    for (int i = 0; i < count; i++) {
        order[i]->at = free_place(order[i], order, i);
        floats = end_of(order[i]) > floats ? end_of(order[i]) : floats;
    }
    free(order);
    return floats ? floats : LINE;
}
