/* SPDX-License-Identifier: MIT */
/* What comm/learn.c takes for noise, and what for a change of the world. */
#include <criterion/criterion.h>
#include <math.h>

#include "learn_world.h"
#include "thorough.h"

/* n candidates of 12 to 17 us, the first of 10 us. */
static struct world near_world(int n, int seed)
{
    struct world w = world(n, seed);
    for (int i = 0; i < n; i++) {
        w.seconds[i] = i ? 1e-5 * (1.2 + 0.5 * draw(&w.state)) : 1e-5;
        w.predicted[i] = w.seconds[i] * pow(1.25, 2 * draw(&w.state) - 1);
    }
    return w;
}

static void slow_down(double factor)
{
    int left[5 * SEEDS], back[5 * SEEDS], n = 0;
    for (int seed = 0; seed < SEEDS; seed++)
        for (int k = 2; k <= 22; k += 5) {
            struct world w = near_world(k, seed);
            start(&w);
            for (int i = 0; i < 1000; i++)
                operate(&w);
            cr_assert_eq(learn_best(&w.learn), 0, "seed %d", seed);
            w.seconds[0] *= factor;
            left[n] = until_best(&w, false, 0, 9999);
            for (int i = 0; i < 3000; i++)
                operate(&w);
            w.seconds[0] /= factor;
            back[n++] = until_best(&w, true, 0, 9999);
        }
    cr_log_info("x %g:", factor);
    show("left", left, n);
    show("taken back", back, n);
    cr_expect_leq(left[n - 1], 25);
    cr_expect_leq(back[n - 1], 2000);
}

Test(learn, a_candidate_that_gets_slow_is_left_and_taken_back)
{
    slow_down(2);
    if (thorough())
        slow_down(10);
}

/* The others are 5 to 10 % behind the first, which gets 1.3 times as slow: less
 * than what starts all again. */
Test(learn, one_that_gets_somewhat_slow_is_left)
{
    for (int n = 2; n <= 22; n += 10) {
        int left[SEEDS];
        for (int seed = 0; seed < SEEDS; seed++) {
            struct world w = world(n, seed);
            for (int i = 0; i < n; i++)
                w.seconds[i] = w.predicted[i] =
                    i ? 1e-5 * (1.05 + 0.05 * draw(&w.state)) : 1e-5;
            start(&w);
            for (int i = 0; i < 1000; i++)
                operate(&w);
            cr_assert_eq(learn_best(&w.learn), 0, "seed %d", seed);
            w.seconds[0] *= 1.3;
            left[seed] = until_best(&w, false, 0, 9999);
        }
        cr_log_info("x 1.3, %d candidates:", n);
        show("left", left, SEEDS);
        cr_expect_leq(left[SEEDS - 1], 125, "%d", left[SEEDS - 1]);
    }
}

/* All of 32 candidates are alike until a link that they share gets slow: then 5
 * take 13.8 ms, 5 take 1.5 times and the others 2 to 4 times as long, as in
 * tests/netlab/claims_test.py. The best so far is one of the second kind, so
 * there is not much to gain. Returns the operations until one of the first is
 * held for best. */
static int until_good_again(int seed, double noise_before, double noise)
{
    struct world w = world(32, seed);
    w.noise = noise_before;
    for (int i = 0; i < w.n; i++) {
        w.seconds[i] = 4.7e-3;
        w.predicted[i] = w.seconds[i] * (1 + 0.001 * i);
    }
    start(&w);
    for (int i = 0; i < 200; i++)
        operate(&w);
    const int best = learn_best(&w.learn);
    w.noise = noise;
    w.backlog = 0.5;
    for (int i = 0; i < w.n; i++) {
        const int k = (i - best + w.n) % w.n * 13 % w.n;
        w.seconds[i] = k < 5    ? 20.7e-3
                       : k < 10 ? 13.8e-3
                                : 13.8e-3 * (2 + 2 * draw(&w.state));
    }
    int calls = 0;
    for (; calls < 1000; calls++) {
        if (w.seconds[learn_best(&w.learn)] < 1.25 * 13.8e-3)
            break;
        operate(&w);
    }
    return calls;
}

Test(learn, a_link_that_gets_slow_is_noticed_within_100_calls)
{
    for (int noisy = 0; noisy < 3; noisy++) {
        int took[SEEDS];
        for (int seed = 0; seed < SEEDS; seed++)
            took[seed] = until_good_again(seed, noisy ? 0.3 : 0.05,
                                          noisy > 1 ? 0.1 : 0.02);
        show("calls", took, SEEDS);
        cr_expect_leq(took[SEEDS - 1], 100, "%d", took[SEEDS - 1]);
    }
}

