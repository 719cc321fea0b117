/* SPDX-License-Identifier: MIT */
#include "node/views.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { FIRST_ROOM = 16 };

/* Where it is, or would be. */
static unsigned place_of(const struct node_views *v, uint64_t block)
{
    unsigned first = 0, end = v->n;
    while (first < end) {
        const unsigned middle = first + (end - first) / 2;
        if (v->list[middle].block < block)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

const struct node_view *views_find(struct node_views *v, uint64_t block)
{
    const unsigned i = place_of(v, block);
    if (i == v->n || v->list[i].block != block)
        return NULL;
    v->list[i].used = ++v->uses;
    return &v->list[i];
}

static void drop(const struct node_view *view)
{
    if (view->memory)
        munmap(view->memory, view->bytes);
}

static void evict(struct node_views *v)
{
    unsigned oldest = 0;
    for (unsigned i = 1; i < v->n; i++)
        if (v->list[i].used < v->list[oldest].used)
            oldest = i;
    drop(&v->list[oldest]);
    v->n--;
    memmove(&v->list[oldest], &v->list[oldest + 1],
            (v->n - oldest) * sizeof(*v->list));
}

bool views_add(struct node_views *v, struct node_view view)
{
    if (v->n >= v->most)
        evict(v);
    if (v->n == v->room) {
        const unsigned room = v->room ? 2 * v->room : FIRST_ROOM;
        struct node_view *list = realloc(v->list, room * sizeof(*list));
        if (!list)
            return false;
        v->list = list;
        v->room = room;
    }
    const unsigned i = place_of(v, view.block);
    memmove(&v->list[i + 1], &v->list[i], (v->n - i) * sizeof(*v->list));
    view.used = ++v->uses;
    v->list[i] = view;
    v->n++;
    v->added++;
    return true;
}

bool views_evicts(struct node_views *v, uint64_t block)
{
    return v->n >= v->most && !views_find(v, block);
}

void views_clear(struct node_views *v)
{
    for (unsigned i = 0; i < v->n; i++)
        drop(&v->list[i]);
    free(v->list);
    v->list = NULL;
    v->n = v->room = 0;
}
