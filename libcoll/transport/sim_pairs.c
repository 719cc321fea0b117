/* SPDX-License-Identifier: MIT */
/* Which ranks exchange messages: few of all pairs, so a table with chains. */
#include <stdlib.h>

#include "transport/sim_inside.h"

static unsigned slot_of(const struct pairs *p, int from, int to)
{
    const uint64_t key = (uint64_t)(unsigned)from << 32 | (unsigned)to;
    return (unsigned)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32)
           & (p->nslots - 1);
}

int pairs_find(const struct pairs *p, int from, int to)
{
    int i = p->nslots ? p->slot[slot_of(p, from, to)] : FREE;
    while (i != FREE && (p->all[i].from != from || p->all[i].to != to))
        i = p->all[i].next;
    return i;
}

static void enter(struct pairs *p, int i)
{
    int *slot = &p->slot[slot_of(p, p->all[i].from, p->all[i].to)];
    p->all[i].next = *slot;
    *slot = i;
}

/* Twice the room, and as many slots as pairs fit. */
static bool grow(struct pairs *p)
{
    const int capacity = p->capacity ? 2 * p->capacity : 256;
    struct pair *all = realloc(p->all, (size_t)capacity * sizeof(*all));
    if (!all)
        return false;
    p->all = all;
    int *slot = realloc(p->slot, (size_t)capacity * sizeof(*slot));
    if (!slot)
        return false;
    p->slot = slot;
    p->nslots = (unsigned)capacity;
    p->capacity = capacity;
    for (int i = 0; i < capacity; i++)
        slot[i] = FREE;
    for (int i = 0; i < p->n; i++)
        enter(p, i);
    return true;
}

int pairs_add(struct pairs *p, int from, int to, int level)
{
    if (p->n == p->capacity && !grow(p))
        return FREE;
    p->all[p->n] = (struct pair){
        .from = from, .to = to, .level = level, .moving = FREE, .last = FREE};
    enter(p, p->n);
    return p->n++;
}

void pairs_free(struct pairs *p)
{
    free(p->all);
    free(p->slot);
    *p = (struct pairs){0};
}
