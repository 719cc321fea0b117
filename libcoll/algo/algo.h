/* SPDX-License-Identifier: MIT */
/* What an algorithm is: a planner, and a row in algos.def. */
#ifndef ALGO_ALGO_H
#define ALGO_ALGO_H

#include <stdbool.h>

#include "plan/plan.h"

enum coll_kind { ALLREDUCE, NKINDS };

struct algo {
    const char *full_name; /* "allreduce_ring" */
    const char *name;      /* "ring": what users say */
    enum coll_kind kind;
    bool (*fits)(const struct plan_shape *);
    void (*plan)(struct plan *, const struct plan_shape *);
    const char *when;
};

extern const struct algo algos[];
extern const int nalgos;
extern const char *const kind_names[NKINDS];

/* By short or full name; NULL: no such algorithm. */
const struct algo *algo_find(enum coll_kind kind, const char *name);

/* For the third column of algos.def. */
bool any_shape(const struct plan_shape *);

#define ALGO(kind, name, fits, when)                                           \
    void plan_##name(struct plan *, const struct plan_shape *);
#include "algo/algos.def"
#undef ALGO

#endif
