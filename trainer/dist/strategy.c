/* SPDX-License-Identifier: MIT */
#include "dist/strategy.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "programs/options.h"

#define STRATEGY(name, file) extern const struct strategy_ops strategy_##name;
#include "dist/strategies.def"
#undef STRATEGY

#define STRATEGY(name, file) &strategy_##name,
const struct strategy_ops *const strategies[] = {
#include "dist/strategies.def"
};
#undef STRATEGY
enum { NSTRATEGIES = sizeof(strategies) / sizeof(strategies[0]) };
const int nstrategies = NSTRATEGIES;

const struct strategy_ops *strategy_find(const char *name, char *error,
                                         size_t error_bytes)
{
    const char *names[NSTRATEGIES];
    char list[512] = "";
    for (int i = 0; i < NSTRATEGIES; i++) {
        const size_t used = strlen(list);
        names[i] = strategies[i]->name;
        if (!strcmp(names[i], name))
            return strategies[i];
        snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
                 names[i]);
    }
    const char *near = nearest_name(name, names, NSTRATEGIES);
    snprintf(error, error_bytes,
             "found \"%s\", valid in this version is %s"
             "%s%s%s",
             name, list, near ? "; did you mean " : "", near ? near : "",
             near ? "?" : "");
    return NULL;
}

coll_status strategy_finish(struct strategy *s)
{
    const double start = clock_now();
    const coll_status status = s->ops->finish(s);
    s->seconds += clock_now() - start;
    return status;
}

coll_status strategy_reduce(struct strategy *s, double *x, size_t count,
                            coll_op op)
{
    const double start = clock_now();
    const coll_status status =
        coll_allreduce(x, x, count, COLL_F64, op, s->comm, NULL);
    s->seconds += clock_now() - start;
    return status;
}

coll_status strategy_average_state(struct strategy *s)
{
    const double start = clock_now();
    struct arena *state = &s->net->state;
    const coll_status status =
        state->count ? coll_allreduce(state->x, state->x, state->count,
                                      COLL_F32, COLL_AVG, s->comm, NULL)
                     : COLL_OK;
    s->seconds += clock_now() - start;
    return status;
}
