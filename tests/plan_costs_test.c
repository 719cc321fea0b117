/* SPDX-License-Identifier: MIT */
/* What plans cost, by their formulas to the byte and on the simulator's clock,
 * and what makes them cost that: who talks to whom, and in which order. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "exec/rehearse.h"
#include "plans.h"
#include "thorough.h"

/* What each algorithm costs, from its formula. sent: by all ranks together, in
 * vectors; rounds: messages one after another; busiest: vectors through the
 * busiest port, for counts that n divides. Negative: no closed form; not exact:
 * an upper bound. Where each rank has a part the vector is that of all ranks.
 */
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

/* n as a product of numbers up to radix: as few as can be, then of the least
 * sum of (factor - 1). Of all products, by trying. */
struct product {
    int n, factors, peers;
};

static struct product best_product(int n, int radix)
{
    struct product best = {n, n == 1 ? 0 : 99, 0};
    for (int k = 2; k <= radix; k++) {
        if (n % k != 0)
            continue;
        struct product p = best_product(n / k, radix);
        p = (struct product){n, p.factors + 1, p.peers + k - 1};
        if (p.factors < best.factors
            || (p.factors == best.factors && p.peers < best.peers))
            best = p;
    }
    return best;
}

static struct cost multiplied(const char *name, int n, int radix)
{
    int most = n;
    while (best_product(most, radix).factors >= 99)
        most--;
    const struct product p = best_product(most, radix);
    const double rest = n - most, fold = rest > 0 ? 2 : 0;
    return (struct cost){name, (double)most * p.peers + 2 * rest,
                         p.factors + fold, p.peers + fold, true};
}

static struct cost divided(const char *name, int n, int radix)
{
    const struct cost whole = multiplied(name, n, radix);
    int most = n;
    while (best_product(most, radix).factors >= 99)
        most--;
    const double fold = n > most ? 2 : 0;
    return (struct cost){name, 2.0 * (most - 1) + 2.0 * (n - most),
                         2 * whole.rounds - fold,
                         2.0 * (most - 1) / most + fold, true};
}

/* A k-nomial tree, up, down or both ways: exact where all inner ranks have as
 * many children. */
static struct cost tree(const char *name, int n, int radix, int ways)
{
    int levels = 0, whole = 1;
    for (; whole < n; whole *= radix)
        levels++;
    const double rounds = ways * levels;
    return (struct cost){name, ways * (n - 1.0), rounds, rounds * (radix - 1),
                         whole == n};
}

/* In each round all tell as many as are not known to have come, but at most
 * radix - 1. */
static struct cost spread(const char *name, int n, int radix)
{
    double rounds = 0, peers = 0;
    for (int distance = 1; distance < n; distance *= radix, rounds++)
        peers += fmin(radix - 1, (n - 1) / distance);
    return (struct cost){name, n * peers, rounds, peers, true};
}

/* Every block between the largest and the smallest must hear from below before
 * it can hand over its ranks' parts, and so on the way back. */
static double blocks_port(int n)
{
    const int largest = 1 << log2_floor(n), smallest = n & -n;
    double port = 1;
    for (int size = 2 * smallest; size < largest; size *= 2)
        port += n & size ? 1.0 / size : 0;
    return 2 * (largest == n ? (n - 1.0) / n : port);
}

/* Gather and scatter on a k-nomial tree: a part goes as often up or down as its
 * rank has digits that are not 0. The root's port is always busy; up all of a
 * rank's children send at once, down it sends to those of one distance after
 * another. */
static struct cost tree_of_parts(const char *name, int n, int radix, bool up)
{
    double sent = 0, deepest = 0, levels = 0;
    for (int stride = 1; stride < n; stride *= radix)
        levels++;
    for (int v = 1; v < n; v++) {
        int depth = 0;
        for (int rest = v; rest; rest /= radix)
            depth += rest % radix != 0;
        sent += depth;
        deepest = fmax(deepest, depth);
    }
    return (struct cost){name, sent / n, up ? deepest : levels, (n - 1.0) / n,
                         true};
}

/* A block of Bruck's alltoall goes as often as its way has bits. */
static struct cost bits_of_blocks(const char *name, int n)
{
    double sent = 0, rounds = 0;
    for (int far = 1; far < n; far *= 2, rounds++)
        for (int d = 1; d < n; d++)
            sent += (d & far) != 0;
    return (struct cost){name, sent, rounds, sent / n, true};
}

