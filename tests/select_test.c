/* SPDX-License-Identifier: MIT */
/* Which algorithm is chosen, where, and in which order of the ranks. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "selects.h"
#include "thorough.h"

/* As fast, but a message takes time of the ranks at its ends. */
static const struct layout_costs busy = {
    .local = {1e-6, 1e-10, 2e-7},
    .remote = {2e-5, 1e-9,  2e-6},
    .gamma = 1e-10,
};

/* hosts[r]: of rank r; NULL: each on its own. */
static void price(struct select *s, int n, const uint64_t *hosts,
                  const coll_topo *topo, const struct layout_costs *costs)
{
    struct layout layout;
    select_free(s);
    cr_assert_eq(layout_create(&layout, n, hosts, topo, NULL, costs), COLL_OK,
                 "%s", fail_sentence());
    cr_assert_eq(price_all(&s->prices, &layout, 1e6, 1e9), COLL_OK, "%s",
                 fail_sentence());
    layout_free(&layout);
}

static const char *chosen(struct select *s, size_t bytes)
{
    const int algo = choice_of(s, ALLREDUCE, bytes).algo;
    return algo >= 0 ? algos[algo].name : "none";
}

/* On four ranks direct is recursive multiplying in one round, and so on. */
Test(select, what_has_the_same_plans_is_tried_once)
{
    struct select s = {.prices = {.nrows = 0}};
    int twins = 0;
    price(&s, 4, NULL, NULL, &fast);
    for (int i = 0; i < s.prices.nrows; i++) {
        const struct price_row *row = &s.prices.row[i];
        const char *name = algos[row->algo].full_name;
        const char *twin = algos[s.prices.row[row->twin].algo].full_name;
        twins += row->twin != i;
        if (!strcmp(name, "allreduce_recursive_multiplying"))
            cr_assert_str_eq(twin, "allreduce_direct");
        if (!strcmp(name, "allreduce_dividing_multiplying_16"))
            cr_assert_str_eq(twin, "allreduce_direct_scatter");
        if (!strcmp(name, "allreduce_ring"))
            cr_assert_eq(row->twin, i);
    }
    cr_assert_geq(twins, 4);
    select_best(&s, ALLREDUCE, 1024, &(struct select_choice){0});
    const struct select_class *class =
        s.class[POOL_ANY][ALLREDUCE][price_half(1024)];
    for (int i = 0; i < class->n; i++)
        cr_assert_eq(s.prices.row[class->row[i]].twin, class->row[i]);
    /* Where only the twin is allowed it serves. */
    cr_assert_eq(select_rules(&s, "allreduce:recursive_multiplying", "test"),
                 COLL_OK);
    cr_assert_str_eq(algos[choice_of(&s, ALLREDUCE, 1024).algo].full_name,
                     "allreduce_recursive_multiplying");
    select_free(&s);
}

/* The lower half of an octave was learned by an earlier job. */
Test(select, what_is_kept_of_half_an_octave_serves_the_other)
{
    struct select s = {.adapts = true};
    price(&s, 4, NULL, NULL, &fast);
    const int lower = price_half(65536), upper = price_half(98304);
    struct price_row *ring = NULL;
    for (int i = 0; i < s.prices.nrows; i++)
        if (!strcmp(algos[s.prices.row[i].algo].full_name, "allreduce_ring"))
            ring = &s.prices.row[i];
    cr_assert_eq(lower + 1, upper);
    cr_assert_str_neq(chosen(&s, 65536), "ring");
    cr_assert_str_neq(chosen(&s, 98304), "ring");
    select_free(&s);
    ring->recalled[lower] = price_log(1e-6);
    cr_assert_str_eq(chosen(&s, 65536), "ring");
    cr_assert_str_eq(chosen(&s, 98304), "ring");
    cr_assert_str_neq(chosen(&s, 131072), "ring");
    const double more =
        choice_of(&s, ALLREDUCE, price_half_from(upper)).predicted / 1e-6;
    const double priced = exp2(
        (price_half_time(ring, upper) - price_half_time(ring, lower)) / 256.0);
    cr_assert_float_eq(more, priced, 0.02 * priced, "%g, not %g", more, priced);
    select_free(&s);
    ring->recalled[upper] = price_log(1e-3); /* its own counts more */
    cr_assert_gt(choice_of(&s, ALLREDUCE, 98304).predicted, 0.9e-3);
    select_free(&s);
}

