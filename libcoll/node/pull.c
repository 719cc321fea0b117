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

bool node_may_pull(const struct node *n, int rank, int of, bool at_once)
{
    if (!n || rank == of)
        return false;
    const int place = place_of(n, of);
    return place >= 0
           && (n->peers[place].same_process || (n->reads_foreign && !at_once));
}

coll_status node_pull(const struct node *n, int of, void *here,
                      const void *there, size_t bytes)
{
    const struct node_peer *p = &n->peers[place_of(n, of)];
    if (!p->same_process)
        return foreign_read(p->pid, here, there, bytes);
    memcpy(here, there, bytes);
    return COLL_OK;
}
