/* SPDX-License-Identifier: MIT */
/* Learning-rate schedules against values worked out by hand. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "optim/optim.h"

Test(schedule, fixed_stays)
{
    const struct schedule_settings s = {.name = "fixed", .lr = 0.05};
    cr_assert_null(schedule_check(&s));
    cr_assert_eq(schedule_lr(&s, 0), 0.05);
    cr_assert_eq(schedule_lr(&s, 1000000), 0.05);
}

Test(schedule, step_multiplies_every_so_many)
{
    const struct schedule_settings s = {
        .name = "step", .lr = 8, .gamma = 0.5, .every = 10};
    const double want[] = {8, 8, 4, 4, 2, 2};
    const long at[] = {0, 9, 10, 19, 20, 29};
    cr_assert_null(schedule_check(&s));
    for (int i = 0; i < 6; i++)
        cr_assert_eq(schedule_lr(&s, at[i]), want[i], "step %ld", at[i]);
}

Test(schedule, cosine_falls_to_zero)
{
    const struct schedule_settings s = {
        .name = "cosine", .lr = 2, .total = 100, .warmup = 20};
    cr_assert_null(schedule_check(&s));
    cr_assert_eq(schedule_lr(&s, 20), 2);
    cr_assert_float_eq(schedule_lr(&s, 60), 1, 1e-12);
    cr_assert_float_eq(schedule_lr(&s, 40), 1 + sqrt(0.5), 1e-12);
    cr_assert_eq(schedule_lr(&s, 100), 0);
    cr_assert_eq(schedule_lr(&s, 101), 0);
    for (long i = 21; i <= 100; i++)
        cr_assert_lt(schedule_lr(&s, i), schedule_lr(&s, i - 1));
}

/* Caffe's formulas. */
Test(schedule, the_others_follow_their_formulas)
{
    const struct {
        struct schedule_settings s;
        double first, at_50, at_99; /* of 100 steps */
    } want[] = {
        {{.name = "multistep",
          .gamma = 0.5,
          .nmilestones = 2,
          .milestones = {50, 99}},
         8,                    4,
         2                                                                                  },
        {{.name = "exp", .gamma = 0.99},
         8,                    8 * pow(0.99,                                50),
         8 * pow(0.99, 99)},
        {{.name = "inv", .gamma = 0.02, .power = 2},                              8,               2,                 8 / (2.98 * 2.98)  },
        {{.name = "poly", .power = 2},                8, 2, 8 * 0.01 * 0.01},
        {{.name = "sigmoid", .gamma = 0.1, .every = 50},
         8 / (1 + exp(-5)),
         4, 8 / (1 + exp(4.9))                                                                  },
    };
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        struct schedule_settings s = want[i].s;
        s.lr = 8;
        s.total = 100;
        cr_assert_null(schedule_check(&s), "%s", s.name);
        const double got[] = {schedule_lr(&s, 0), schedule_lr(&s, 50),
                              schedule_lr(&s, 99)};
        cr_assert_float_eq(got[0], want[i].first, 1e-12, "%s", s.name);
        cr_assert_float_eq(got[1], want[i].at_50, 1e-12, "%s", s.name);
        cr_assert_float_eq(got[2], want[i].at_99, 1e-12, "%s", s.name);
    }
}

/* The same by other ways to compute them: step by step, or of other functions.
 */
static double otherwise(const char *name, double before, int t)
{
    const double x = t / 100.0;
    if (!strcmp(name, "step"))
        return t && t % 7 == 0 ? before * 0.5 : before;
    if (!strcmp(name, "multistep"))
        return t == 30 || t == 70 ? before * 0.5 : before;
    if (!strcmp(name, "exp"))
        return t ? before * 0.5 : before;
    if (!strcmp(name, "inv"))
        return 8 * exp(-3 * log1p(0.5 * t));
    if (!strcmp(name, "poly"))
        return 8 * (1 - x) * (1 - x) * (1 - x);
    if (!strcmp(name, "sigmoid"))
        return 4 * (1 - tanh(0.25 * (t - 7)));
    if (!strcmp(name, "cosine"))
        return 8 * cos(acos(-1) * x / 2) * cos(acos(-1) * x / 2);
    return 8;
}

