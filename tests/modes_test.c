/* SPDX-License-Identifier: MIT */
/* What node/modes.c learns: of times that the tests make up. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/modes.h"

/* One operation that takes cost[mode]; returns the mode. As on a node, what one
 * took is learned once the next one has begun. */
static int operate(struct modes *m, size_t bytes, int likely, unsigned may,
                   const float *cost)
{
    static struct {
        size_t bytes;
        int mode;
        float ticks;
    } last = {.mode = -1};
    const int mode = modes_choose(m, ALLREDUCE, false, bytes, likely, may);
    if (last.mode >= 0)
        modes_learn(m, ALLREDUCE, false, last.bytes, last.mode, last.ticks);
    last.bytes = bytes;
    last.mode = mode;
    last.ticks = cost[mode];
    return mode;
}

/* Of what took a bad one the next operation, which is under way, cannot know.
 */
Test(modes, a_bad_one_is_hardly_tried)
{
    static const float cost[NMODES] = {20, 400, 400, 60};
    static const int want[] = {0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 0, 0, 0, 0, 0};
    struct modes *m = calloc(1, sizeof(*m));
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
        cr_assert_eq(operate(m, 70000, 0, 0xf, cost), want[i], "%zu", i);
    free(m);
}

Test(modes, one_operation_of_long_vectors_tells)
{
    static const float cost[NMODES] = {20, 400, 400, 60};
    static const int want[] = {0, 0, 1, 2, 3, 0, 0};
    struct modes *m = calloc(1, sizeof(*m));
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
        cr_assert_eq(operate(m, 8 << 20, 0, 0xf, cost), want[i], "%zu", i);
    free(m);
}

/* As with vectors that stay in caches which another mode has left to others. */
Test(modes, the_first_operation_after_another_mode_does_not_count)
{
    static const float cost[NMODES] = {60, 60, 50, 80};
    struct modes *m = calloc(1, sizeof(*m));
    int before = -1, best = 0;
    for (int i = 0; i < 1000; i++) {
        float now[NMODES];
        for (int k = 0; k < NMODES; k++)
            now[k] = k == before ? cost[k] : 2.5F * cost[k];
        before = operate(m, 1 << 20, 0, 0xf, now);
        best += before == 2;
    }
    cr_assert_geq(best, 900, "%d of 1000", best);
    free(m);
}

/* Nor do lucky moments of one that is slower on the whole. */
Test(modes, what_takes_less_on_average_is_the_best)
{
    struct modes *m = calloc(1, sizeof(*m));
    unsigned random = 1;
    int best = 0;
    for (int i = 0; i < 4000; i++) {
        random = random * 1664525u + 1013904223u;
        const float lucky = random >> 24 < 26 ? 40 : 64;
        const float cost[NMODES] = {lucky, 90, 52, 53.5F};
        best += operate(m, 1 << 20, 0, 0xf, cost) >= 2;
    }
    cr_assert_geq(best, 3000, "%d of 4000", best);
    free(m);
}

Test(modes, the_likely_one_comes_first_and_the_best_stays)
{
    static const float cost[NMODES] = {400, 300, 50, 500, 350};
    struct modes *m = calloc(1, sizeof(*m));
    int count[NMODES] = {0};
    cr_assert_eq(operate(m, 1 << 20, 1, 0x1f, cost), 1);
    for (int i = 0; i < 100; i++)
        count[operate(m, 1 << 20, 1, 0x1f, cost)]++;
    cr_assert_geq(count[2], 80, "%d", count[2]);
    for (int i = 0; i < NMODES; i++)
        cr_assert_geq(count[i] + (i == 1), 1, "mode %d was never tried", i);
    free(m);
}

Test(modes, what_cannot_be_is_never_chosen)
{
    static const float cost[NMODES] = {100, 1, 50, 1};
    struct modes *m = calloc(1, sizeof(*m));
    for (int i = 0; i < 600; i++) {
        const int mode = operate(m, 5000, 0, 1u << 0 | 1u << 2, cost);
        cr_assert(mode == 0 || mode == 2, "%d", mode);
    }
    free(m);
}

Test(modes, a_mode_that_turns_slow_is_left)
{
    float cost[NMODES] = {20, 400, 400, 60};
    struct modes *m = calloc(1, sizeof(*m));
    int mode = -1;
    for (int i = 0; i < 20; i++)
        mode = operate(m, 70000, 0, 0xf, cost);
    cr_assert_eq(mode, 0);
    cost[0] = 600;
    int left = 0;
    for (int i = 0; i < 200; i++)
        left += operate(m, 70000, 0, 0xf, cost) == 3;
    cr_assert_geq(left, 100, "%d of 200", left);
    free(m);
}

Test(modes, sizes_and_kinds_are_learned_apart)
{
    static const float small[NMODES] = {5, 80, 80, 80};
    static const float large[NMODES] = {80, 80, 80, 5};
    struct modes *m = calloc(1, sizeof(*m));
    for (int i = 0; i < 20; i++) {
        operate(m, 4096, 1, 0xf, small);
        operate(m, 1 << 22, 1, 0xf, large);
    }
    cr_assert_eq(modes_choose(m, ALLREDUCE, false, 4096, 1, 0xf), 0);
    cr_assert_eq(modes_choose(m, ALLREDUCE, false, 1 << 22, 1, 0xf), 3);
    cr_assert_eq(modes_choose(m, BROADCAST, false, 4096, 1, 0xf), 1);
    cr_assert_eq(modes_choose(m, ALLREDUCE, true, 4096, 2, 0xf), 2);
    free(m);
}

/* More than a mode is said to take, or less. */
Test(modes, the_clock_is_read)
{
    for (int i = 0; i < 2; i++) {
        struct modes *m = calloc(1, sizeof(*m));
        for (int k = 0; k < 20; k++) {
            const int mode = modes_choose(m, ALLREDUCE, false, 8 << 20, 0, 3);
            modes_start(m);
            usleep(1);
            modes_learn(m, ALLREDUCE, false, 8 << 20, mode,
                        mode == 0 ? modes_ticks(m)
                        : i       ? 0
                                  : 1e30F);
        }
        cr_assert_eq(modes_choose(m, ALLREDUCE, false, 8 << 20, 0, 3), i);
        free(m);
    }
}
