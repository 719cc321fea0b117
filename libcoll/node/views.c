/* SPDX-License-Identifier: MIT */
#include "node/views.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A block that has been freed stays mapped, and its page tables, a 512th of it,
 * stay with it: so there is a limit to the bytes, too. A process may have 65530
 * mappings, by Linux's default; so there is one for all lists together. */
enum { FIRST_ROOM = 16, KEPT = 16, MOST_MAPPED = 32768 };
static const uint64_t most_bytes = UINT64_C(16) << 30;

static _Atomic unsigned mapped; /* by this process */

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

static void drop(struct node_views *v, const struct node_view *view)
{
    if (!view->memory)
        return;
    munmap(view->memory, view->bytes);
    v->bytes -= view->bytes;
    atomic_fetch_sub(&mapped, 1);
}

static void evict(struct node_views *v)
{
    unsigned oldest = 0;
    for (unsigned i = 1; i < v->n; i++)
        if (v->list[i].used < v->list[oldest].used)
            oldest = i;
    drop(v, &v->list[oldest]);
    v->n--;
    memmove(&v->list[oldest], &v->list[oldest + 1],
            (v->n - oldest) * sizeof(*v->list));
}

static bool are_long(const struct node_views *v)
{
    return v->n >= KEPT && v->bytes > most_bytes;
}

bool views_full(const struct node_views *v)
{
    return v->n >= v->most || are_long(v)
           || (v->n >= KEPT && atomic_load(&mapped) >= MOST_MAPPED);
}

bool views_add(struct node_views *v, struct node_view view)
{
    if (views_full(v))
        evict(v);
    while (are_long(v))
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
    if (view.memory) {
        v->bytes += view.bytes;
        atomic_fetch_add(&mapped, 1);
    }
    return true;
}

void views_clear(struct node_views *v)
{
    for (unsigned i = 0; i < v->n; i++)
        drop(v, &v->list[i]);
    free(v->list);
    v->list = NULL;
    v->n = v->room = 0;
}
