/* SPDX-License-Identifier: MIT */
#include "algo/algo.h"

#include <string.h>

/* sizeof "allreduce_" - 1 letters of a full name name the collective. */
#define ALGO(kind, name, fits, when)                                           \
    {#name, &#name[sizeof(#kind)], kind, fits, plan_##name, when},
const struct algo algos[] = {
#include "algo/algos.def"
};
#undef ALGO
const int nalgos = sizeof(algos) / sizeof(algos[0]);

const char *const kind_names[NKINDS] = {[ALLREDUCE] = "allreduce"};

const struct algo *algo_find(enum coll_kind kind, const char *name)
{
    for (int i = 0; i < nalgos; i++)
        if (algos[i].kind == kind
            && (!strcmp(algos[i].name, name)
                || !strcmp(algos[i].full_name, name)))
            return &algos[i];
    return NULL;
}

bool any_shape(const struct plan_shape *s)
{
    (void)s;
    return true;
}
