/* SPDX-License-Identifier: MIT */
/* What will happen when, in virtual time, the earliest first. Each thing, a
 * small number, stands in it at most once.
 *
 * What is put there often is of a few kinds each of which comes in order. So
 * there are a few rows, each in order, to the end of which a thing goes if it
 * fits there, and a heap for all others.
 */
#ifndef TRANSPORT_AGENDA_H
#define TRANSPORT_AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AGENDA_ROWS = 4 };

struct agenda_item {
    double at; /* seconds */
    int what;
    uint16_t note; /* the user's own */
    uint16_t row;  /* the same for what comes in order; of AGENDA_ROWS */
    uint64_t turn; /* the agenda's: among those of one instant */
};

/* A ring: of its items [first, end), numbered from the first ever and kept at
 * the remainder by capacity, a power of two, the first is one that counts. */
struct agenda_row {
    struct agenda_item *items;
    uint32_t first, end, capacity;
};

/* All zero is empty. Items of one instant come in the order in which they were
 * first put there. */
struct agenda {
    struct agenda_row row[AGENDA_ROWS];
    struct agenda_item *heap; /* heap[0] is the first of nheap */
    size_t nheap, capacity;
    uint64_t turns; /* so many were given */
    struct agenda_place {
        uint32_t part; /* 0: nowhere; 1: in the heap; 2 + its row */
        uint32_t at;   /* index in the heap, number in the row */
    } *place; /* by thing */
    size_t nplaces;
    uint32_t soonest; /* the part, as in place, that has the first of all; 0:
                         not known */
};

/* Adds a thing, or moves it to another time. False: no memory. */
bool agenda_put(struct agenda *, struct agenda_item);
/* The first one, until the next call of another function; NULL: none. */
const struct agenda_item *agenda_first(struct agenda *);
void agenda_drop(struct agenda *, int what); /* if it stands there */
void agenda_free(struct agenda *);

#endif
