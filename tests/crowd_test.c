/* SPDX-License-Identifier: MIT */
/* Work in the simulator: ranks that take turns on processors, and sums as fast
 * as the memory. */
#include <criterion/criterion.h>
#include <math.h>

#include "comm/price.h"

enum { RANKS = 8 };
static const double work = 5e-6; /* at each end of a message */

static double priced_in(int segments, const char *name, int nranks,
                        const struct crowd *crowd, size_t bytes,
                        const struct layout_costs *costs)
{
    struct layout l;
    struct sim_traffic traffic[RANKS];
    double seconds = 0;
    cr_assert_eq(layout_create(&l, nranks, NULL, NULL, NULL, costs), COLL_OK);
    if (crowd->machine_of)
        cr_assert_eq(layout_crowd(&l, crowd), COLL_OK);
    cr_assert_eq(price_one(&l, algo_find(ALLREDUCE, name), ORDER_GIVEN,
                           segments, bytes, traffic, &seconds),
                 COLL_OK);
    layout_free(&l);
    return seconds;
}

static double priced(const char *name, int nranks, int *machine_of,
                     int nmachines, int nprocessors, double machine,
                     size_t bytes, const struct layout_costs *costs)
{
    const struct crowd crowd = {nmachines, nprocessors, machine_of, machine, 0};
    return priced_in(1, name, nranks, &crowd, bytes, costs);
}

static const struct layout_costs only_work = {
    .remote = {.overhead = work},
};
static int one[RANKS] = {0}, two[RANKS] = {0, 1, 0, 1, 0, 1, 0, 1};

/* All send to all: (n - 1) messages go out of each rank, and as many come in.
 */
Test(crowd, work_is_shared_out)
{
    const double each = 2 * (RANKS - 1) * work;
    const double alone = priced("direct", RANKS, NULL, 0, 0, 0, 64, &only_work);
    cr_assert_float_eq(alone, each, 1e-12);
    for (int p = 1; p <= RANKS; p++) {
        const double t = priced("direct", RANKS, one, 1, p, 0, 64, &only_work);
        cr_assert(t >= RANKS * each / p * (1 - 1e-9), "%d processors: %g", p,
                  t);
        /* Greedy: no processor rests while a rank has work that can be done,
         * but for the last turn (Graham, 1966). */
        cr_assert(t <= RANKS * each / p + each, "%d processors: %g", p, t);
    }
    cr_assert_float_eq(priced("direct", RANKS, one, 1, 1, 0, 64, &only_work),
                       RANKS * each, 1e-12);
    cr_assert_float_eq(priced("direct", RANKS, two, 2, 4, 0, 64, &only_work),
                       each, 1e-12);
}

/* A processor for each rank is as none. */
Test(crowd, enough_for_all_changes_nothing)
{
    const struct layout_costs costs = {
        .remote = {.alpha = 1e-5, .beta = 1e-9, .overhead = work},
        .gamma = 1e-10,
    };
    static const char *const names[] = {"ring", "recursive_doubling",
                                        "binomial_tree", "halving_doubling"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        cr_assert_float_eq(
            priced(names[i], RANKS, NULL, 0, 0, 0, 4096, &costs),
            priced(names[i], RANKS, one, 1, RANKS, 0, 4096, &costs), 1e-15);
}

/* On one processor there is no gain in rounds: what counts is messages. */
Test(crowd, few_messages_win)
{
    const double rounds =
        priced("recursive_doubling", RANKS, one, 1, 1, 0, 64, &only_work);
    const double messages =
        priced("binomial_tree", RANKS, one, 1, 1, 0, 64, &only_work);
    cr_assert_float_eq(rounds, 3 * RANKS * 2 * work, 1e-12);
    cr_assert_float_eq(messages, 2 * (RANKS - 1) * 2 * work, 1e-12);
}

/* On one processor it delays all others. On a star each rank looks once; where
 * all send to all, they look n (n + 1) / 2 times. */
Test(crowd, who_has_nothing_to_do_looks_in_vain)
{
    const double turn = 7e-6;
    const struct crowd crowd = {1, 1, one, 0, turn};
    for (int n = 3; n <= RANKS; n++) {
        cr_assert_float_eq(
            priced_in(1, "knomial_tree_8", n, &crowd, 64, &only_work),
            4 * (n - 1) * work + n * turn, 1e-12);
        cr_assert_float_eq(priced_in(1, "direct", n, &crowd, 64, &only_work),
                           2 * n * (n - 1) * work + n * (n + 1) / 2 * turn,
                           1e-12);
    }
}

/* Bytes through one machine: all of them at its rate. */
Test(crowd, a_machine_moves_so_much)
{
    const double byte = 1e-9;
    const struct layout_costs costs = {
        .remote = {.beta = byte},
    };
    const size_t bytes = 1 << 20;
    const double sent = 2.0 * (RANKS - 1) * (double)bytes;
    cr_assert_float_eq(
        priced("ring", RANKS, one, 1, RANKS, byte, bytes, &costs), sent * byte,
        1e-9);
    /* Each message takes half of either machine. */
    cr_assert_float_eq(
        priced("ring", RANKS, two, 2, RANKS, byte, bytes, &costs),
        sent * byte / 2, 1e-9);
}

/* What moves bytes does not add meanwhile: where a machine is full, segments
 * hide nothing. */
Test(crowd, a_machine_moves_or_works)
{
    const double byte = 1e-9, gamma = 1e-9;
    const struct layout_costs costs = {.remote = {.beta = byte / 100},
                                       .gamma = gamma};
    const size_t bytes = 1 << 20;
    const double moved = 2.0 * (RANKS - 1) * (double)bytes * byte;
    const double added = (RANKS - 1) * (double)bytes * gamma;
    for (int segments = 1; segments <= 16; segments *= 4)
        for (int p = 1; p <= RANKS; p *= 2) {
            const struct crowd crowd = {1, p, one, byte, 0};
            const double t = priced_in(segments, "ring_segmented", RANKS,
                                       &crowd, bytes, &costs);
            cr_assert(t >= (moved + added / p) * (1 - 1e-9),
                      "%d segments, %d processors: %g", segments, p, t);
            cr_assert(t <= (moved + added / p) * 1.01 + added / 8,
                      "%d segments, %d processors: %g", segments, p, t);
        }
}

/* Two vectors are read and one is written: 3 bytes for each that is added. */
Test(crowd, long_sums_wait_for_the_memory)
{
    enum { SHORT_BYTES = 1 << 20, LONG_BYTES = 1 << 22 };
    const struct layout_costs costs = {
        .gamma = 1e-10, .memory = 2e-10, .cache = SHORT_BYTES};
    struct layout_costs slow_adder = costs;
    slow_adder.gamma = 1e-9;
    const double near =
        priced("recursive_doubling", 2, NULL, 0, 0, 0, SHORT_BYTES, &costs);
    const double far =
        priced("recursive_doubling", 2, NULL, 0, 0, 0, LONG_BYTES, &costs);
    const double adder =
        priced("recursive_doubling", 2, NULL, 0, 0, 0, LONG_BYTES, &slow_adder);
    cr_assert_float_eq(near, SHORT_BYTES * 1e-10, 1e-12);
    cr_assert_float_eq(far, LONG_BYTES * 6e-10, 1e-12);
    cr_assert_float_eq(adder, LONG_BYTES * 1e-9, 1e-12);
}
