/* SPDX-License-Identifier: MIT */
/* A ring of cells in shared memory, written by one rank and read by another.
 *
 * A cell is a header line of 64 bytes and an area for payload. The header
 * holds a sequence number, what is known of the message, and payload itself if
 * there is little of it, so a small message is one cache line on its way. A
 * longer message streams through as many cells as it takes.
 *
 *   sequence   job | how many cells came before: tells that the cell is filled
 *   consumed   how many cells the reader has emptied, on a line of its own
 *
 * Each side keeps its position in memory of its own. What the other side
 * wrote is compared with what is possible, never used as an index or a length.
 */
#ifndef TRANSPORT_RING_H
#define TRANSPORT_RING_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fetch.h"

enum {
    RING_LINE = 64,
    RING_INLINE = 40,    /* payload that fits the header line */
    RING_CONTROL = 128,  /* bytes before the first cell: two lines, since
                            processors fetch lines in pairs */
    RING_PAYLOAD = 8192, /* of a cell, at most */
    RING_MIN_CELLS = 8,
    RING_MIN_BYTES = 4096,
};

struct ring_cell {
    alignas(RING_LINE) _Atomic uint64_t sequence;
    uint64_t total; /* bytes of the message; 0: a packet */
    uint32_t tag;
    uint16_t here; /* bytes of it in this cell */
    uint16_t news; /* see struct transfer */
    char inlined[RING_INLINE];
};

static_assert(sizeof(struct ring_cell) == RING_LINE, "a header is one line");

/* One side's view of a ring. */
struct ring {
    _Atomic uint64_t *consumed;
    char *cells;
    size_t stride, end; /* bytes of a cell and of all cells */
    size_t at;          /* of the next cell, in bytes from the first */
    uint64_t passed;    /* cells that this side has filled or emptied */
    uint64_t room;      /* writer: may fill until it has passed that many */
    uint64_t ncells;
    uint64_t first; /* sequence number of the first cell */
};

/* memory is zero at first, aligned to a line, and bytes long, at least
 * RING_MIN_BYTES. Both sides give the same bytes and job. */
static inline struct ring ring_over(void *memory, size_t bytes, uint64_t job)
{
    const size_t room = bytes - RING_CONTROL;
    const size_t most = RING_LINE + RING_PAYLOAD;
    const size_t even = room / RING_MIN_CELLS / RING_LINE * RING_LINE;
    const size_t stride = even < most ? even : most;
    return (struct ring){
        .consumed = memory,
        .cells = (char *)memory + RING_CONTROL,
        .stride = stride,
        .end = room / stride * stride,
        .room = room / stride,
        .ncells = room / stride,
        /* Never 0, which fresh memory holds, and never overflows. */
        .first = UINT64_C(1) << 63 | job >> 2,
    };
}

/* How much payload a cell takes. */
static inline size_t ring_capacity(const struct ring *r)
{
    return r->stride - RING_LINE;
}

static inline struct ring_cell *ring_cell(const struct ring *r)
{
    return (struct ring_cell *)(void *)(r->cells + r->at);
}

static inline char *ring_payload(struct ring_cell *c, size_t here)
{
    return here <= RING_INLINE ? c->inlined : (char *)c + RING_LINE;
}

static inline void ring_step(struct ring *r)
{
    r->passed++;
    r->at += r->stride;
    if (r->at == r->end)
        r->at = 0;
}

/* Writer: whether the next cell may be filled. Sets *broken if the reader's
 * count is impossible. */
static inline bool ring_writable(struct ring *r, bool *broken)
{
    if (r->passed < r->room)
        return true;
    /* Pairs with the store in ring_emptied(): the reader has copied what
     * those cells held. */
    const uint64_t consumed =
        atomic_load_explicit(r->consumed, memory_order_acquire);
    if (consumed > r->passed || consumed + r->ncells < r->room) {
        *broken = true;
        return false;
    }
    r->room = consumed + r->ncells;
    return r->passed < r->room;
}

/* Writer: hands the cell it has filled to the reader. */
static inline void ring_filled(struct ring *r)
{
    atomic_store_explicit(&ring_cell(r)->sequence, r->first + r->passed,
                          memory_order_release);
    ring_step(r);
}

/* Writer: takes the payload's first lines of the next cell into its cache, away
 * from the reader, who is long done with them: while there is nothing else to
 * do. Not the header's, at which the reader looks all the time. here: of the
 * last cell, as the next message is likely as long. */
static inline void ring_fetch_to_write(const struct ring *r, size_t here)
{
    enum { MOST = 512 };
    const char *const payload = ring_payload(ring_cell(r), here);
    if (here <= RING_INLINE || r->passed >= r->room)
        return;
    for (size_t at = 0; at < here && at < MOST; at += RING_LINE)
        fetch_to_write(payload + at);
}

/* Reader: whether the next cell is filled. */
static inline bool ring_readable(const struct ring *r)
{
    /* Pairs with the store in ring_filled(): header and payload are there. */
    return atomic_load_explicit(&ring_cell(r)->sequence, memory_order_acquire)
           == r->first + r->passed;
}

/* Reader: hands the cell back to the writer. */
static inline void ring_emptied(struct ring *r)
{
    ring_step(r);
    atomic_store_explicit(r->consumed, r->passed, memory_order_release);
}

#endif
