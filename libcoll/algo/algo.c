/* SPDX-License-Identifier: MIT */
#include "algo/algo.h"

#include <string.h>

#include "algo/parts.h"

/* sizeof "allreduce_" - 1 letters of a full name name the collective. */
#define ALGO(kind, name, fits, when)                                           \
    {#name, &#name[sizeof(#kind)], kind, fits, plan_##name, when, BY_PLAN},
#define NATIVE(kind, name, way, when)                                          \
    {#name, &#name[sizeof(#kind)], kind, NULL, NULL, when, way},
const struct algo algos[NALGOS] = {
#include "algo/algos.def"
};
#undef ALGO
const int nalgos = NALGOS;

#define ALGO(kind, name, fits, when) +1
const int nplanned = 0
#include "algo/algos.def"
    ;
#undef ALGO

const char *const kind_names[NKINDS] = {
    [ALLREDUCE] = "allreduce", [REDUCE] = "reduce",
    [BROADCAST] = "broadcast", [REDUCE_SCATTER] = "reduce_scatter",
    [ALLGATHER] = "allgather", [GATHER] = "gather",
    [SCATTER] = "scatter",     [ALLTOALL] = "alltoall",
    [BARRIER] = "barrier",
};

bool kind_reduces(enum coll_kind kind)
{
    return kind == ALLREDUCE || kind == REDUCE || kind == REDUCE_SCATTER;
}

bool kind_has_root(enum coll_kind kind)
{
    return kind == REDUCE || kind == BROADCAST || kind == GATHER
           || kind == SCATTER;
}

bool kind_has_parts(enum coll_kind kind)
{
    return kind == REDUCE_SCATTER || kind == ALLGATHER || kind == GATHER
           || kind == SCATTER || kind == ALLTOALL;
}

const struct algo *algo_find(enum coll_kind kind, const char *name)
{
    for (int i = 0; i < nalgos; i++)
        if (algos[i].kind == kind
            && (!strcmp(algos[i].name, name)
                || !strcmp(algos[i].full_name, name)))
            return &algos[i];
    return NULL;
}

bool algo_in_order(const struct algo *algo)
{
    return kind_reduces(algo->kind)
           && (algo->way != BY_PLAN || algo->plan == plan_allreduce_in_order
               || algo->plan == plan_allreduce_in_order_scatter
               || algo->plan == plan_reduce_in_order
               || algo->plan == plan_reduce_scatter_in_order);
}

/* On which numbers of ranks what combines neighbours does so IN_PAIRS. */
enum pairing {
    OF_TWO,
    OF_POWERS, /* of two */
    OF_ONES,   /* in binary and then zeros, as 6, 12, 14: neighbours who fold in
                  are a pair, and these pairs end where larger ones begin */
    OF_ANY
};

static bool pairs_up(enum pairing pairing, int nranks)
{
    const int last_one = nranks & -nranks, more = nranks + last_one;
    return pairing == OF_ANY || nranks <= 2
           || (pairing == OF_POWERS && nranks == last_one)
           || (pairing == OF_ONES && (more & (more - 1)) == 0);
}

enum algo_order algo_keeps(const struct algo *algo, int nranks)
{
    static const struct {
        void (*plan)(struct plan *, const struct plan_shape *);
        int radix; /* 0: always; else where no rank folds in from afar */
        enum pairing pairing;
    } kept[] = {
        {plan_allreduce_recursive_doubling,      2,  OF_POWERS},
        {plan_allreduce_halving_doubling_near,   0,  OF_ONES  },
        {plan_allreduce_binary_blocks,           0,  OF_ANY   },
        {plan_allreduce_binomial_tree,           0,  OF_ANY   },
        {plan_allreduce_knomial_tree,            0,  OF_TWO   },
        {plan_allreduce_knomial_tree_8,          0,  OF_TWO   },
        {plan_allreduce_direct,                  0,  OF_TWO   },
        {plan_allreduce_direct_scatter,          0,  OF_TWO   },
        {plan_allreduce_recursive_multiplying,   4,  OF_TWO   },
        {plan_allreduce_recursive_multiplying_8, 8,  OF_TWO   },
        {plan_allreduce_dividing_multiplying,    4,  OF_TWO   },
        {plan_allreduce_dividing_multiplying_16, 16, OF_TWO   },
        {plan_reduce_binomial_tree,              0,  OF_ANY   },
        {plan_reduce_knomial_tree,               0,  OF_TWO   },
        {plan_reduce_knomial_tree_8,             0,  OF_TWO   },
        {plan_reduce_chain,                      0,  OF_TWO   },
    };
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        if (algo->plan == kept[i].plan)
            return kept[i].radix
                           && plan_factors(nranks, kept[i].radix).extra > 0
                       ? ANY_ORDER
                   : pairs_up(kept[i].pairing, nranks) ? IN_PAIRS
                                                       : RANK_ORDER;
    return algo_in_order(algo) ? ONE_PASS : ANY_ORDER;
}

bool algo_pipelines(const struct algo *algo, int nranks)
{
    int nsteps[2];
    for (int i = 0; i < 2; i++) {
        struct plan p;
        algo->plan(&p,
                   &(struct plan_shape){.nranks = nranks, .segments = i + 1});
        nsteps[i] = p.nsteps;
        plan_free(&p);
    }
    return nsteps[0] != nsteps[1];
}

bool any_shape(const struct plan_shape *s)
{
    (void)s;
    return true;
}

bool few_ranks(const struct plan_shape *s)
{
    return s->nranks <= 16;
}
