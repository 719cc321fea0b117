/* SPDX-License-Identifier: MIT */
/* Which blocks of another process's heap are mapped here, and where.
 *
 * All that are met stay, as a framework has one for each of its tensors; of
 * more than `most`, of more than 16 GiB but for the last 16 blocks, or where
 * the process has too many mappings, the one that was not used for longest
 * goes. */
#ifndef NODE_VIEWS_H
#define NODE_VIEWS_H

#include <stdbool.h>
#include <stdint.h>

struct node_view {
    uint64_t block, bytes;
    uint64_t used; /* count of uses at the last one */
    void *memory;  /* NULL where blocks are only noted */
};

struct node_views {
    struct node_view *list; /* in ascending order of block */
    unsigned n, room, most; /* most: at least 2, set by the owner */
    uint64_t bytes;         /* mapped */
    uint64_t uses, added;   /* so far */
};

/* NULL: it is not there. The pointer is valid until the next views_add(). */
const struct node_view *views_find(struct node_views *, uint64_t block);

/* For a block that is not there. Unmaps what goes. False: no memory for it. */
bool views_add(struct node_views *, struct node_view);

/* Whether one goes for the next. */
bool views_full(const struct node_views *);

/* Unmaps and forgets all. */
void views_clear(struct node_views *);

#endif
