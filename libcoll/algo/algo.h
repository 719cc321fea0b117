/* SPDX-License-Identifier: MIT */
/* What an algorithm is: a planner, and a row in algos.def. */
#ifndef ALGO_ALGO_H
#define ALGO_ALGO_H

#include <stdbool.h>

#include "plan/plan.h"

enum coll_kind {
    ALLREDUCE,
    REDUCE,         /* the result at position 0, see plan_renumber(), or where
                       the ranks' order is kept at shape.root */
    BROADCAST,      /* from position 0 */
    REDUCE_SCATTER, /* n chunks; PLAN_OUT has only chunk `rank` */
    ALLGATHER,      /* n chunks; PLAN_IN has only chunk `rank` */
    /* n chunks in each; chunk c is rank c's, and so is position c. shape.root
     * says who has all of them: */
    GATHER,   /* PLAN_IN has only chunk `rank`, PLAN_OUT is only the root's */
    SCATTER,  /* PLAN_OUT has only chunk `rank`, PLAN_IN is only the root's */
    ALLTOALL, /* chunk c of rank r's PLAN_IN becomes chunk r of c's PLAN_OUT;
                 they do not overlap */
    BARRIER,  /* one chunk of whatever */
    NKINDS
};

/* By what a collective runs: its plan, or one of the ways of node/. */
enum algo_way { BY_PLAN, NODE_INLINE, NODE_DIRECT };

struct algo {
    const char *full_name; /* "allreduce_ring" */
    const char *name;      /* "ring": what users say */
    enum coll_kind kind;
    bool (*fits)(const struct plan_shape *);
    void (*plan)(struct plan *, const struct plan_shape *);
    const char *when;
    enum algo_way way; /* if not BY_PLAN, fits and plan are NULL */
};

#define ALGO(kind, name, fits, when)  +1
#define NATIVE(kind, name, way, when) +1
enum {
    NALGOS = 0
#include "algo/algos.def"
};
#undef ALGO

extern const struct algo algos[NALGOS];
extern const int nalgos;
extern const int nplanned; /* those with a plan, which come first */
extern const char *const kind_names[NKINDS];
bool kind_reduces(enum coll_kind);
bool kind_has_root(enum coll_kind); /* so it may be over before all have come */
bool kind_has_parts(enum coll_kind); /* one a rank: positions are ranks */

/* By short or full name; NULL: no such algorithm. */
const struct algo *algo_find(enum coll_kind kind, const char *name);

/* What a result may ask of an algorithm that reduces; each asks for more than
 * the one before. */
enum algo_order {
    ANY_ORDER,  /* ranks may be combined in any order */
    RANK_ORDER, /* neighbouring runs of ranks are, the lower first */
    IN_PAIRS,   /* these two by two, as on a binomial tree: see op/op.h */
    ONE_PASS    /* so, all at once and rounded once */
};

/* Whether it is ONE_PASS; a way of node/ does without groups. */
bool algo_in_order(const struct algo *);

/* The most that it keeps on so many ranks, if positions are ranks. The root of
 * a reduce is then where struct plan_shape says. */
enum algo_order algo_keeps(const struct algo *, int nranks);

/* Whether its plans for so many ranks depend on the number of segments. */
bool algo_pipelines(const struct algo *, int nranks);

/* For the third column of algos.def. */
bool any_shape(const struct plan_shape *);
bool few_ranks(const struct plan_shape *); /* at most 16 */

#define ALGO(kind, name, fits, when)                                           \
    void plan_##name(struct plan *, const struct plan_shape *);
#include "algo/algos.def"
#undef ALGO

#endif
