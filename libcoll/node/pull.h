/* SPDX-License-Identifier: MIT */
/* One rank reads what another one of its host has in memory. */
#ifndef NODE_PULL_H
#define NODE_PULL_H

#include "node/node.h"

/* Where a vector lies; plain bytes, told to the rank that is to read it. */
struct node_offer {
    uint64_t address;      /* in its rank's process; 0: it is nowhere */
    struct heap_spot spot; /* bytes 0: in no heap */
};

/* Of a vector of this rank, for one that may be on its host. node NULL: it is
 * nowhere. */
struct node_offer node_offer(struct node *node, int rank, const void *vector,
                             size_t bytes);

/* Copies bytes of what that rank has offered. IN_PROGRESS: it is out of reach,
 * or would take the system's help, which the caller does not want. PEER: the
 * rank is gone; SYSTEM else. */
coll_status node_pull(struct node *node, int rank, void *here,
                      const struct node_offer *there, size_t bytes,
                      bool by_system);

#endif
