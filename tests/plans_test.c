/* SPDX-License-Identifier: MIT */
/* Every allreduce planner, at every size up to 64 ranks, without a network.
 *
 * An element is a set of ranks, one bit each. Reducing is union, and fails if
 * the two sets overlap; so a right result proves that each rank's share was
 * added exactly once, whatever the numbers would have been. Sends finish with
 * their receives (rendezvous), so a plan that leans on buffering gets stuck.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "exec/rehearse.h"

static bool counted_twice;

static void set_union(void *dst, const void *a, const void *b, size_t n)
{
    const uint64_t *x = a, *y = b;
    for (size_t i = 0; i < n; i++) {
        counted_twice |= (x[i] & y[i]) != 0;
        ((uint64_t *)dst)[i] = x[i] | y[i];
    }
}

/* Odd seeds run in place. Seeds above 0 also deliver messages out of order. */
static void check(const struct algo *algo, int nranks, int segments,
                  size_t count, unsigned seed)
{
    const bool in_place = seed % 2;
    const uint64_t everyone = ~0ull >> (64 - nranks), canary = 0xabad1deaull;
    char *in[64], *out[64];
    for (int r = 0; r < nranks; r++) {
        in[r] = malloc((count + 1) * sizeof(uint64_t));
        out[r] = in_place ? in[r] : calloc(count + 1, sizeof(uint64_t));
        for (size_t i = 0; i < count; i++)
            ((uint64_t *)in[r])[i] = 1ull << r;
        ((uint64_t *)in[r])[count] = ((uint64_t *)out[r])[count] = canary;
    }

    const struct rehearsal c = {
        .plan = algo->plan,
        .nranks = nranks,
        .segments = segments,
        .count = count,
        .elem_bytes = sizeof(uint64_t),
        .net = {.link = {1e-6, 1e-10}, .jitter_seed = seed},
        .reduce = set_union,
        .in = in,
        .out = out,
    };
    double seconds;
    counted_twice = false;
    const coll_status status = rehearse(&c, &seconds);
    cr_assert_eq(status, COLL_OK, "%s, %d ranks: status %d", algo->name, nranks,
                 status);
    cr_assert_not(counted_twice, "%s, %d ranks", algo->name, nranks);
    for (int r = 0; r < nranks; r++) {
        for (size_t i = 0; i < count; i++)
            if (((uint64_t *)out[r])[i] != everyone)
                cr_assert_fail("%s, %d ranks, count %zu: rank %d, element %zu",
                               algo->name, nranks, count, r, i);
        cr_assert_eq(((uint64_t *)out[r])[count], canary, "%s: past the end",
                     algo->name);
        if (!in_place && count)
            cr_assert_eq(((uint64_t *)in[r])[count - 1], 1ull << r,
                         "%s: input written", algo->name);
    }

    for (int r = 0; r < nranks; r++) {
        free(in[r]);
        if (!in_place)
            free(out[r]);
    }
}

static void check_all_shapes(const struct algo *algo, int nranks)
{
    const size_t n = (size_t)nranks;
    const size_t counts[] = {0, 1, n - 1, n, n + 1, 7, 64, 131, 1009};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        for (unsigned seed = 0; seed < 4; seed++)
            for (int segments = 1; segments <= 4; segments *= 4)
                check(algo, nranks, segments, counts[i], seed);
}

Test(plans, allreduce_adds_each_rank_exactly_once, .timeout = 120)
{
    for (int a = 0; a < nalgos; a++)
        for (int n = 1; n <= 64 && algos[a].kind == ALLREDUCE; n++)
            if (algos[a].fits(&(struct plan_shape){.nranks = n}))
                check_all_shapes(&algos[a], n);
}

/* What each algorithm costs, from its formula. sent: by all ranks together, in
 * vectors; rounds: messages one after another; busiest: vectors through the
 * busiest port, for counts that n divides. Negative: no closed form; not exact:
 * an upper bound. */
struct cost {
    const char *name;
    double sent, rounds, busiest;
    bool exact;
};

static int log2_floor(int n)
{
    int k = 0;
    while (n >>= 1)
        k++;
    return k;
}

static struct cost cost_of(const char *name, int n)
{
    const int down = log2_floor(n), pow2 = 1 << down, rem = n - pow2;
    const int up = down + (rem > 0);
    const double fold = rem > 0 ? 2 : 0;
    const struct cost costs[] = {
        {"recursive_doubling",    (double)pow2 * down + 2.0 * rem, down + fold,
         down + fold,                                                                                                 true    },
        {"halving_doubling",      2.0 * (pow2 - 1) + 2.0 * rem,    2.0 * down + fold,
         2.0 * (pow2 - 1) / pow2 + fold,                                                                              true    },
        {"halving_doubling_near", 2.0 * (pow2 - 1) + 2.0 * rem,
         2.0 * down + fold,                                                           2.0 * (pow2 - 1) / pow2 + fold, true    },
        {"ring",                  2.0 * (n - 1),                   2.0 * (n - 1),     2.0 * (n - 1) / n,              true    },
        {"binomial_tree",         2.0 * (n - 1),                   2.0 * up,          2.0 * up,                       rem == 0},
        {"double_binary_tree",    2.0 * (n - 1),                   -1,                -1,                             false   },
    };
    for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++)
        if (!strcmp(costs[i].name, name))
            return costs[i];
    cr_assert_fail("%s has no cost formula here: add its row", name);
    return costs[0];
}

static double dry_run(const struct algo *algo, int n, size_t count,
                      struct sim_net net, struct sim_traffic *traffic)
{
    const struct rehearsal c = {
        .plan = algo->plan,
        .nranks = n,
        .segments = 1,
        .count = count,
        .elem_bytes = 1,
        .net = net,
        .traffic = traffic,
    };
    double seconds;
    cr_assert_eq(rehearse(&c, &seconds), COLL_OK, "%s, %d ranks", algo->name,
                 n);
    return seconds;
}