Test(select, rules_force_and_forbid_by_size)
{
    struct select s = {0};
    price(&s, 4, NULL, NULL, &fast);
    cr_assert_eq(
        select_rules(&s, "allreduce:0-4k:binomial_tree;4k-:^ring", "COLL_ALGO"),
        COLL_OK);
    cr_assert_str_eq(chosen(&s, 4095), "binomial_tree");
    cr_assert_str_neq(chosen(&s, 4096), "binomial_tree");
    cr_assert_eq(select_rules(&s, "0-5000:binomial_tree;5000-:ring", "x"),
                 COLL_OK);
    for (int turn = 0; turn < 2; turn++) {
        cr_assert_str_eq(chosen(&s, 4999), "binomial_tree");
        cr_assert_str_eq(chosen(&s, 5000), "ring");
    }
    cr_assert_eq(select_rules(&s, "ring", "COLL_ALGO"), COLL_OK);
    cr_assert_str_eq(chosen(&s, 8), "ring");
    cr_assert_eq(
        select_rules(&s, "ALLREDUCE:1M-:allreduce_ring,binomial_tree", "x"),
        COLL_OK);
    cr_assert_eq(select_rules(&s, "ring;^ring", "x"), COLL_OK);
    cr_assert_str_eq(chosen(&s, 8), "none");
    cr_assert_eq(select_rules(&s, "", "x"), COLL_OK);
    cr_assert_eq(s.rules.n, 0);
    select_free(&s);
}

Test(select, bad_rules_are_refused_with_the_valid_names)
{
    const char *const bad[] = {"rign",
                               "allreduce:",
                               "0-4k:",
                               "ring,",
                               "^",
                               "allreduce:;",
                               "allreduce:broadcast:chain"};
    const char *const before[] = {"scan:ring", "4k-1k:ring", "ring:4k-",
                                  "allreduce:1k-1k:ring"};
    struct select s = {.rules = {.n = 1}};
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        cr_assert_eq(select_rules(&s, before[i], "COLL_ALGO"), COLL_ERR_INVALID,
                     "%s", before[i]);
        cr_assert(
            strstr(fail_sentence(), ":\", which is no collective, nor a range"),
            "%s: %s", before[i], fail_sentence());
        cr_assert_eq(s.rules.n, 1);
    }
    cr_assert_eq(select_rules(&s, "allreduc:ring", "COLL_ALGO"),
                 COLL_ERR_INVALID);
    cr_assert(strstr(fail_sentence(), "did you mean allreduce?"), "%s",
              fail_sentence());
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(select_rules(&s, bad[i], "COLL_ALGO"), COLL_ERR_INVALID,
                     "%s", bad[i]);
        cr_assert(strstr(fail_sentence(), "double_binary_tree"), "%s: %s",
                  bad[i], fail_sentence());
        cr_assert_eq(s.rules.n, 1);
    }
}

Test(select, each_collective_has_rules_of_its_own)
{
    struct select s = {0};
    price(&s, 5, NULL, NULL, &fast);
    cr_assert_eq(select_rules(&s,
                              "broadcast:chain;64k-:^chain;reduce:chain;"
                              "reduce_scatter:ring;allgather:bruck;"
                              "gather:linear;scatter:knomial_tree;alltoall:"
                              "bruck;barrier:dissemination;allreduce:ring",
                              "x"),
                 COLL_OK, "%s", fail_sentence());
    cr_assert_eq(s.rules.n, 10);
    const struct {
        enum coll_kind kind;
        const char *name;
    } want[] = {
        {REDUCE,         "reduce_chain"         },
        {REDUCE_SCATTER, "reduce_scatter_ring"  },
        {ALLGATHER,      "allgather_bruck"      },
        {GATHER,         "gather_linear"        },
        {SCATTER,        "scatter_knomial_tree" },
        {ALLTOALL,       "alltoall_bruck"       },
        {BARRIER,        "barrier_dissemination"},
        {ALLREDUCE,      "allreduce_ring"       },
        {BROADCAST,      "broadcast_chain"      },
    };
    for (int i = 0; i < NKINDS; i++) {
        const int algo = choice_of(&s, want[i].kind, 100).algo;
        cr_assert_str_eq(algos[algo].full_name, want[i].name);
    }
    struct select_choice choice;
    cr_assert_eq(select_best(&s, BROADCAST, 1 << 20, &choice),
                 COLL_ERR_UNSUPPORTED);
    cr_assert_eq(select_rules(&s, "broadcast:ring", "x"), COLL_ERR_INVALID);
    cr_assert(strstr(fail_sentence(), "for broadcast")
                  && strstr(fail_sentence(), "scatter_allgather"),
              "%s", fail_sentence());
}

