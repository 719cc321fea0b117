/* SPDX-License-Identifier: MIT */
/* One rank reads what another one of its host has in memory. */
#ifndef NODE_PULL_H
#define NODE_PULL_H

#include "node/node.h"

/* Whether `rank` can read memory of `of`, another one, and without the system's
 * help if `at_once`: both say the same of each other. node NULL: no. */
bool node_may_pull(const struct node *node, int rank, int of, bool at_once);

/* Copies bytes at `there`, an address of that rank's process. PEER: it is gone;
 * SYSTEM else. */
coll_status node_pull(const struct node *node, int of, void *here,
                      const void *there, size_t bytes);

#endif
