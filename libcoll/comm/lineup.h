/* SPDX-License-Identifier: MIT */
/* Who runs a plan, in which order: the ranks of a layout or one of each host,
 * ready to rehearse any algorithm. */
#ifndef COMM_LINEUP_H
#define COMM_LINEUP_H

#include "algo/algo.h"
#include "comm/layout.h"
#include "exec/cast.h"

struct lineup {
    const struct layout *whole, *at; /* at: whole, or hosts */
    struct layout hosts;             /* one rank of each; by hosts */
    int *order;                      /* the rank at each position */
    struct plan_tree tree;
};

/* The layout stays the caller's and outlives it; so does the lineup's own
 * place. Fails with MEMORY; to be closed also then. */
coll_status lineup_open(struct lineup *, const struct layout *,
                        enum layout_order);
void lineup_close(struct lineup *);

/* The most that an algorithm keeps of the ranks' order, whose hosts sum in rank
 * order where positions are hosts. */
enum algo_order lineup_keeps(const struct lineup *, const struct algo *);

struct performance {
    const struct algo *algo;
    int segments;
    size_t bytes;
    double instant;          /* see struct sim_net */
    const struct cast *cast; /* of lineup_cast(); NULL: made for this once */
    struct sim_traffic *traffic; /* per position, by hosts as
                                    with one rank a host; may be NULL */
};

/* What it takes, with what the ranks of a host do before and after. Fails like
 * rehearse(). */
coll_status lineup_rehearse(const struct lineup *, const struct performance *,
                            double *seconds);

/* No more than that. Fails like bound(). */
coll_status lineup_bound(const struct lineup *, const struct performance *,
                         double *seconds);

/* Its plans, which depend on the algorithm and on how many segments the plan
 * has; those of `what` may be others where stages by hosts go by segments. The
 * caller frees them. Fails like cast_make(). */
coll_status lineup_cast(const struct lineup *, const struct performance *what,
                        struct cast *);
int lineup_segments(const struct lineup *, const struct performance *what);

/* How many messages all ranks send, about: each as many as the last position
 * sends or hears, which is no root and leads no group. INFINITY: no plan. */
double lineup_messages(const struct lineup *, const struct algo *,
                       int segments);

#endif