/* Every kind is priced, and by its own algorithms' costs. */
Test(select, long_vectors_take_what_sends_least)
{
    const uint64_t one[64] = {0};
    struct select s = {0};
    for (int n = 4; n <= (thorough() ? 64 : 16); n *= 4) {
        price(&s, n, one, NULL, &fast);
        for (enum coll_kind kind = ALLREDUCE; kind < BARRIER; kind++) {
            const double few = choice_of(&s, kind, 64).predicted;
            const double many = choice_of(&s, kind, 64 << 20).predicted;
            cr_assert_gt(few, 0);
            /* No more than two vectors through a port, and their sums. */
            cr_assert_lt(many, 3.5e-10 * (64 << 20) * 1.5, "%s, %d ranks: %g",
                         kind_names[kind], n, many);
        }
        /* Where a message also takes its ranks' time, few are best. */
        price(&s, n, one, NULL, &busy);
        for (enum coll_kind kind = REDUCE; kind <= BROADCAST; kind++) {
            const char *name = algos[choice_of(&s, kind, 64).algo].name;
            cr_assert(strstr(name, "nomial_tree"), "%s, %d ranks: %s",
                      kind_names[kind], n, name);
        }
    }
    select_free(&s);
}

/* Racks as they were measured, and hosts inside. */
Test(layout, what_a_description_leaves_out_is_measured_level_by_level)
{
    static const struct {
        const char *spec;
        double alpha[2], beta[2], shared;
    } want[] = {
        {"rack:2 node:3",             {8e-5, 2e-5}, {1e-9, 1e-9}, 3e-9},
        {"rack:2 (1us 1GB/s) node:3", {1e-6, 2e-5}, {1e-9, 1e-9}, 0   },
        {"rack:3 node:2",             {2e-5, 2e-5}, {1e-9, 1e-9}, 0   },
    };
    const int group_of[] = {0, 0, 0, 1, 1, 1};
    const struct layout_groups groups = {
        2, group_of, {8e-5, 2e-9, 0},
          3e-9
    };
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        char error[256];
        coll_topo *topo;
        struct layout l;
        cr_assert_eq(
            coll_topo_load(&topo, want[i].spec, "spec", error, sizeof(error)),
            COLL_OK, "%s", error);
        cr_assert_eq(layout_create(&l, 6, NULL, topo, &groups, &fast), COLL_OK);
        cr_assert_eq(l.net.nlevels, 2);
        for (int k = 0; k < 2; k++) {
            cr_expect_float_eq(l.net.level[k].link.alpha, want[i].alpha[k],
                               1e-12, "%s: %g", want[i].spec,
                               l.net.level[k].link.alpha);
            cr_expect_float_eq(l.net.level[k].link.beta, want[i].beta[k], 1e-15,
                               "%s: %g", want[i].spec,
                               l.net.level[k].link.beta);
        }
        cr_expect_float_eq(l.net.level[0].shared, want[i].shared, 1e-15,
                           "%s: %g", want[i].spec, l.net.level[0].shared);
        layout_free(&l);
        coll_topo_free(topo);
    }
}

Test(layout, has_all_levels_that_a_description_may_have)
{
    static const char spec[] =
        "a:2 (9us 1GB/s) b:2 (8us 1GB/s) c:2 (7us 1GB/s) d:2 (6us 1GB/s) "
        "e:2 (5us 1GB/s) f:2 (4us 1GB/s) g:2 (3us 1GB/s) host:2 (2us 1GB/s)";
    char error[256];
    coll_topo *topo;
    struct layout l;
    cr_assert_eq(coll_topo_load(&topo, spec, "spec", error, sizeof(error)),
                 COLL_OK, "%s", error);
    cr_assert_eq(layout_create(&l, 256, NULL, topo, NULL, &fast), COLL_OK);
    cr_assert_eq(l.net.nlevels, 8);
    for (int k = 0; k < 8; k++) {
        cr_expect_eq(l.net.level[k].ngroups, 2 << k);
        cr_expect_float_eq(l.net.level[k].link.alpha, (9 - k) * 1e-6, 1e-12);
    }
    layout_free(&l);
    coll_topo_free(topo);
}