Test(plans, traffic_is_what_the_formula_says_to_the_byte)
{
    const size_t counts[] = {0, 1, 63, 64, 65, 997, 7919, 1 << 20};
    for (int a = 0; a < nalgos; a++)
        for (int n = 1; n <= 64; n++)
            for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                struct sim_traffic traffic[64];
                dry_run(&algos[a], n, counts[i], (struct sim_net){0}, traffic);
                uint64_t sent = 0;
                for (int r = 0; r < n; r++)
                    sent += traffic[r].bytes;
                cr_assert_eq((double)sent,
                             cost_of(algos[a].name, n).sent * (double)counts[i],
                             "%s, %d ranks, %zu bytes: sent %lu", algos[a].name,
                             n, counts[i], (unsigned long)sent);
            }
}

/* Latency alone, then bandwidth alone, on vectors that every n divides. */
Test(plans, time_is_what_the_formula_says)
{
    for (int a = 0; a < nalgos; a++)
        for (int n = 1; n <= 64; n++) {
            const struct cost cost = cost_of(algos[a].name, n);
            const size_t bytes = (size_t)n * 4096;
            if (cost.rounds < 0)
                continue;
            const double latency = dry_run(&algos[a], n, bytes,
                                           (struct sim_net){
                                               .link = {1, 0}
            },
                                           NULL);
            const bool exact = cost.exact;
            cr_assert(exact ? fabs(latency - cost.rounds) < 1e-9
                            : latency <= cost.rounds + 1e-9,
                      "%s, %d ranks: %g rounds", algos[a].name, n, latency);
            const double wire = dry_run(&algos[a], n, bytes,
                                        (struct sim_net){
                                            .link = {0, 1.0 / (double)bytes}
            },
                                        NULL);
            cr_assert(exact ? fabs(wire - cost.busiest) < 1e-9
                            : wire <= cost.busiest + 1e-9,
                      "%s, %d ranks: %g vectors", algos[a].name, n, wire);
        }
}

/* A rank with children in both trees carries two inner streams: there is none
 * for an even number of ranks and at most one for an odd number. */
Test(plans, two_trees_share_at_most_one_inner_rank)
{
    for (int n = 3; n <= 64; n++) {
        int both = 0;
        for (int r = 0; r < n; r++) {
            struct plan p;
            int upper = 0, lower = 0;
            plan_allreduce_double_binary_tree(&p,
                                              &(struct plan_shape){r, n, 1});
            for (int i = 0; i < p.nsteps; i++)
                if (p.steps[i].kind == PLAN_REDUCE)
                    *(p.steps[i].chunk ? &upper : &lower) += 1;
            cr_assert(upper <= 2 && lower <= 2, "rank %d of %d", r, n);
            both += upper && lower;
            plan_free(&p);
        }
        cr_assert_leq(both, n % 2, "%d ranks", n);
    }
}

/* Where the blocks end up, as swCaffe's text has it: the largest exchange is
 * with the partner at distance p/2 in one order, at distance 1 in the other. */
Test(plans, step_orders_differ_in_who_gets_the_half)
{
    const char *const names[] = {"halving_doubling", "halving_doubling_near"};
    const int first_partner[] = {3 ^ 8, 3 ^ 1};
    for (int i = 0; i < 2; i++) {
        struct plan p;
        algo_find(ALLREDUCE, names[i])
            ->plan(&p, &(struct plan_shape){3, 16, 1});
        cr_assert_eq(p.steps[0].kind, PLAN_RECV);
        cr_assert_eq(p.steps[0].nchunks, 8);
        cr_assert_eq(p.steps[0].peer, first_partner[i]);
        plan_free(&p);
    }
}

Test(plans, print_as_text)
{
    struct plan p;
    char text[1024];
    plan_allreduce_ring(&p, &(struct plan_shape){1, 3, 1});
    const size_t length = plan_print(&p, text, sizeof(text));
    cr_assert_str_eq(text, "3 chunks, 1 slot\n"
                           "  0  recv from 0  TMP[0] slot 0\n"
                           "  1  send to 2  IN[1]\n"
                           "  2  reduce  OUT[0] = IN[0] + TMP[0] slot 0"
                           "  after 0\n"
                           "  3  recv from 0  TMP[2] slot 0\n"
                           "  4  send to 2  OUT[0]  after 2\n"
                           "  5  reduce  OUT[2] = IN[2] + TMP[2] slot 0"
                           "  after 3\n"
                           "  6  recv from 0  OUT[1]\n"
                           "  7  send to 2  OUT[2]  after 5\n"
                           "  8  recv from 0  OUT[0]\n"
                           "  9  send to 2  OUT[1]  after 6\n");
    cr_assert_eq(length, strlen(text));
    char little[8] = "1234567";
    cr_assert_eq(plan_print(&p, little, 4), length);
    cr_assert_str_eq(little, "3 c");
    plan_free(&p);
}

Test(plans, ring_meets_its_bandwidth_bound_at_1024_ranks)
{
    const double bytes = 1 << 28, n = 1024;
    const struct rehearsal c = {
        .plan = plan_allreduce_ring,
        .nranks = 1024,
        .segments = 1,
        .count = (1 << 28) / 4,
        .elem_bytes = 4,
        .net = {.link = {2e-6, 1 / 12.5e9}},
    };
    double seconds;
    const double bound = 2 * (n - 1) / n * bytes * c.net.link.beta;
    cr_assert_eq(rehearse(&c, &seconds), COLL_OK);
    cr_assert_leq(seconds, 1.25 * bound, "%g s, bound %g s", seconds, bound);
}
