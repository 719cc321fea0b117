/* SPDX-License-Identifier: MIT */
/* Which algorithm is chosen, where, and in which order of the ranks. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "comm/select.h"
#include "thorough.h"

static const struct layout_costs fast = {
    .local = {1e-6, 1e-10, 0},
    .remote = {2e-5, 1e-9,  0},
    .gamma = 1e-10,
};

/* The same, but a message takes time of the ranks at its ends. */
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

static struct select_choice choice_of(struct select *s, enum coll_kind kind,
                                      size_t bytes)
{
    struct select_choice choice = {.algo = -1};
    select_best(s, kind, bytes, &choice);
    return choice;
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
    const struct select_class *class = s.class[ALLREDUCE][price_class(1024)];
    for (int i = 0; i < class->n; i++)
        cr_assert_eq(s.prices.row[class->row[i]].twin, class->row[i]);
    /* Where only the twin is allowed it serves. */
    cr_assert_eq(select_rules(&s, "allreduce:recursive_multiplying", "test"),
                 COLL_OK);
    cr_assert_str_eq(algos[choice_of(&s, ALLREDUCE, 1024).algo].full_name,
                     "allreduce_recursive_multiplying");
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
    const char *const bad[] = {"rign",      "allreduce:",
                               "scan:ring", "4k-1k:ring",
                               "0-4k:",     "ring,",
                               "^",         "allreduce:;",
                               "ring:4k-",  "allreduce:broadcast:chain"};
    struct select s = {.rules = {.n = 1}};
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
                              "reduce_scatter:ring;allgather:bruck;barrier:"
                              "dissemination;allreduce:ring",
                              "x"),
                 COLL_OK, "%s", fail_sentence());
    cr_assert_eq(s.rules.n, 7);
    const struct {
        enum coll_kind kind;
        const char *name;
    } want[] = {
        {REDUCE,         "reduce_chain"         },
        {REDUCE_SCATTER, "reduce_scatter_ring"  },
        {ALLGATHER,      "allgather_bruck"      },
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
    for (int n = 4; n <= 64; n *= 4) {
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
        cr_assert_str_eq(algos[choice_of(&s, REDUCE, 64).algo].full_name,
                         "reduce_binomial_tree");
        cr_assert_str_eq(algos[choice_of(&s, BROADCAST, 64).algo].full_name,
                         "broadcast_binomial_tree");
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

/* Also at an end of its octave, a factor 1.4 from the middle that is priced. */
Test(select, a_prediction_is_for_the_size_asked)
{
    struct select s = {0};
    struct layout layout;
    cr_assert_eq(layout_create(&layout, 8, NULL, NULL, NULL, &fast), COLL_OK);
    price(&s, 8, NULL, NULL, &fast);
    for (int i = 0; i < s.prices.nrows; i++)
        for (size_t bytes = 1 << 20; bytes <= 1 << 25;
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

/* by_hosts: ranks on a host, which share memory. */
static void price_hosts(struct select *s, int n, const uint64_t *hosts,
                        int by_hosts)
{
    struct layout layout;
    struct layout_costs costs = fast;
    costs.remote.overhead = 1e-6; /* a message for each rank is not for free */
    select_free(s);
    cr_assert_eq(layout_create(&layout, n, hosts, NULL, NULL, &costs), COLL_OK);
    layout.by_hosts = by_hosts;
    cr_assert_eq(price_all(&s->prices, &layout, 1e6, 1e9), COLL_OK, "%s",
                 fail_sentence());
    layout_free(&layout);
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
        cr_assert_eq(choice_of(&with, kind, 8).order, ORDER_HOSTS, "%s",
                     kind_names[k]);
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
    /* A part for each rank: only where these are neighbours. */
    price_hosts(&with, 12, dealt, 4);
    cr_assert_eq(choice_of(&with, ALLREDUCE, 8).order, ORDER_HOSTS);
    cr_assert_neq(choice_of(&with, ALLGATHER, 8).order, ORDER_HOSTS);
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

/* --- reduce and broadcast, which are timed now and then ------------------- */

/* Uniform in [0, 1). */
static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

/* Operations of one size as a communicator runs them: what a timed one took is
 * known when the next one is due. */
enum { NEAR = 35 }; /* 10 % */

struct program {
    struct select *select;
    enum coll_kind kind;
    size_t bytes;
    uint64_t state; /* of the noise, +-10 % */
    double first;   /* a row's first run takes so many times more */
    bool ran[PRICE_ROWS];
    int16_t took[PRICE_ROWS];  /* truly, as log times */
    struct select_choice last; /* the timed one */
    uint16_t news;
    int meetings;
};

static const struct price_row *row_of(const struct select *s,
                                      const struct select_choice *choice)
{
    const struct price_row *row = s->prices.row;
    while (row->algo != choice->algo || row->order != choice->order)
        row++;
    return row;
}

/* The log time of what is held for best after one more operation. */
static int operate(struct program *p)
{
    struct select *s = p->select;
    struct select_choice choice, meeting;
    const bool due = select_is_due(s, p->kind, p->bytes);
    if (due) {
        cr_assert_eq(select_meeting(s, &meeting), COLL_OK);
        cr_assert_eq(algos[meeting.algo].kind, BARRIER);
        p->meetings++;
        select_observe(s, p->kind, &p->last, p->news);
        select_next(s, p->kind, p->bytes, &choice);
        const int row = (int)(row_of(s, &choice) - s->prices.row);
        p->last = choice;
        p->news = learn_quantise(select_seconds(p->took[row])
                                 * (0.9 + 0.2 * draw(&p->state))
                                 * (p->ran[row] ? 1 : p->first));
        p->ran[row] = true;
    }
    select_best(s, p->kind, p->bytes, &choice);
    cr_assert(!choice.trial);
    return p->took[row_of(s, &choice) - s->prices.row];
}

static struct prices priced; /* of 4 hosts of 4 */

static void price_16(struct select *s)
{
    uint64_t hosts[16];
    for (int r = 0; r < 16; r++)
        hosts[r] = (uint64_t)(r / 4);
    price_hosts(s, 16, hosts, 4);
    s->adapts = true;
    priced = s->prices;
}

static int least_of(const struct program *p)
{
    int least = PRICE_NONE;
    for (int i = 0; i < priced.nrows; i++)
        if (algos[priced.row[i].algo].kind == p->kind && p->took[i] < least)
            least = p->took[i];
    return least;
}

/* All take what they are priced at; but the best, and what is as good, is
 * priced `times` as dear. */
static struct program misjudged(struct select *s, enum coll_kind kind,
                                size_t bytes, double times, int seed)
{
    struct program p = {.select = s,
                        .kind = kind,
                        .bytes = bytes,
                        .state = (uint64_t)seed * 7919,
                        .first = 1,
                        .last.candidate = -1};
    const int class = price_class(bytes);
    select_free(s);
    s->prices = priced;
    for (int i = 0; i < priced.nrows; i++)
        p.took[i] = priced.row[i].log_time[class];
    for (int i = 0; i < priced.nrows; i++)
        if (algos[priced.row[i].algo].kind == kind
            && p.took[i] <= least_of(&p) + NEAR)
            s->prices.row[i].log_time[class] +=
                price_log(times * 1e-7) - price_log(1e-7);
    select_best(s, kind, bytes, &(struct select_choice){0});
    return p;
}

/* first_run: how much longer each takes then, as it connects to ranks. most:
 * operations until what is priced so many times too dear is held for best. */
static void find_dear(double times, double first_run, int most)
{
    static struct select s;
    int last = 0, first = 0, all = 0;
    price_16(&s);
    for (enum coll_kind kind = REDUCE; kind <= BROADCAST; kind++)
        for (size_t bytes = 8; bytes <= 8 << 20; bytes *= 32)
            for (int seed = 0; seed < (int)cases(50, 20); seed++) {
                struct program p = misjudged(&s, kind, bytes, times, seed);
                const int good = least_of(&p) + NEAR;
                p.first = first_run;
                for (int i = 0; i < 1000; i++)
                    if (operate(&p) > good && i > last)
                        last = i;
                first = p.meetings > first ? p.meetings : first;
                for (int i = 1000; i < 11000; i++)
                    if (operate(&p) > good)
                        last = i;
                all = p.meetings > all ? p.meetings : all;
            }
    cr_log_info("found after %d operations; at most %d meetings in 1000, %d in "
                "11000",
                last, first, all);
    cr_expect_lt(last, most, "%d", last);
    cr_expect_lt(first, 250, "%d", first);
    cr_expect_lt(all, 200 + 11000 / 64 + 10, "%d", all);
    select_free(&s);
}

Test(select, a_reduce_or_broadcast_priced_ten_times_too_dear_is_found)
{
    find_dear(10, 1, 200);
}

Test(select, so_is_one_whose_first_run_is_slow)
{
    for (double times = 1.25; times < 11; times *= 2)
        find_dear(times, 20, 2000);
}

/* The best gets 4 times as slow: it is soon known, however seldom it is asked.
 */
Test(select, a_reduce_or_broadcast_that_gets_slow_is_left)
{
    static struct select s;
    int last = 0;
    price_16(&s);
    for (enum coll_kind kind = REDUCE; kind <= BROADCAST; kind++)
        for (int seed = 0; seed < (int)cases(50, 20); seed++) {
            struct program p = misjudged(&s, kind, 64 << 10, 1, seed);
            int good = least_of(&p) + NEAR, calls = 0;
            for (int i = 0; i < 5000; i++)
                operate(&p);
            for (int i = 0; i < priced.nrows; i++)
                p.took[i] += p.took[i] <= good ? 512 : 0;
            good = least_of(&p) + NEAR;
            while (calls < 2000 && operate(&p) > good)
                calls++;
            last = calls > last ? calls : last;
        }
    cr_log_info("left after %d operations", last);
    cr_expect_lt(last, 300, "%d", last);
    select_free(&s);
}

Test(select, what_leaves_no_choice_is_not_timed)
{
    static struct select s;
    const char *const rules[] = {"broadcast:chain@block",
                                 "barrier:^dissemination"};
    price_16(&s);
    for (int turn = 0; turn < 3; turn++) {
        cr_assert_eq(select_rules(&s, turn ? rules[turn - 1] : "", "x"),
                     COLL_OK);
        select_best(&s, BROADCAST, 64, &(struct select_choice){0});
        cr_expect_eq(select_is_due(&s, BROADCAST, 64), turn == 0, "%d", turn);
    }
    select_rules(&s, "", "x");
    for (int i = 0, n = 0; i < s.prices.nrows; i++)
        if (algos[s.prices.row[i].algo].kind == BROADCAST && n++ > 0)
            s.prices.row[i].log_time[price_class(64)] = PRICE_NONE;
    select_best(&s, BROADCAST, 64, &(struct select_choice){0});
    cr_expect_not(select_is_due(&s, BROADCAST, 64), "one price");
    s.prices = priced;
    select_rules(&s, "", "x");
    s.adapts = false;
    select_best(&s, BROADCAST, 64, &(struct select_choice){0});
    cr_expect_not(select_is_due(&s, BROADCAST, 64));
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
        if (algos[row->algo].kind == kind)
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
        for (int class = 6; class <= 26; class += 2)
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
    for (int from = 0; from < 2; from++) {
        const struct rules *rules = &s.rules;
        const int o = from ? ORDER_HOSTS_DEALT : ORDER_HOSTS;
        const enum layout_order order = (enum layout_order)o;
        cr_assert_eq(select_rules(&s, "^@by_hosts", "x"), COLL_OK);
        cr_expect_eq(rules_allow(rules, ALLREDUCE, order, 8) & 1, 0);
        cr_expect(rules_allow(rules, ALLREDUCE, ORDER_BLOCK, 8) & 1);
        cr_assert_eq(select_rules(&s, "@by_hosts", "x"), COLL_OK);
        cr_expect(rules_allow(rules, ALLREDUCE, order, 8) & 1);
        cr_expect_eq(rules_allow(rules, ALLREDUCE, ORDER_BLOCK, 8) & 1, 0);
        cr_assert_eq(select_rules(&s, "ring@by_hosts", "x"), COLL_OK);
        cr_expect_eq(!rules_allow(rules, ALLREDUCE, order, 8), from);
        cr_assert_eq(select_rules(&s, "^@hosts_dealt", "x"), COLL_OK);
        cr_expect_eq(rules_allow(rules, ALLREDUCE, order, 8) & 1, !from);
    }
    select_free(&s);
}