/* Also at an end of its octave, a factor 1.4 from the middle that is priced. */
Test(select, a_prediction_is_for_the_size_asked)
{
    struct select s = {0};
    struct layout layout;
    cr_assert_eq(layout_create(&layout, 8, NULL, NULL, NULL, &fast), COLL_OK);
    price(&s, 8, NULL, NULL, &fast);
    for (int i = 0; i < s.prices.nrows; i++)
        for (size_t bytes = 1 << 20;
             bytes <= 1 << 25 && s.prices.row[i].log_time[20] != PRICE_NONE;
             bytes += (size_t)1 << (price_class(bytes) - 2)) {
            const struct price_row *row = &s.prices.row[i];
            double seconds = 0;
            cr_assert_eq(price_one(&layout, &algos[row->algo],
                                   (enum layout_order)row->order,
                                   1 << row->variant[price_class(bytes)], bytes,
                                   NULL, &seconds),
                         COLL_OK);
            const double ratio = price_seconds(row, bytes) / seconds;
            cr_assert(ratio > 0.95 && ratio < 1.05, "%s, %zu bytes: %g",
                      algos[row->algo].full_name, bytes, ratio);
        }
    layout_free(&layout);
    select_free(&s);
}

/* Slow messages favour few rounds, long vectors favour few bytes. */
Test(select, the_price_decides_by_size)
{
    struct select s = {0};
    price(&s, 16, NULL, NULL, &fast);
    cr_assert_lt(choice_of(&s, ALLREDUCE, 8).predicted, 4.5 * 2e-5);
    cr_assert_str_neq(chosen(&s, 64 << 20), "recursive_doubling");
    cr_assert_str_neq(chosen(&s, 64 << 20), "binomial_tree");
    select_free(&s);
}

/* From rounds that count to bytes that do. */
Test(select, a_sweep_of_lengths_takes_several_algorithms)
{
    char error[256];
    coll_topo *topo;
    struct select s = {0};
    bool seen[NALGOS] = {false};
    int n = 0;
    cr_assert_eq(coll_topo_load(&topo,
                                "rack:4 (3us 20GB/s shared) "
                                "host:4 (1us 12.5GB/s)",
                                "spec", error, sizeof(error)),
                 COLL_OK, "%s", error);
    price(&s, 16, NULL, topo, &fast);
    for (size_t bytes = 8; bytes <= 64 << 20; bytes *= 2) {
        const int algo = choice_of(&s, ALLREDUCE, bytes).algo;
        n += !seen[algo];
        seen[algo] = true;
    }
    cr_assert_geq(n, 3, "%d", n);
    select_free(&s);
    coll_topo_free(topo);
}

Test(select, hosts_are_positions_where_their_ranks_share_memory)
{
    uint64_t block[12], dealt[12], alone[3] = {0, 1, 2};
    static struct select with, without, few;
    for (int r = 0; r < 12; r++) {
        block[r] = (uint64_t)(r / 4);
        dealt[r] = (uint64_t)(r % 3);
    }
    price_hosts(&with, 12, block, 4);
    price_hosts(&without, 12, block, 0);
    price_hosts(&few, 3, alone, 0);
    for (int k = 0; k < NKINDS; k++) {
        const enum coll_kind kind = (enum coll_kind)k;
        const bool has = kind != GATHER && kind != SCATTER && kind != ALLTOALL;
        cr_assert_eq(choice_of(&with, kind, 8).order,
                     has ? ORDER_HOSTS : ORDER_GIVEN, "%s", kind_names[k]);
        cr_assert_neq(choice_of(&without, kind, 8).order, ORDER_HOSTS);
    }
    cr_assert_eq(select_rules(&with, "@by_hosts", "x"), COLL_OK);
    for (size_t bytes = 8; bytes < 1 << 24; bytes *= 64) {
        const double by_hosts = choice_of(&with, ALLREDUCE, bytes).predicted;
        const double of_hosts = choice_of(&few, ALLREDUCE, bytes).predicted;
        const double pass = (double)bytes / 2e10; /* of fast.local */
        /* Two passes, at the size that stands for the class, up to 1.5 times
         * this one, and some exchanges of a cache line. */
        cr_assert_float_eq(by_hosts, of_hosts + 2.5 * pass, 1e-6 + pass,
                           "%zu bytes: %g, %g", bytes, by_hosts, of_hosts);
    }
    /* However they are numbered; a part for each rank: where hosts are even. */
    price_hosts(&with, 12, dealt, 4);
    cr_assert_eq(choice_of(&with, ALLREDUCE, 8).order, ORDER_HOSTS);
    cr_assert_eq(choice_of(&with, ALLGATHER, 8).order, ORDER_HOSTS);
    price_hosts(&with, 11, block, 4);
    cr_assert_eq(choice_of(&with, BROADCAST, 8).order, ORDER_HOSTS);
    cr_assert_neq(choice_of(&with, REDUCE_SCATTER, 8).order, ORDER_HOSTS);
    select_free(&with);
    select_free(&without);
    select_free(&few);
}

