/* SPDX-License-Identifier: MIT */
/* A bound is never above the rehearsed time, whatever the network, and is that
 * time where no two messages share anything. */
#include <criterion/criterion.h>
#include <math.h>

#include "algo/algo.h"
#include "base/log.h"
#include "comm/layout.h"
#include "exec/bound.h"
#include "draw.h"
#include "plans.h"
#include "thorough.h"

enum { MAX_RANKS = 40, CASES = 4000 };

/* Often 0, else about `most`, less by up to three decimal orders. */
static double draw_cost(double most)
{
    return draw(3) ? most * pow(10, -draw(30) / 10.0) : 0;
}

static struct sim_link draw_link(void)
{
    return (struct sim_link){draw_cost(1e-4), draw_cost(1e-8), draw_cost(1e-5)};
}

/* Hosts in groups; ranks numbered at random or group by group. */
static void draw_layout(struct layout *l, int n)
{
    uint64_t host_of[MAX_RANKS];
    int group_of[MAX_RANKS];
    const int each = 1 + draw(4), ngroups = 1 + draw(4);
    const bool dealt = draw(2);
    for (int r = 0; r < n; r++)
        host_of[r] = (uint64_t)(dealt ? draw(n) : r / each);
    for (int h = 0; h < n; h++)
        group_of[h] = h % ngroups;
    const struct layout_groups groups = {ngroups, group_of, draw_link(),
                                         draw_cost(1e-8)};
    const struct layout_costs costs = {.local = draw_link(),
                                       .remote = draw_link(),
                                       .gamma = draw_cost(1e-8),
                                       .copy = draw_cost(1e-8)};
    int host[MAX_RANKS];
    const bool fits = layout_number_hosts(n, host_of, host) >= ngroups;
    cr_assert_eq(
        layout_create(l, n, host_of, NULL, fits ? &groups : NULL, &costs),
        COLL_OK);
    int machine_of[MAX_RANKS];
    const int nmachines = 1 + draw(4);
    for (int r = 0; r < n; r++)
        machine_of[r] = host[r] % nmachines;
    if (draw(4) == 0)
        cr_assert_eq(layout_crowd(l,
                                  &(struct crowd){
                                      .nmachines = nmachines,
                                      .nprocessors = 1 + draw(3),
                                      .machine_of = machine_of,
                                      .machine = draw_cost(1e-9),
                                      .turn = draw_cost(1e-5),
                                  }),
                     COLL_OK);
}

static coll_status run_both(const struct layout *l, const struct algo *algo,
                            int segments, size_t bytes, double found[2])
{
    int order[MAX_RANKS];
    struct plan_tree tree;
    const enum layout_order kind = kind_has_parts(algo->kind)
                                       ? ORDER_GIVEN
                                       : (enum layout_order)draw(NORDERS);
    cr_assert_eq(layout_fill_order(l, kind, 0, order), COLL_OK);
    cr_assert_eq(layout_fill_tree(l, order, &tree), COLL_OK);
    const struct rehearsal c = {.plan = algo->plan,
                                .nranks = l->nranks,
                                .segments = segments,
                                .tree = &tree,
                                .order = order,
                                .count = bytes,
                                .elem_bytes = 1,
                                .net = layout_net(l, bytes)};
    coll_status status = rehearse(&c, &found[0]);
    const coll_status too = bound(&c, &found[1]);
    cr_expect_eq(status, too, "%s on %d ranks: %d, %d", algo->full_name,
                 l->nranks, status, too);
    layout_free_tree(&tree);
    return status;
}

Test(bound, is_never_above_the_rehearsed_time)
{
    double sum = 0;
    int n = 0;
    draw_state = 7;
    const unsigned all = cases(CASES, CASES / 12);
    for (unsigned i = 0; i < all; i++) {
        const struct algo *algo = &algos[draw(nplanned)];
        const int nranks = 2 + draw(MAX_RANKS - 1);
        const int segments = 1 + draw(PLAN_SEGMENTS_MAX);
        const size_t bytes = even_parts(algo, nranks, (size_t)1 << draw(26));
        const unsigned long seed = draw_state;
        struct layout l;
        double found[2];
        draw_layout(&l, nranks);
        if (algo->fits(
                &(struct plan_shape){.nranks = nranks, .segments = segments})
            && run_both(&l, algo, segments, bytes, found) == COLL_OK) {
            cr_assert_leq(found[1], found[0] * (1 + 1e-9) + 1e-15,
                          "%s, %d ranks, %d segments, %zu bytes, seed %lu: "
                          "bound %g, rehearsed %g",
                          algo->full_name, nranks, segments, bytes, seed,
                          found[1], found[0]);
            if (found[0] > 0) {
                sum += found[1] / found[0];
                n++;
            }
        }
        layout_free(&l);
    }
    cr_assert_gt(n, (int)all / 2);
    cr_log_info("%d cases, the bound is %.3f of the time on average", n,
                sum / n);
    cr_assert_gt(sum / n, 0.8, "%g", sum / n);
}

Test(bound, is_the_time_where_nothing_is_shared)
{
    static const char *const names[] = {"ring", "recursive_doubling",
                                        "halving_doubling"};
    const struct layout_costs costs = {
        .remote = {2e-5, 1e-9, 1e-6},
          .gamma = 1e-10
    };
    struct layout l;
    cr_assert_eq(layout_create(&l, 16, NULL, NULL, NULL, &costs), COLL_OK);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        double found[2];
        cr_assert_eq(
            run_both(&l, algo_find(ALLREDUCE, names[i]), 1, 1 << 20, found),
            COLL_OK);
        cr_assert_float_eq(found[1], found[0], 1e-9 * found[0], "%s: %g, %g",
                           names[i], found[1], found[0]);
    }
    layout_free(&l);
}
