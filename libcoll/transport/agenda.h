/* SPDX-License-Identifier: MIT */
/* What will happen when, in virtual time: a heap whose first is the earliest.
 */
#ifndef TRANSPORT_AGENDA_H
#define TRANSPORT_AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agenda_item {
    double at; /* seconds */
    int what;
    uint32_t note; /* the user's own */
};

/* All zero is empty. Items of one instant come in any order, but always in the
 * same one. */
struct agenda {
    struct agenda_item *heap; /* heap[0] is the first of n */
    size_t n, capacity;
};

bool agenda_add(struct agenda *, struct agenda_item); /* false: no memory */
struct agenda_item agenda_take(struct agenda *);      /* of at least one */
void agenda_forget(struct agenda *, int what);        /* all of its items */
void agenda_free(struct agenda *);

#endif