/* Papers pair halving with one order of the ranks: near with block, far with
 * round robin. Whichever way the ranks are numbered, the pairs must be right,
 * and a forced wrong order is not among the candidates' winners. */
Test(select, step_order_and_rank_order_are_chosen_together)
{
    uint64_t hosts[16];
    struct select s = {0};
    for (int deal = 0; deal < 2; deal++) {
        for (int r = 0; r < 16; r++)
            hosts[r] = (uint64_t)(deal ? r % 4 : r / 4);
        price(&s, 16, hosts, NULL, &fast);
        cr_assert_eq(select_rules(&s, "halving_doubling", "x"), COLL_OK);
        cr_assert_eq(choice_of(&s, ALLREDUCE, 16 << 20).order,
                     ORDER_ROUND_ROBIN);
        cr_assert_eq(select_rules(&s, "halving_doubling_near", "x"), COLL_OK);
        cr_assert_eq(choice_of(&s, ALLREDUCE, 16 << 20).order, ORDER_BLOCK);
        cr_assert_eq(select_rules(&s, "ring", "x"), COLL_OK);
        cr_assert_eq(choice_of(&s, ALLREDUCE, 16 << 20).order, ORDER_BLOCK);
    }
    select_free(&s);
}

/* Of all that may be chosen, at so many bytes. */
static double least_simulated(const struct select *s, const struct layout *l,
                              enum coll_kind kind, size_t bytes)
{
    double least = INFINITY;
    for (int i = 0; i < s->prices.nrows; i++) {
        const struct price_row *row = &s->prices.row[i];
        double seconds = INFINITY;
        if (algos[row->algo].kind == kind && !algo_in_order(&algos[row->algo]))
            price_one(l, &algos[row->algo], (enum layout_order)row->order,
                      1 << row->variant[price_class(bytes)], bytes, NULL,
                      &seconds);
        least = fmin(least, seconds);
    }
    return least;
}

/* Ranks that are numbered host by host, with memory in common or without. */
Test(select, parts_for_each_rank_take_the_best_way)
{
    static const int shapes[][2] = {
        {4, 8},
        {3, 5}
    };
    /* The third is as fast between hosts as inside. */
    static const struct layout_costs even = {
        .local = {5e-7,   1e-10, 0},
        .remote = {1.5e-6, 1e-10, 0},
    };
    const struct layout_costs *const costs[] = {&fast, &busy, &even};
    struct select s = {0};
    for (int i = 0; i < 2 * 2 * 3; i++) {
        /* Half of the product has each pair of the three. */
        if (!thorough() && (i + i / 2 + i / 4) % 2)
            continue;
        const int nhosts = shapes[i % 2][0], each = shapes[i % 2][1];
        uint64_t hosts[32];
        struct layout l;
        for (int r = 0; r < nhosts * each; r++)
            hosts[r] = (uint64_t)(r / each);
        select_free(&s);
        cr_assert_eq(
            layout_create(&l, nhosts * each, hosts, NULL, NULL, costs[i / 4]),
            COLL_OK);
        l.by_hosts = i / 2 % 2 ? each : 0;
        cr_assert_eq(price_all(&s.prices, &l, 1e6, 1e9), COLL_OK);
        for (int class = 6; class <= 26; class += thorough() ? 2 : 10)
            for (int k = REDUCE_SCATTER; k <= ALLGATHER; k++) {
                const enum coll_kind kind = (enum coll_kind)k;
                const size_t bytes = price_bytes(class);
                const struct select_choice c = choice_of(&s, kind, bytes);
                double seconds;
                cr_assert_eq(price_one(&l, &algos[c.algo], c.order,
                                       1 << c.variant, bytes, NULL, &seconds),
                             COLL_OK);
                const double ratio =
                    seconds / least_simulated(&s, &l, kind, bytes);
                cr_assert_leq(
                    ratio, 1.05, "%s %s of %zu bytes on %d of %d, costs %d: %g",
                    algos[c.algo].full_name, layout_order_names[c.order], bytes,
                    nhosts, each, i / 4, ratio);
            }
        layout_free(&l);
    }
    select_free(&s);
}