/* How often the choice among equals changes in 10,000 operations. */
static int switches(int n, int seed, double spikes, int *restarts)
{
    struct world w = world(n, seed);
    w.spikes = spikes;
    for (int i = 0; i < n; i++) {
        w.seconds[i] = 1e-5;
        w.predicted[i] = 1e-5 * (1 + 0.3 * i / n);
    }
    start(&w);
    const int64_t young_until = w.learn.young_until;
    int best = 0, changes = 0;
    for (int i = 0; i < 10000; i++) {
        operate(&w);
        changes += learn_best(&w.learn) != best;
        best = learn_best(&w.learn);
    }
    *restarts += w.learn.young_until != young_until;
    return changes;
}

static void equals(double spikes, int most)
{
    const int seeds = (int)cases(500, SEEDS / 3);
    int uniform = 0, gaussian = 0, restarts = 0;
    for (int seed = 0; seed < seeds; seed++)
        for (int n = 2; n <= 22; n += 10)
            *(seed % 2 ? &gaussian : &uniform) +=
                switches(n, seed, spikes, &restarts);
    cr_log_info(
        "%d runs of 10,000 operations, %g spikes: %d switches (+-5 %%), "
        "%d (sigma 5 %%), %d restarts",
        3 * seeds, spikes, uniform, gaussian, restarts);
    cr_expect_leq(uniform + gaussian, most);
    cr_expect_leq(restarts, 3 * most);
}

Test(learn, noise_changes_nothing_among_equals)
{
    equals(0, 0);
}

/* Five in a row are a change for all that can be known: once in 300 runs. */
Test(learn, nor_do_spikes)
{
    equals(0.05, (int)cases(5, 1));
}

/* A burst that is no change: four in a row. */
Test(learn, four_samples_in_a_row_are_no_change_and_five_are)
{
    struct world w = near_world(6, 0);
    start(&w);
    for (int i = 0; i < 1000; i++)
        operate(&w);
    for (int length = 4; length <= 5; length++) {
        const int64_t young_until = w.learn.young_until;
        for (int i = 0; i < 50; i++)
            learn_observe(&w.learn, 0, log_time(1e-5));
        for (int i = 0; i < length; i++)
            learn_observe(&w.learn, 0, log_time(3e-5));
        cr_expect_eq(w.learn.young_until != young_until, length == 5);
    }
}

/* The challenger's samples vary by 30 % about the same time, those of the best
 * by 2 %: it may win, now and then, but not back and forth. */
Test(learn, a_noisy_challenger_does_not_make_the_choice_flutter)
{
    int changes[SEEDS];
    for (int seed = 0; seed < SEEDS; seed++) {
        struct world w = world(2, seed);
        w.predicted[0] = w.predicted[1] = w.seconds[0] = w.seconds[1] = 1e-5;
        start(&w);
        changes[seed] = 0;
        for (int i = 0; i < 10000; i++) {
            const int best = learn_best(&w.learn);
            const int candidate = learn_choose(&w.learn);
            w.noise = candidate ? 0.3 : 0.02;
            learn_observe(&w.learn, candidate, log_time(sample(&w, candidate)));
            changes[seed] += learn_best(&w.learn) != best;
        }
    }
    show("changes in 10,000 operations", changes, SEEDS);
    cr_expect_leq(changes[SEEDS - 1], 8);
}

/* All are slower by the same: nothing that was known of the others holds. */
Test(learn, when_all_get_slow_the_bad_are_not_tried_again_and_again)
{
    int bad = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
        struct world w = world(9, seed);
        for (int i = 0; i < 9; i++)
            w.predicted[i] = w.seconds[i] = i ? 4e-5 : 1e-5;
        start(&w);
        for (int i = 0; i < 1000; i++)
            operate(&w);
        for (int i = 0; i < 9; i++)
            w.seconds[i] *= 10;
        for (int i = 0; i < 100; i++)
            bad += operate(&w) != 0;
        cr_expect_eq(learn_best(&w.learn), 0);
    }
    cr_log_info("%.1f trials of 8 bad ones", (double)bad / SEEDS);
    cr_expect_leq(bad, 12 * SEEDS);
}

/* As with a network that saves up what is not used: faster than the best by 20
 * % when tried, and slower by 60 % when held. Who was found out is not taken
 * again for long. */
Test(learn, who_is_fast_only_when_tried_is_seldom_held)
{
    int held[SEEDS];
    for (int seed = 0; seed < SEEDS; seed++) {
        struct world w = near_world(6, seed);
        w.greedy = 1;
        w.seconds[1] = 0.8 * w.seconds[0];
        start(&w);
        held[seed] = 0;
        for (int i = 0; i < 10000; i++) {
            operate(&w);
            held[seed] += learn_best(&w.learn) == 1;
        }
    }
    show("held", held, SEEDS);
    cr_expect_leq(held[SEEDS / 2], 150, "%d", held[SEEDS / 2]);
    cr_expect_leq(held[SEEDS - 1], 250, "%d", held[SEEDS - 1]);
}
