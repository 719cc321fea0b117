/* SPDX-License-Identifier: MIT */
/* Optimisers and schedules against values worked out by hand. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "optim/optim.h"

/* Multiples of powers of two, so float is exact: w, m = 1/2, d = 1/4, lr = 1/8.
 * Step 1: v = 0 + (3 + 2/4) = 3.5, w = 2 - 3.5/8 = 1.5625.
 * Step 2: v = 3.5/2 + (-1 + 1.5625/4) = 1.140625, w = 1.419921875. */
Test(sgd, follows_momentum_and_decay)
{
    const struct optim_settings s = {0.125, 0.5, 0.25};
    const struct optim_ops *sgd = optim_find("sgd");
    float w[3] = {2, 0, 99}, v[3] = {0, 0, 99};
    cr_assert_not_null(sgd);
    cr_assert_eq(sgd->nstate, 1);
    sgd->step(&s, 0.125, w, (const float[]){3, 1}, v, 2);
    cr_assert_eq(v[0], 3.5f);
    cr_assert_eq(w[0], 1.5625f);
    cr_assert_eq(w[1], -0.125f);
    sgd->step(&s, 0.125, w, (const float[]){-1, 0}, v, 2);
    cr_assert_eq(v[0], 1.140625f);
    cr_assert_eq(w[0], 1.419921875f);
    /* v = 1/2 + 1/4 * -1/8, w = -1/8 - 1/8 * v */
    cr_assert_eq(v[1], 0.46875f);
    cr_assert_eq(w[1], -0.18359375f);
    cr_assert(w[2] == 99 && v[2] == 99);
}

Test(sgd, uses_the_rate_of_the_step_and_not_of_the_settings)
{
    const struct optim_settings s = {100, 0, 0};
    float w = 1, v = 77;
    optim_find("sgd")->step(&s, 0.5, &w, &(const float){1}, &v, 1);
    cr_assert_eq(v, 1);
    cr_assert_eq(w, 0.5f);
}

Test(sgd, stays_near_the_recurrence_in_double)
{
    const struct optim_settings s = {0.01, 0.9, 5e-4};
    const int nsteps = 200;
    float w = 1.5f, v = 0;
    double dw = 1.5, dv = 0;
    for (int i = 0; i < nsteps; i++) {
        const float g = (float)sin(i);
        optim_find("sgd")->step(&s, 0.01, &w, &g, &v, 1);
        dv = 0.9 * dv + (g + 5e-4 * dw);
        dw -= 0.01 * dv;
    }
    /* Each step rounds w once, half an eps of at most 2, and v a few times. */
    cr_assert_float_eq(w, dw, nsteps * FLT_EPSILON * 4);
    cr_assert_null(optim_find("sdg"));
}

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

Test(schedule, warm_up_is_linear_for_every_schedule)
{
    const char *const names[] = {"fixed", "step", "cosine"};
    for (int i = 0; i < 3; i++) {
        const struct schedule_settings s = {
            names[i], 4, 0.5, .every = 1000, .warmup = 8, .total = 1000};
        for (long j = 0; j <= 8; j++)
            cr_assert_eq(schedule_lr(&s, j), 4.0 * (double)j / 8, "%s, %ld",
                         names[i], j);
    }
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
        {{.name = "zzzzzzzzzz", .lr = 1}, "fixed step cosine"},
        {{.name = NULL, .lr = 1}, "fixed step cosine"},
        {{.name = "fixed", .lr = 0}, "learning rate"},
        {{.name = "fixed", .lr = NAN}, "learning rate"},
        {{.name = "fixed", .lr = INFINITY}, "learning rate"},
        {{.name = "fixed", .lr = 1, .warmup = -1}, "warm-up"},
        {{.name = "step", .lr = 1, .gamma = 1}, "every"},
        {{.name = "step", .lr = 1, .every = 5}, "gamma"},
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