/* Where a message also takes its ranks' time, short parts share messages. */
Test(select, short_parts_go_in_few_messages)
{
    uint64_t hosts[32];
    struct select s = {0};
    for (int r = 0; r < 32; r++)
        hosts[r] = (uint64_t)(r / 8);
    price(&s, 32, hosts, NULL, &busy);
    cr_assert_str_eq(algos[choice_of(&s, ALLGATHER, 256).algo].name,
                     "bruck_levels");
    cr_assert_str_eq(algos[choice_of(&s, REDUCE_SCATTER, 256).algo].name,
                     "halving_levels");
    select_free(&s);
}

/* The same for hosts that have several ranks, in groups of hosts. */
Test(select, hosts_are_dealt_over_groups_where_ranks_would_be)
{
    static const struct {
        const char *rule;
        enum layout_order order;
    } wanted[] = {
        {"halving_doubling@by_hosts,halving_doubling@hosts_dealt",
         ORDER_HOSTS_DEALT                                                              },
        {"halving_doubling_near@by_hosts,halving_doubling_near@hosts_dealt",
         ORDER_HOSTS                                                                    },
        {"ring@by_hosts,ring@hosts_dealt",                                   ORDER_HOSTS},
    };
    static const int group_of[] = {0, 0, 0, 0, 1, 1, 1, 1};
    const struct layout_groups groups = {
        2, group_of, {5e-5, 1e-8, 0},
          0
    };
    uint64_t hosts[16];
    struct select s = {0};
    struct layout l;
    for (int r = 0; r < 16; r++)
        hosts[r] = (uint64_t)(r / 2);
    cr_assert_eq(layout_create(&l, 16, hosts, NULL, &groups, &fast), COLL_OK);
    l.by_hosts = 2;
    cr_assert_eq(price_all(&s.prices, &l, 1e6, 1e9), COLL_OK);
    layout_free(&l);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        cr_assert_eq(select_rules(&s, wanted[i].rule, "x"), COLL_OK);
        cr_assert_eq(choice_of(&s, ALLREDUCE, 16 << 20).order, wanted[i].order,
                     "%s", wanted[i].rule);
    }
    /* Alone it means both, with an algorithm one. */
    const int first = 0;
    const int ring = (int)(algo_find(ALLREDUCE, "ring") - algos);
    for (int from = 0; from < 2; from++) {
        const struct rules *rules = &s.rules;
        const int o = from ? ORDER_HOSTS_DEALT : ORDER_HOSTS;
        const enum layout_order order = (enum layout_order)o;
        cr_assert_eq(select_rules(&s, "^@by_hosts", "x"), COLL_OK);
        cr_expect_eq(rules_allow(rules, first, order, 8), 0);
        cr_expect(rules_allow(rules, first, ORDER_BLOCK, 8));
        cr_assert_eq(select_rules(&s, "@by_hosts", "x"), COLL_OK);
        cr_expect(rules_allow(rules, first, order, 8));
        cr_expect_eq(rules_allow(rules, first, ORDER_BLOCK, 8), 0);
        cr_assert_eq(select_rules(&s, "ring@by_hosts", "x"), COLL_OK);
        cr_expect_eq(rules_allow(rules, ring, order, 8), !from);
        cr_expect_eq(rules_allow(rules, first, order, 8), 0);
        cr_assert_eq(select_rules(&s, "^@hosts_dealt", "x"), COLL_OK);
        cr_expect_eq(rules_allow(rules, first, order, 8), !from);
    }
    select_free(&s);
}