Test(schedule, all_follow_their_formulas_for_100_steps)
{
    static const char *const names[] = {"fixed", "step", "multistep", "exp",
                                        "inv",   "poly", "sigmoid",   "cosine"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct schedule_settings s = {
            .name = names[i],
            .lr = 8,
            .gamma = 0.5,
            .power = 3,
            .every = 7,
            .nmilestones = 2,
            .milestones = {30, 70},
            .total = 100,
        };
        double want = 8;
        for (int t = 0; t < 100; t++) {
            want = otherwise(names[i], want, t);
            cr_assert_float_eq(schedule_lr(&s, t), want, 1e-12, "%s, step %d",
                               names[i], t);
        }
    }
}

/* From 0, and from lr / 16, as for one of 16 ranks. */
Test(schedule, warm_up_goes_in_a_line_to_each_for_100_steps)
{
    static const char *const names[] = {"fixed", "step", "multistep", "exp",
                                        "inv",   "poly", "sigmoid"};
    for (size_t i = 0; i < 2 * sizeof(names) / sizeof(names[0]); i++) {
        struct schedule_settings s = {.name = names[i / 2],
                                      .lr = 8,
                                      .gamma = 0.9,
                                      .power = 2,
                                      .every = 30,
                                      .nmilestones = 1,
                                      .milestones = {50},
                                      .total = 200};
        for (long t = 0; t < 100; t++) {
            s.from = 0;
            s.warmup = 0;
            const double plain = schedule_lr(&s, t), x = (double)t / 64;
            s.from = i % 2 ? s.lr / 16 : 0;
            s.warmup = 64;
            cr_assert_float_eq(schedule_lr(&s, t),
                               t < 64 ? (1 - x) * s.from + x * plain : plain,
                               1e-12, "%s, from %g, step %ld", s.name, s.from,
                               t);
        }
    }
}

/* Which begins where warm-up ends. */
Test(schedule, warm_up_goes_in_a_line_to_the_cosine_for_100_steps)
{
    const struct schedule_settings s = {
        .name = "cosine", .lr = 8, .from = 0.5, .warmup = 50, .total = 100};
    for (long t = 0; t < 100; t++) {
        const double x = (double)(t - 50) / 50,
                     want = t < 50 ? 0.5 + 7.5 * (double)t / 50
                                   : 4 * (1 + cos(acos(-1) * x));
        cr_assert_float_eq(schedule_lr(&s, t), want, 1e-12, "step %ld", t);
    }
}

Test(schedule, milestones_are_rising_steps)
{
    struct schedule_settings s = {0};
    cr_assert_null(schedule_milestones(&s, "10,20,300"));
    cr_assert(s.nmilestones == 3 && s.milestones[2] == 300);
    const char *const bad[] = {"",      "10,", "a",   "10;20",
                               "20,10", "0",   "5,5", "99999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_not_null(schedule_milestones(&s, bad[i]), "%s", bad[i]);
}

Test(schedule, check_says_what_is_wrong)
{
    /* clang-format off */
    const struct {
        struct schedule_settings s;
        const char *says;
    } bad[] = {
        {{.name = "cosin", .lr = 1}, "\"cosine\""},
        {{.name = "stpe", .lr = 1}, "\"step\""},
        {{.name = "zzzzzzzzzz", .lr = 1}, "fixed step multistep exp inv poly sigmoid cosine"},
        {{.name = NULL, .lr = 1}, "fixed step multistep exp inv poly sigmoid cosine"},
        {{.name = "fixed", .lr = 0}, "learning rate"},
        {{.name = "fixed", .lr = NAN}, "learning rate"},
        {{.name = "fixed", .lr = INFINITY}, "learning rate"},
        {{.name = "fixed", .lr = 1, .warmup = -1}, "warm-up"},
        {{.name = "step", .lr = 1, .gamma = 1}, "every"},
        {{.name = "step", .lr = 1, .every = 5}, "gamma"},
        {{.name = "multistep", .lr = 1, .gamma = 1}, "--milestones"},
        {{.name = "exp", .lr = 1, .gamma = 2}, "gamma"},
        {{.name = "inv", .lr = 1, .gamma = 1}, "power"},
        {{.name = "poly", .lr = 1, .total = 9}, "power"},
        {{.name = "sigmoid", .lr = 1, .gamma = 1}, "--every"},
        {{.name = "cosine", .lr = 1}, "total"},
        {{.name = "cosine", .lr = 1, .total = 5, .warmup = 5}, "total"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *why = schedule_check(&bad[i].s);
        cr_assert_not_null(why, "case %zu", i);
        cr_assert_not_null(strstr(why, bad[i].says), "case %zu: %s", i, why);
    }
}
