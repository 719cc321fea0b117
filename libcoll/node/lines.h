/* SPDX-License-Identifier: MIT */
/* Cache lines with a number, for inside node/. */
#ifndef NODE_LINES_H
#define NODE_LINES_H

#include "base/fetch.h"
#include "node/node.h"

/* Publishes what was written before, with the line's own data. */
static inline void node_mark(struct node_line *line, uint64_t word)
{
    atomic_store_explicit(&line->word, word, memory_order_release);
}

/* Asks for the first lines of what lies beside a line together with the line,
 * which says that they are there: one after another they take twice as long to
 * come. */
static inline void node_fetch_ahead(const unsigned char *x, size_t bytes)
{
    enum { MOST = 512 };
    for (size_t at = 0; at < bytes && at < MOST; at += 64)
        __builtin_prefetch(x + at);
}

/* Whether number a is b or later; they wrap. */
static inline bool node_reached(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) >= 0;
}

/* COLL_OK once the line has this operation's number: what its rank wrote
 * before may then be read. MISMATCH if that rank is in another operation. One
 * compare tells both, so that looking for the latter costs nothing. */
coll_status node_mismatch(const struct node *, int place, uint32_t tag);
static inline coll_status node_arrived(struct node *n, int place,
                                       const struct node_line *line)
{
    const uint64_t word = atomic_load_explicit(
        &((struct node_line *)line)->word, memory_order_acquire);
    if (word == n->word)
        return COLL_OK;
    if (node_reached((uint32_t)(word >> 32), n->number))
        return node_mismatch(n, place, (uint32_t)word);
    n->awaited = place;
    return COLL_IN_PROGRESS;
}

/* Begins an operation. */
static inline void node_begin(struct node *n)
{
    n->number++;
    n->word = (uint64_t)n->number << 32 | n->call.tag;
    n->state = n->level = n->at = 0;
    n->awaited = -1;
    n->bytes_read = n->bytes_written = 0;
}

/* Puts this rank's news where it goes with the entry that is published next. */
static inline void node_tell(struct node *n)
{
    if (n->tells)
        atomic_store_explicit(
            &n->peers[n->me].region->news[n->number % NODE_SLOTS], n->call.news,
            memory_order_relaxed);
}

/* COLL_OK once this rank may write the operation's slot: it was last used
 * NODE_SLOTS operations ago, and who has begun the one after that has done with
 * it. */
coll_status node_look_around(struct node *);
static inline coll_status node_gate(struct node *n)
{
    return node_reached(n->safe, n->number - (NODE_SLOTS - 1))
               ? COLL_OK
               : node_look_around(n);
}

#endif
