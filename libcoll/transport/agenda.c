/* SPDX-License-Identifier: MIT */
#include "transport/agenda.h"

#include <stdlib.h>
#include <string.h>

enum { NOWHERE, IN_HEAP, IN_ROW }; /* IN_ROW + i: in row i */
enum { GONE = -1 };                /* what a row has where a thing was */

static bool before(const struct agenda_item *x, const struct agenda_item *y)
{
    return x->at < y->at || (x->at == y->at && x->turn < y->turn);
}

/* --- the heap ------------------------------------------------------------- */

static void set(struct agenda *a, size_t i, struct agenda_item item)
{
    a->heap[i] = item;
    a->place[item.what] = (struct agenda_place){IN_HEAP, (uint32_t)i};
}

static void rise(struct agenda *a, size_t i, struct agenda_item item)
{
    for (; i > 0 && before(&item, &a->heap[(i - 1) / 2]); i = (i - 1) / 2)
        set(a, i, a->heap[(i - 1) / 2]);
    set(a, i, item);
}

static void sink(struct agenda *a, size_t i, struct agenda_item item)
{
    for (size_t child; (child = 2 * i + 1) < a->nheap; i = child) {
        if (child + 1 < a->nheap
            && before(&a->heap[child + 1], &a->heap[child]))
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

static bool put_in_heap(struct agenda *a, struct agenda_item item)
{
    if (a->nheap == a->capacity) {
        const size_t capacity = a->capacity ? 2 * a->capacity : 256;
        struct agenda_item *heap = realloc(a->heap, capacity * sizeof(*heap));
        if (!heap)
            return false;
        a->heap = heap;
        a->capacity = capacity;
    }
    rise(a, a->nheap++, item);
    return true;
}

static void drop_from_heap(struct agenda *a, size_t at)
{
    const struct agenda_item last = a->heap[--a->nheap];
    if (at < a->nheap)
        settle(a, at, last);
}

/* --- rows ----------------------------------------------------------------- */

static struct agenda_item *item_of(const struct agenda_row *row, uint32_t i)
{
    return &row->items[i & (row->capacity - 1)];
}

static bool is_empty(const struct agenda_row *row)
{
    return row->first == row->end;
}

/* Room for one more: without the empty places, and twice as much if there are
 * few. */
static bool make_room(struct agenda *a, struct agenda_row *row)
{
    struct agenda_row more = {.capacity = row->capacity ? row->capacity : 64};
    uint32_t n = 0;
    for (uint32_t i = row->first; i != row->end; i++)
        n += item_of(row, i)->what != GONE;
    while (more.capacity < 2 * n)
        more.capacity *= 2;
    more.items = malloc(more.capacity * sizeof(*more.items));
    if (!more.items)
        return false;
    for (uint32_t i = row->first; i != row->end; i++) {
        const struct agenda_item item = *item_of(row, i);
        if (item.what == GONE)
            continue;
        a->place[item.what].at = more.end;
        *item_of(&more, more.end++) = item;
    }
    free(row->items);
    *row = more;
    return true;
}

/* Whether an item may stand at the end of a row. */
static bool fits(const struct agenda_row *row, const struct agenda_item *item)
{
    return is_empty(row) || before(item_of(row, row->end - 1), item);
}

static bool put_in_row(struct agenda *a, struct agenda_row *row,
                       struct agenda_item item)
{
    if (row->end - row->first == row->capacity && !make_room(a, row))
        return false;
    a->place[item.what] =
        (struct agenda_place){(uint32_t)(IN_ROW + item.row), row->end};
    *item_of(row, row->end++) = item;
    return true;
}

/* Its place stays behind empty, but not in front or at the end. */
static void drop_from_row(struct agenda_row *row, uint32_t at)
{
    item_of(row, at)->what = GONE;
    while (!is_empty(row) && item_of(row, row->first)->what == GONE)
        row->first++;
    while (!is_empty(row) && item_of(row, row->end - 1)->what == GONE)
        row->end--;
}

/* --- all ------------------------------------------------------------------ */

static bool make_place(struct agenda *a, size_t what)
{
    if (what < a->nplaces)
        return true;
    const size_t n = 2 * what + 64;
    struct agenda_place *place = realloc(a->place, n * sizeof(*place));
    if (!place)
        return false;
    memset(place + a->nplaces, 0, (n - a->nplaces) * sizeof(*place));
    a->place = place;
    a->nplaces = n;
    return true;
}

/* Takes a thing out; its turn, or a new one. */
static uint64_t turn_of(struct agenda *a, int what)
{
    const struct agenda_place place = a->place[what];
    if (place.part == NOWHERE)
        return a->turns++;
    const uint64_t turn =
        place.part == IN_HEAP
            ? a->heap[place.at].turn
            : item_of(&a->row[place.part - IN_ROW], place.at)->turn;
    agenda_drop(a, what);
    return turn;
}

/* The first item of a part; NULL: none. */
static const struct agenda_item *first_of(const struct agenda *a, uint32_t part)
{
    if (part == IN_HEAP)
        return a->nheap ? a->heap : NULL;
    const struct agenda_row *row = &a->row[part - IN_ROW];
    return is_empty(row) ? NULL : item_of(row, row->first);
}

bool agenda_put(struct agenda *a, struct agenda_item item)
{
    if (!make_place(a, (size_t)item.what))
        return false;
    const struct agenda_place place = a->place[item.what];
    if (place.part == IN_HEAP) {
        item.turn = a->heap[place.at].turn;
        settle(a, place.at, item);
        a->soonest = NOWHERE;
        return true;
    }
    item.turn = turn_of(a, item.what);
    const bool in_row = fits(&a->row[item.row], &item);
    const uint32_t part = in_row ? IN_ROW + item.row : IN_HEAP;
    if (a->soonest != part && a->soonest != NOWHERE
        && before(&item, first_of(a, a->soonest)))
        a->soonest = part;
    return in_row ? put_in_row(a, &a->row[item.row], item)
                  : put_in_heap(a, item);
}

const struct agenda_item *agenda_first(struct agenda *a)
{
    const struct agenda_item *first = NULL;
    if (a->soonest != NOWHERE)
        return first_of(a, a->soonest);
    for (uint32_t part = IN_HEAP; part < IN_ROW + AGENDA_ROWS; part++) {
        const struct agenda_item *item = first_of(a, part);
        if (item && (!first || before(item, first))) {
            first = item;
            a->soonest = part;
        }
    }
    return first;
}

void agenda_drop(struct agenda *a, int what)
{
    if ((size_t)what >= a->nplaces || a->place[what].part == NOWHERE)
        return;
    const struct agenda_place place = a->place[what];
    a->place[what].part = NOWHERE;
    if (a->soonest == place.part)
        a->soonest = NOWHERE;
    if (place.part == IN_HEAP)
        drop_from_heap(a, place.at);
    else
        drop_from_row(&a->row[place.part - IN_ROW], place.at);
}

void agenda_free(struct agenda *a)
{
    for (int i = 0; i < AGENDA_ROWS; i++)
        free(a->row[i].items);
    free(a->heap);
    free(a->place);
    *a = (struct agenda){0};
}