/* Without groups. */
static struct cost direct_or_bits(const char *name, int n)
{
    return n > 16 ? bits_of_blocks(name, n)
                  : (struct cost){name, n - 1.0, n > 1, (n - 1.0) / n, true};
}

static struct cost cost_of(const char *name, int n)
{
    const int floor = log2_floor(n), pow2 = 1 << floor, rem = n - pow2;
    const bool full = rem == 0;
    const double fold = full ? 0 : 2, down = floor + fold;
    const double up = floor + !full, more = n > 1 ? up + 1 : 0;
    const double rest = n - 1, most = rest / n;
    const double doubled = pow2 * floor + 2.0 * rem;
    const double halved = 2.0 * (pow2 - 1) + 2.0 * rem, rounds = down + floor;
    const double port = 2.0 * (pow2 - 1) / pow2 + fold;
    const double logs = floor, one = n > 1, two = 2 * one,
                 blocks = blocks_port(n), all = n <= 16 ? one : up;
    const double batches = ceil(rest / 31); /* see allreduce_direct.c */
    const bool few = n <= 32;
    const struct cost costs[] = {
        {"allreduce_recursive_doubling",    doubled,  down,          down,     true },
        {"allreduce_halving_doubling",      halved,   rounds,        port,     true },
        {"allreduce_halving_doubling_near", halved,   rounds,        port,     true },
        {"allreduce_ring",                  2 * rest, 2 * rest,      2 * most, true },
        tree("allreduce_binomial_tree", n, 2, 2),
        tree("allreduce_knomial_tree", n, 4, 2),
        tree("allreduce_knomial_tree_8", n, 8, 2),
        {"allreduce_double_binary_tree",    2 * rest, -1,            -1,       false},
        {"allreduce_direct",                n * rest, one,           rest,     true },
        {"allreduce_direct_scatter",        2 * rest, two,           2 * most, true },
        multiplied("allreduce_recursive_multiplying", n, 4),
        multiplied("allreduce_recursive_multiplying_8", n, 8),
        divided("allreduce_dividing_multiplying", n, 4),
        divided("allreduce_dividing_multiplying_16", n, 16),
        {"allreduce_binary_blocks",         2 * rest, 2 * logs,      blocks,   true },
        {"allreduce_swing",                 halved,   rounds,        port,     true },
        {"allreduce_ring_segmented",        2 * rest, 2 * rest,      2 * most, true },
        {"allreduce_hierarchical",          2 * rest, -1,            -1,       false},
        {"allreduce_leaders",               doubled,  -1,            -1,       false},
        {"allreduce_in_order",              n * rest, batches,       rest,     few  },
        {"allreduce_in_order_scatter",      2 * rest, 2 * batches,   2 * most, few  },
        tree("reduce_binomial_tree", n, 2, 1),
        tree("reduce_knomial_tree", n, 4, 1),
        tree("reduce_knomial_tree_8", n, 8, 1),
        {"reduce_halving_gather",           n,        more,          2 * most, true },
        {"reduce_chain",                    rest,     rest,          rest,     true },
        {"reduce_hierarchical",             rest,     -1,            -1,       false},
        tree("broadcast_binomial_tree", n, 2, 1),
        tree("broadcast_knomial_tree", n, 4, 1),
        tree("broadcast_knomial_tree_8", n, 8, 1),
        {"reduce_in_order",                 n,        batches + one, 2 * most, few  },
        {"reduce_scatter_in_order",         rest,     batches,       most,     few  },
        {"broadcast_scatter_allgather",     rest,     more,          2,        false},
        {"broadcast_chain",                 rest,     rest,          rest,     true },
        {"broadcast_hierarchical",          rest,     -1,            -1,       false},
        {"reduce_scatter_halving",          rest,     up,            most,     true },
        {"reduce_scatter_halving_levels",   rest,     up,            most,     true },
        {"reduce_scatter_ring",             rest,     rest,          most,     true },
        {"reduce_scatter_hierarchical",     rest,     all,           most,     true },
        {"allgather_bruck",                 rest,     up,            most,     true },
        {"allgather_bruck_levels",          rest,     up,            most,     true },
        {"allgather_ring",                  rest,     rest,          most,     true },
        {"allgather_hierarchical",          rest,     all,           most,     true },
        {"gather_linear",                   most,     one,           most,     true },
        tree_of_parts("gather_binomial_tree", n, 2, true),
        tree_of_parts("gather_knomial_tree", n, 4, true),
        tree_of_parts("gather_knomial_levels", n, 4, true),
        {"gather_leaders",                  most,     one,           most,     true },
        {"scatter_linear",                  most,     one,           most,     true },
        tree_of_parts("scatter_binomial_tree", n, 2, false),
        tree_of_parts("scatter_knomial_tree", n, 4, false),
        tree_of_parts("scatter_knomial_levels", n, 4, false),
        {"scatter_leaders",                 most,     one,           most,     true },
        {"alltoall_pairwise",               rest,     rest,          most,     true },
        {"alltoall_direct",                 rest,     one,           most,     true },
        bits_of_blocks("alltoall_bruck", n),
        direct_or_bits("alltoall_hierarchical", n),
        direct_or_bits("alltoall_leaders", n),
        {"barrier_dissemination",           n * up,   up,            up,       true },
        spread("barrier_dissemination_4", n, 4),
        tree("barrier_knomial_tree", n, 4, 2),
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

Test(plan_costs, traffic_is_what_the_formula_says_to_the_byte)
{
    const size_t counts[] = {0, 1, 63, 64, 65, 997, 7919, 1 << 20};
    for (int a = 0; a < nplanned; a++)
        for (int n = 1; n <= 64 && serves(&algos[a], n); n = next_ranks(n))
            for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                struct sim_traffic traffic[64];
                const size_t m = (size_t)n;
                const size_t count = kind_has_parts(algos[a].kind)
                                         ? counts[i] / m * m
                                         : counts[i];
                dry_run(&algos[a], n, count, (struct sim_net){0}, traffic);
                uint64_t sent = 0;
                for (int r = 0; r < n; r++)
                    sent += traffic[r].bytes;
                const struct cost cost = cost_of(algos[a].full_name, n);
                /* The root of this one need not send itself its chunk. */
                const bool gathers = algos[a].plan == plan_reduce_halving_gather
                                     || algos[a].plan == plan_reduce_in_order;
                const size_t chunk0 = (count + m - 1) / m;
                cr_assert_float_eq(
                    (double)sent,
                    cost.sent * (double)count - (double)(gathers ? chunk0 : 0),
                    0.01, "%s, %d ranks, %zu bytes: sent %lu",
                    algos[a].full_name, n, count, (unsigned long)sent);
            }
}

/* Latency alone, then bandwidth alone, on vectors that every n divides, and so
 * do the numbers near it that have small factors. */
Test(plan_costs, time_is_what_the_formula_says)
{
    for (int a = 0; a < nplanned; a++)
        for (int n = 1; n <= 64 && serves(&algos[a], n); n = next_ranks(n)) {
            const struct cost cost = cost_of(algos[a].full_name, n);
            const size_t bytes = (size_t)n * 64 * 27 * 25 * 49 * 11 * 13;
            if (cost.rounds < 0)
                continue;
            const double latency = dry_run(&algos[a], n, bytes,
                                           (struct sim_net){
                                               .link = {1, 0, 0}
            },
                                           NULL);
            const bool exact = cost.exact;
            cr_assert(exact ? fabs(latency - cost.rounds) < 1e-9
                            : latency <= cost.rounds + 1e-9,
                      "%s, %d ranks: %g rounds", algos[a].full_name, n,
                      latency);
            if (cost.busiest < 0)
                continue;
            const double wire =
                dry_run(&algos[a], n, bytes,
                        (struct sim_net){
                            .link = {0, 1.0 / (double)bytes, 0}
            },
                        NULL);
            cr_assert(exact ? fabs(wire - cost.busiest) < 1e-9
                            : wire <= cost.busiest + 1e-9,
                      "%s, %d ranks: %g vectors", algos[a].full_name, n, wire);
        }
}

/* Three rounds of messages against fourteen. */
Test(plan_costs, where_messages_are_slow_short_vectors_double_before_they_ring)
{
    const struct sim_net slow = {
        .link = {200e-6, 1e-9, 0}
    };
    for (size_t bytes = 1; bytes <= 1024; bytes *= 2) {
        const double doubling = dry_run(
            algo_find(ALLREDUCE, "recursive_doubling"), 8, bytes, slow, NULL);
        const double ring =
            dry_run(algo_find(ALLREDUCE, "ring"), 8, bytes, slow, NULL);
        cr_assert_lt(doubling, ring, "%zu bytes: %g, %g", bytes, doubling,
                     ring);
    }
}

/* A rank with children in both trees carries two inner streams: there is none
 * for an even number of ranks and at most one for an odd number. */
Test(plan_costs, two_trees_share_at_most_one_inner_rank)
{
    for (int n = 3; n <= 64; n++) {
        int both = 0;
        for (int r = 0; r < n; r++) {
            struct plan p;
            int upper = 0, lower = 0;
            make_plan(algo_find(ALLREDUCE, "double_binary_tree"), &p, r, n, 1);
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

/* On 2^k ranks 2 k rounds, and two vectors through the busiest port but for the
 * first and the last segments, which fill and empty the trees. */
Test(plan_costs, two_trees_take_twice_the_vector_in_the_end)
{
    for (int k = 2; k <= 6; k++)
        for (int segments = 1; segments <= PLAN_SEGMENTS_MAX; segments *= 2) {
            const double bytes = 1 << 24;
            struct rehearsal c = {
                .plan = plan_allreduce_double_binary_tree,
                .nranks = 1 << k,
                .segments = segments,
                .count = 1 << 24,
                .elem_bytes = 1,
                .net = {.link = {0, 1 / bytes, 0}},
            };
            double wire, latency;
            cr_assert_eq(rehearse(&c, &wire), COLL_OK);
            c.net.link = (struct sim_link){1, 0, 0};
            cr_assert_eq(rehearse(&c, &latency), COLL_OK);
            cr_assert_float_eq(wire, 2 + (2 * k - 3.0) / segments, 1e-9,
                               "%d ranks, %d segments: %.12g vectors", c.nranks,
                               segments, wire);
            cr_assert(segments > 1 || fabs(latency - 2 * k) < 1e-9,
                      "%d ranks: %g rounds", c.nranks, latency);
        }
}

/* Where the blocks end up, as swCaffe's text has it: the largest exchange is
 * with the partner at distance p/2 in one order, at distance 1 in the other. */
Test(plan_costs, step_orders_differ_in_who_gets_the_half)
{
    const char *const names[] = {"halving_doubling", "halving_doubling_near"};
    const int first_partner[] = {3 ^ 8, 3 ^ 1};
    for (int i = 0; i < 2; i++) {
        struct plan p;
        make_plan(algo_find(ALLREDUCE, names[i]), &p, 3, 16, 1);
        cr_assert_eq(p.steps[0].kind, PLAN_RECV);
        cr_assert_eq(p.steps[0].nchunks, 8);
        cr_assert_eq(p.steps[0].peer, first_partner[i]);
        plan_free(&p);
    }
}

/* The chunk of which a rank computes the whole sum: the last one added. */
static int summed_last(const char *name, int r, int n)
{
    struct plan p;
    int chunk = -1;
    make_plan(algo_find(ALLREDUCE, name), &p, r, n, 1);
    for (int i = 0; i < p.nsteps; i++)
        if (p.steps[i].kind == PLAN_REDUCE) {
            chunk = p.steps[i].chunk;
            cr_assert(p.steps[i].nchunks == 1 || i + 1 < p.nsteps);
        }
    plan_free(&p);
    return chunk;
}

static int reversed(int x, int bits)
{
    int y = 0;
    for (int i = 0; i < bits; i++)
        y |= (x >> i & 1) << (bits - 1 - i);
    return y;
}

/* Halving the distance leaves block r at rank r, doubling it the block whose
 * number is r with its bits in reverse. */
Test(plan_costs, blocks_lie_in_order_or_in_order_of_reversed_bits)
{
    for (int bits = 1; bits <= 6; bits++)
        for (int n = 1 << bits, r = 0; r < n; r++) {
            cr_assert_eq(summed_last("halving_doubling", r, n), r);
            cr_assert_eq(summed_last("halving_doubling_near", r, n),
                         reversed(r, bits));
            cr_assert_eq(summed_last("binary_blocks", r, n), reversed(r, bits));
            cr_assert_eq(summed_last("direct_scatter", r, n), r);
        }
}

/* Bytes of a vector that the busiest rank sends. */
static uint64_t most_sent(const char *name, int n, size_t count)
{
    struct sim_traffic traffic[160];
    uint64_t most = 0;
    dry_run(algo_find(ALLREDUCE, name), n, count, (struct sim_net){0}, traffic);
    for (int r = 0; r < n; r++)
        most = traffic[r].bytes > most ? traffic[r].bytes : most;
    return most;
}

/* Folding sends as much in all, but not from all. */
Test(plan_costs, binary_blocks_spare_the_ranks_that_folding_loads)
{
    static const int ns[] = {12, 24, 48, 160};
    for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++) {
        const int n = ns[i], pow2 = 1 << log2_floor(n);
        const size_t count = (size_t)pow2 * 100;
        const uint64_t folded = most_sent("halving_doubling", n, count);
        const uint64_t blocks = most_sent("binary_blocks", n, count);
        /* Above halving and doubling, one sends a whole vector to who folded
         * in, the other its part of one to who is in the smaller block. */
        const size_t both = 2 * (count - count / (size_t)pow2);
        cr_assert_eq(folded, both + count);
        cr_assert_eq(blocks, both + count / (size_t)pow2, "%d ranks: %lu", n,
                     (unsigned long)blocks);
        cr_assert_lt(4 * blocks, 3 * folded);
    }
}

/* On a ring of ranks, chunks times the links that they cross. */
static double hops(const char *name, int n)
{
    double all = 0;
    for (int r = 0; r < n; r++) {
        struct plan p;
        make_plan(algo_find(ALLREDUCE, name), &p, r, n, 1);
        for (int i = 0; i < p.nsteps; i++) {
            const int far = abs(p.steps[i].peer - r);
            if (p.steps[i].kind == PLAN_SEND)
                all += (double)p.steps[i].nchunks
                       * (far < n - far ? far : n - far);
        }
        plan_free(&p);
    }
    return all / n;
}

/* Round k moves n / 2^(k+1) chunks by 2^k ranks, or by |rho(k)|: the k-th sum
 * of 1 - 2 + 4 ..., about 2^(k+1) / 3. */
Test(plan_costs, swing_takes_shorter_ways_on_a_ring)
{
    for (int n = 4, rounds = 2; n <= 1024; n *= 2, rounds++) {
        double swung = 0;
        for (int k = 0, rho = 1; k < rounds; k++, rho = 1 - 2 * rho)
            swung += 2.0 * (n >> (k + 1)) * abs(rho);
        cr_assert_eq(hops("halving_doubling_near", n), (double)n * rounds);
        cr_assert_eq(hops("swing", n), swung, "%d ranks: %g", n,
                     hops("swing", n));
        cr_assert(n < 64 || swung < 0.75 * n * rounds);
    }
}

Test(plan_costs, segmented_ring_with_one_segment_is_the_ring)
{
    for (int n = 1; n <= 9; n++)
        for (int r = 0; r < n; r++) {
            struct plan p, q;
            make_plan(algo_find(ALLREDUCE, "ring"), &p, r, n, 1);
            make_plan(algo_find(ALLREDUCE, "ring_segmented"), &q, r, n, 1);
            cr_assert_eq(p.nsteps, q.nsteps);
            cr_assert_eq(p.nslots, q.nslots);
            for (int i = 0; i < p.nsteps; i++)
                cr_assert(!memcmp(&p.steps[i], &q.steps[i], sizeof(p.steps[i])),
                          "rank %d of %d, step %d", r, n, i);
            plan_free(&p);
            plan_free(&q);
        }
}

/* Adding takes as long as sending here: a plain ring does one after the other,
 * pieces hide all of it but a piece's. */
Test(plan_costs, segmented_ring_adds_while_it_receives)
{
    const double rounds = 7, chunk = 1 << 20;
    struct rehearsal c = {
        .plan = plan_allreduce_ring_segmented,
        .nranks = 8,
        .count = 8 << 20,
        .elem_bytes = 1,
        .net = {.link = {0, 1e-9, 0}, .gamma = 1e-9},
    };
    for (c.segments = 1; c.segments <= 16; c.segments *= 4) {
        double seconds;
        cr_assert_eq(rehearse(&c, &seconds), COLL_OK);
        const double most = rounds * chunk * 1e-9 * (2 + 2.0 / c.segments);
        cr_assert_leq(seconds, most, "%d segments: %g s", c.segments, seconds);
    }
}

Test(plan_costs, print_as_text)
{
    struct plan p;
    char text[1024];
    make_plan(algo_find(ALLREDUCE, "ring"), &p, 1, 3, 1);
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

Test(plan_costs, ring_meets_its_bandwidth_bound)
{
    const unsigned nranks = cases(1024, 86);
    const double bytes = 1 << 28, n = nranks;
    const struct rehearsal c = {
        .plan = plan_allreduce_ring,
        .nranks = (int)nranks,
        .segments = 1,
        .count = (1 << 28) / 4,
        .elem_bytes = 4,
        .net = {.link = {2e-6, 1 / 12.5e9, 0}},
    };
    double seconds;
    const double bound = 2 * (n - 1) / n * bytes * c.net.link.beta;
    cr_assert_eq(rehearse(&c, &seconds), COLL_OK);
    cr_assert_leq(seconds, 1.25 * bound, "%g s, bound %g s", seconds, bound);
}
