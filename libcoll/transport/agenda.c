/* SPDX-License-Identifier: MIT */
#include "transport/agenda.h"

#include <stdlib.h>

static void rise(struct agenda *a, size_t i, struct agenda_item item)
{
    for (; i > 0 && item.at < a->heap[(i - 1) / 2].at; i = (i - 1) / 2)
        a->heap[i] = a->heap[(i - 1) / 2];
    a->heap[i] = item;
}

bool agenda_add(struct agenda *a, struct agenda_item item)
{
    if (a->n == a->capacity) {
        const size_t capacity = a->capacity ? 2 * a->capacity : 256;
        struct agenda_item *heap = realloc(a->heap, capacity * sizeof(*heap));
        if (!heap)
            return false;
        a->heap = heap;
        a->capacity = capacity;
    }
    rise(a, a->n++, item);
    return true;
}

struct agenda_item agenda_take(struct agenda *a)
{
    const struct agenda_item first = a->heap[0], last = a->heap[--a->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < a->n; i = child) {
        if (child + 1 < a->n && a->heap[child + 1].at < a->heap[child].at)
            child++;
        if (last.at <= a->heap[child].at)
            break;
        a->heap[i] = a->heap[child];
    }
    a->heap[i] = last;
    return first;
}

void agenda_forget(struct agenda *a, int what)
{
    const size_t n = a->n;
    a->n = 0;
    for (size_t i = 0; i < n; i++)
        if (a->heap[i].what != what)
            rise(a, a->n++, a->heap[i]);
}

void agenda_free(struct agenda *a)
{
    free(a->heap);
    *a = (struct agenda){0};
}
