/* SPDX-License-Identifier: MIT */
#include "transport/agenda.h"

#include <stdlib.h>
#include <string.h>

static bool before(const struct agenda_item *x, const struct agenda_item *y)
{
    return x->at < y->at || (x->at == y->at && x->turn < y->turn);
}

static void set(struct agenda *a, size_t i, struct agenda_item item)
{
    a->heap[i] = item;
    a->place[item.what] = i + 1;
}

static void rise(struct agenda *a, size_t i, struct agenda_item item)
{
    for (; i > 0 && before(&item, &a->heap[(i - 1) / 2]); i = (i - 1) / 2)
        set(a, i, a->heap[(i - 1) / 2]);
    set(a, i, item);
}

static void sink(struct agenda *a, size_t i, struct agenda_item item)
{
    for (size_t child; (child = 2 * i + 1) < a->n; i = child) {
        if (child + 1 < a->n && before(&a->heap[child + 1], &a->heap[child]))
            child++;
        if (!before(&a->heap[child], &item))
            break;
        set(a, i, a->heap[child]);
    }
    set(a, i, item);
}

/* To the place of an item that is gone, or was another. */
static void settle(struct agenda *a, size_t i, struct agenda_item item)
{
    if (i > 0 && before(&item, &a->heap[(i - 1) / 2]))
        rise(a, i, item);
    else
        sink(a, i, item);
}

static bool make_room(struct agenda *a, size_t what)
{
    if (what >= a->nplaces) {
        const size_t n = 2 * what + 64;
        size_t *place = realloc(a->place, n * sizeof(*place));
        if (!place)
            return false;
        memset(place + a->nplaces, 0, (n - a->nplaces) * sizeof(*place));
        a->place = place;
        a->nplaces = n;
    }
    if (a->n == a->capacity) {
        const size_t capacity = a->capacity ? 2 * a->capacity : 256;
        struct agenda_item *heap = realloc(a->heap, capacity * sizeof(*heap));
        if (!heap)
            return false;
        a->heap = heap;
        a->capacity = capacity;
    }
    return true;
}

bool agenda_put(struct agenda *a, struct agenda_item item)
{
    const size_t what = (size_t)item.what;
    if (what < a->nplaces && a->place[what]) {
        const size_t at = a->place[what] - 1;
        item.turn = a->heap[at].turn;
        settle(a, at, item);
    } else if (make_room(a, what)) {
        item.turn = a->turns++;
        rise(a, a->n++, item);
    } else {
        return false;
    }
    return true;
}

void agenda_drop(struct agenda *a, int what)
{
    const size_t at = (size_t)what < a->nplaces ? a->place[what] : 0;
    if (!at)
        return;
    const struct agenda_item last = a->heap[--a->n];
    a->place[what] = 0;
    if (at - 1 < a->n)
        settle(a, at - 1, last);
}

struct agenda_item agenda_take(struct agenda *a)
{
    const struct agenda_item first = a->heap[0];
    agenda_drop(a, first.what);
    return first;
}

void agenda_free(struct agenda *a)
{
    free(a->heap);
    free(a->place);
    *a = (struct agenda){0};
}
