/* SPDX-License-Identifier: MIT */
/* Operators that do not commute, between hosts: which algorithms serve them,
 * and that each keeps the order of the ranks. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "hosts.h"
#include "thorough.h"

/* What comes in is a run of neighbouring ranks of one element: the lowest, and
 * the one behind the highest. Others leave a mark. */
struct run {
    uint16_t from, to;
    uint32_t element;
};
static const struct run broken = {UINT16_MAX, 0, 0};

static void join(void *out, const void *a, const void *b, size_t count,
                 coll_dtype dtype, void *context)
{
    const struct run *x = a, *y = b;
    (void)dtype;
    (void)context;
    for (size_t i = 0; i < count; i++)
        ((struct run *)out)[i] =
            x[i].to == y[i].from && x[i].element == y[i].element
                ? (struct run){x[i].from, y[i].to, x[i].element}
                : broken;
}

static void fill(struct run *x, int rank, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (struct run){(uint16_t)rank, (uint16_t)(rank + 1), (uint32_t)i};
}

/* Elements from one on, of all n ranks. */
static int is_whole(const struct run *x, int n, size_t first, size_t count,
                    const char *what)
{
    for (size_t i = 0; i < count; i++)
        EXPECT(x[i].from == 0 && x[i].to == n && x[i].element == first + i,
               "%s: element %zu is of ranks %d to %d", what, first + i,
               x[i].from, x[i].to);
    return 0;
}

/* In place, which is the harder way; at every root. */
static coll_status call(coll_comm *c, coll_op op, enum coll_kind kind, int root,
                        struct run *x, size_t count)
{
    fill(x, c->rank, count * (size_t)c->nranks);
    switch (kind) {
    case REDUCE:
        return coll_reduce(x, c->rank == root ? x : NULL, count, COLL_U64, op,
                           root, c, NULL);
    case REDUCE_SCATTER:
        return coll_reduce_scatter(x, x + count * (size_t)c->rank, count,
                                   COLL_U64, op, c, NULL);
    default:
        return coll_allreduce(x, x, count, COLL_U64, op, c, NULL);
    }
}

/* By what the rules leave; *served: whether something was. */
static int is_right(coll_comm *c, coll_op op, enum coll_kind kind,
                    const char *rules, bool *served)
{
    static const size_t counts[] = {1, 7, 4099};
    struct run *x = malloc(counts[2] * (size_t)c->nranks * sizeof(*x));
    const int nroots = kind == REDUCE ? c->nranks : 1;
    int wrong = 0;
    *served = true;
    EXPECT(x && coll_comm_set_algorithm(c, rules) == COLL_OK, "%s", rules);
    for (int i = 0; i < 3 * nroots && *served && !wrong; i++) {
        const size_t count = counts[i % 3];
        const coll_status status = call(c, op, kind, i / 3, x, count);
        *served = status == COLL_OK;
        EXPECT(*served || (i == 0 && status == COLL_ERR_UNSUPPORTED), "%s",
               rules);
        const bool parts = kind == REDUCE_SCATTER;
        const size_t first = parts ? count * (size_t)c->rank : 0;
        if (*served && (kind != REDUCE || c->rank == i / 3))
            wrong = is_whole(x + first, c->nranks, first, count, rules);
    }
    free(x);
    return wrong;
}

/* Each algorithm of each kind alone: it is refused, or right. */
static int each_alone(coll_comm *c, int rank, int n)
{
    coll_op op;
    (void)rank;
    EXPECT(coll_red_op_create(&op, join, NULL, 0, c) == COLL_OK, "create");
    for (int a = 0; a < nplanned; a++) {
        char rules[128];
        bool served;
        if (!kind_reduces(algos[a].kind))
            continue;
        snprintf(rules, sizeof(rules), "%s:%s", kind_names[algos[a].kind],
                 algos[a].name);
        if (is_right(c, op, algos[a].kind, rules, &served))
            return 1;
        /* Of two ranks it may be another one's twin. */
        const bool told = algo_keeps(&algos[a], n) >= RANK_ORDER;
        EXPECT(served == told || (served && n == 2), "%s", rules);
    }
    return 0;
}

Test(rank_order, each_algorithm_keeps_it_or_is_refused, .timeout = 600)
{
    static const char *const hosts_of[] = {"0123", "01234", "01"};
    for (unsigned i = 0; i < cases(3, 1); i++)
        cr_assert_eq(run_on(hosts_of[i], still, each_alone), 0, "%s",
                     hosts_of[i]);
}

/* Whether ranks stand host by host. */
static bool runs;

static int by_hosts(coll_comm *c, int rank, int n)
{
    static const enum coll_kind kinds[] = {ALLREDUCE, REDUCE, REDUCE_SCATTER};
    coll_op op;
    bool served;
    (void)rank;
    (void)n;
    EXPECT(coll_red_op_create(&op, join, NULL, 0, c) == COLL_OK, "create");
    for (int k = 0; k < 3; k++) {
        char rules[64];
        const bool fits = runs && (kinds[k] != REDUCE_SCATTER || c->hosts.even);
        snprintf(rules, sizeof(rules), "%s:@by_hosts", kind_names[kinds[k]]);
        if (!fits && kinds[k] == REDUCE_SCATTER)
            continue; /* the rule may name nothing at all */
        if (is_right(c, op, kinds[k], rules, &served))
            return 1;
        EXPECT(served == fits, "%s", rules);
        snprintf(rules, sizeof(rules), "%s:^@by_hosts", kind_names[kinds[k]]);
        if (is_right(c, op, kinds[k], rules, &served))
            return 1;
        EXPECT(served, "%s", rules);
    }
    return 0;
}

Test(rank_order, hosts_with_runs_of_ranks_combine_theirs_first, .timeout = 600)
{
    static const char *const hosts_of[] = {"0011", "000112", "001122"};
    runs = true;
    for (unsigned i = 0; i < cases(3, 1); i++)
        cr_assert_eq(run_on(hosts_of[i], still, by_hosts), 0, "%s",
                     hosts_of[i]);
    runs = false;
    cr_assert_eq(run_on("0101", still, by_hosts), 0);
}

/* Without rules: what is cheapest; in a job, its split, and with parts that
 * differ in length. */
static int whatever_serves(coll_comm *c, int rank, int n)
{
    struct run in[64], out[64];
    size_t counts[8], first = 0, all = 0;
    coll_op op;
    bool served;
    EXPECT(coll_red_op_create(&op, join, NULL, 0, c) == COLL_OK, "create");
    for (int k = 0; k < NKINDS; k++)
        if (kind_reduces((enum coll_kind)k)
            && is_right(c, op, (enum coll_kind)k, "", &served))
            return 1;
    for (int r = 0; r < n; all += counts[r++]) {
        counts[r] = (size_t)(r * 3 % 4);
        first = r == rank ? all : first;
    }
    fill(in, rank, all);
    EXPECT(coll_reduce_scatter_v(in, out, counts, COLL_U64, op, c, NULL)
               == COLL_OK,
           "reduce_scatter_v");
    return is_whole(out, n, first, counts[rank], "reduce_scatter_v");
}

Test(rank_order, is_kept_without_rules, .timeout = 600)
{
    cr_assert_eq(run_on("0123", still, whatever_serves), 0);
    cr_assert_eq(run_on("0011", still, whatever_serves), 0);
    cr_assert_eq(run_on("010", still, whatever_serves), 0);
}
