/* SPDX-License-Identifier: MIT */
#include "node/lines.h"

#include "base/log.h"

/* Whether every rank has begun an operation, as far as its entry tells. */
static bool all_began(const struct node *n, uint32_t number)
{
    for (int i = 0; i < n->n; i++) {
        struct node_line *line =
            &n->peers[i].region->entry[0][number % NODE_SLOTS];
        const uint64_t word =
            atomic_load_explicit(&line->word, memory_order_acquire);
        if (i != n->me && !node_reached((uint32_t)(word >> 32), number))
            return false;
    }
    return true;
}

/* After a look at the previous operation that succeeds no other look is needed
 * for a while. */
coll_status node_look_around(struct node *n)
{
    const uint32_t needed = n->number - (NODE_SLOTS - 1);
    if (all_began(n, n->number - 1))
        n->safe = n->number - 1;
    else if (all_began(n, needed))
        n->safe = needed;
    else
        return COLL_IN_PROGRESS;
    return COLL_OK;
}

void node_begun(struct node *n, uint32_t number, uint32_t tag)
{
    /* Read by node_check(). */
    atomic_store_explicit(&n->peers[n->me].region->begun,
                          (uint64_t)number << 32 | tag, memory_order_release);
}

coll_status node_check(const struct node *n, uint32_t number)
{
    const uint64_t begun =
        n->awaited < 0
            ? 0
            : atomic_load_explicit(&n->peers[n->awaited].region->begun,
                                   memory_order_acquire);
    return begun >> 32 == number && (uint32_t)begun != n->call.tag
               ? node_mismatch(n, n->awaited, (uint32_t)begun)
               : COLL_IN_PROGRESS;
}

uint16_t node_heard(const struct node *n)
{
    const unsigned slot = n->number % NODE_SLOTS;
    uint16_t least = n->call.news;
    for (int i = 0; i < n->n; i++) {
        struct node_region *r = n->peers[i].region;
        const uint64_t word =
            atomic_load_explicit(&r->entry[0][slot].word, memory_order_acquire);
        if (!node_reached((uint32_t)(word >> 32), n->number))
            continue;
        const uint16_t news =
            atomic_load_explicit(&r->news[slot], memory_order_relaxed);
        if (news && (!least || news < least))
            least = news;
    }
    return least;
}

coll_status node_mismatch(const struct node *n, int place, uint32_t tag)
{
    return fail(
        COLL_ERR_MISMATCH, "shm",
        "rank %d is in another operation (tag %08x) than this rank (tag "
        "%08x): kind, count, dtype, op, root and "
        "order must be equal on all ranks",
        n->rank_of[place], tag, n->call.tag);
}
