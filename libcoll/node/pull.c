/* SPDX-License-Identifier: MIT */
#include "node/pull.h"

#include <string.h>

#include "node/foreign.h"

/* Its place, in ascending order of ranks; -1: it is on another host. */
static int place_of(const struct node *n, int rank)
{
    int first = 0, end = n->n;
    while (first < end) {
        const int middle = (first + end) / 2;
        if (n->rank_of[middle] < rank)
            first = middle + 1;
        else
            end = middle;
    }
    return first < n->n && n->rank_of[first] == rank ? first : -1;
}

struct node_offer node_offer(struct node *n, int rank, const void *vector,
                             size_t bytes)
{
    if (!n || place_of(n, rank) < 0)
        return (struct node_offer){0};
    return (struct node_offer){
        (uintptr_t)vector,
        heap_find_again(&n->memo[NODE_MEMO_OFFER], vector, bytes)};
}

/* To map a block and to touch it first takes longer than to copy as much. So
 * where more blocks are sent from than stay mapped, one gets another's place
 * only once so many times its length has come in other ways. */
static bool pays(struct node_peer *p, const struct heap_spot *s, size_t bytes)
{
    enum { TIMES = 8 };
    if (!views_full(&p->pulled) || views_find(&p->pulled, s->block))
        return true;
    p->waived += bytes;
    if (p->waived / TIMES < s->bytes)
        return false;
    p->waived = 0;
    return true;
}

/* A rank whose heap cannot be mapped is not asked again. */
static const char *map(struct node_peer *p, const struct heap_spot *s,
                       size_t bytes)
{
    if (!s->bytes || p->out_of_reach || s->offset > s->bytes
        || bytes > s->bytes - s->offset || !pays(p, s, bytes))
        return NULL;
    const char *base = node_view(p, &p->pulled, s->block, s->bytes, false);
    p->out_of_reach = !base;
    return base ? base + s->offset : NULL;
}

coll_status node_pull(struct node *n, int rank, void *here,
                      const struct node_offer *there, size_t bytes,
                      bool by_system)
{
    const int place = n && there->address ? place_of(n, rank) : -1;
    if (place < 0)
        return COLL_IN_PROGRESS;
    struct node_peer *p = &n->peers[place];
    const void *const address = (const void *)(uintptr_t)there->address;
    const void *from = p->same_process ? address : map(p, &there->spot, bytes);
    if (from)
        memcpy(here, from, bytes);
    else if (by_system && n->reads_foreign)
        return foreign_read(p->pid, here, address, bytes);
    return from ? COLL_OK : COLL_IN_PROGRESS;
}
