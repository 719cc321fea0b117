/* SPDX-License-Identifier: MIT */
/* What will happen when, in virtual time: a heap whose first is the earliest.
 * Each thing, a small number, stands in it at most once. */
#ifndef TRANSPORT_AGENDA_H
#define TRANSPORT_AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agenda_item {
    double at; /* seconds */
    int what;
    int note;      /* the user's own */
    uint64_t turn; /* the agenda's: among those of one instant */
};

/* All zero is empty. Items of one instant come in the order in which they were
 * first put there. */
struct agenda {
    struct agenda_item *heap; /* heap[0] is the first of n */
    size_t n, capacity;
    uint64_t turns;         /* so many were given */
    size_t *place, nplaces; /* by thing: 1 + where it stands; 0: nowhere */
};

/* Adds a thing, or moves it to another time. False: no memory. */
bool agenda_put(struct agenda *, struct agenda_item);
struct agenda_item agenda_take(struct agenda *); /* of at least one */
void agenda_drop(struct agenda *, int what);     /* if it stands there */
void agenda_free(struct agenda *);

#endif
