/* SPDX-License-Identifier: MIT */
/* Optimisers against values worked out by hand and against their formulas in
 * double. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "optim/optim.h"

static const struct optim_ops *find(const char *name)
{
    char error[256];
    const struct optim_ops *ops = optim_find(name, error, sizeof(error));
    cr_assert_not_null(ops, "%s: %s", name, error);
    return ops;
}

/* Multiples of powers of two, so float is exact: w, m = 1/2, d = 1/4, lr = 1/8.
 * Step 1: v = 0 + (3 + 2/4) = 3.5, w = 2 - 3.5/8 = 1.5625.
 * Step 2: v = 3.5/2 + (-1 + 1.5625/4) = 1.140625, w = 1.419921875. */
Test(optim, sgd_has_momentum_and_decay)
{
    const struct optim_settings s = {0.25, {[OPTIM_MOMENTUM] = 0.5}};
    const struct optim_ops *sgd = find("sgd");
    float w[3] = {2, 0, 99}, v[3] = {0, 0, 99};
    struct optim_part p = {
        w, (const float[]){3, 1},
          {v},
          2, false, NULL
    };
    cr_assert_eq(sgd->nstate, 1);
    sgd->step(&s, 0.125, 1, p);
    cr_assert_eq(v[0], 3.5f);
    cr_assert_eq(w[0], 1.5625f);
    cr_assert_eq(w[1], -0.125f);
    p.g = (const float[]){-1, 0};
    sgd->step(&s, 0.125, 2, p);
    cr_assert_eq(v[0], 1.140625f);
    cr_assert_eq(w[0], 1.419921875f);
    /* v = 1/2 + 1/4 * -1/8, w = -1/8 - 1/8 * v */
    cr_assert_eq(v[1], 0.46875f);
    cr_assert_eq(w[1], -0.18359375f);
    cr_assert(w[2] == 99 && v[2] == 99);
}

/* --- all of them, in double ------------------------------------------------
 */

enum { N = 5 };

struct oracle {
    double w[N], a[N], b[N]; /* a, b: the two arrays of state */
};

static double norm(const double *x)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* What the file of that name says, written once more. */
static void oracle_step(const char *name, const struct optim_settings *s,
                        double lr, int t, const float *gradient, bool vector,
                        struct oracle *o)
{
    const double m = s->numbers[OPTIM_MOMENTUM], b1 = s->numbers[OPTIM_BETA1],
                 b2 = s->numbers[OPTIM_BETA2], eps = s->numbers[OPTIM_EPSILON],
                 d = s->weight_decay;
    double r[N], g[N], exact[N];
    for (int i = 0; i < N; i++) {
        exact[i] = gradient[i];
        g[i] = gradient[i] + d * o->w[i];
    }
    const double trust = s->numbers[OPTIM_TRUST] * norm(o->w)
                         / (norm(exact) + d * norm(o->w) + eps);
    for (int i = 0; i < N; i++) {
        double *w = &o->w[i], *a = &o->a[i], *b = &o->b[i];
        if (!strcmp(name, "sgd")) {
            *a = m * *a + g[i];
            *w -= lr * *a;
        } else if (!strcmp(name, "nesterov")) {
            *a = m * *a + g[i];
            *w -= lr * (g[i] + m * *a);
        } else if (!strcmp(name, "adagrad")) {
            *a += g[i] * g[i];
            *w -= lr * g[i] / (sqrt(*a) + eps);
        } else if (!strcmp(name, "rmsprop")) {
            *a = b2 * *a + (1 - b2) * g[i] * g[i];
            *b = m * *b + g[i] / (sqrt(*a) + eps);
            *w -= lr * *b;
        } else if (!strcmp(name, "adadelta")) {
            *a = b2 * *a + (1 - b2) * g[i] * g[i];
            const double x = g[i] * sqrt(*b + eps) / sqrt(*a + eps);
            *b = b2 * *b + (1 - b2) * x * x;
            *w -= lr * x;
        } else if (!strcmp(name, "lars")) {
            *a = m * *a + (vector ? gradient[i] : trust * g[i]);
            *w -= lr * *a;
        } else { /* adam, adamw, lamb */
            const double h = strcmp(name, "adam") ? gradient[i] : g[i];
            *a = b1 * *a + (1 - b1) * h;
            *b = b2 * *b + (1 - b2) * h * h;
            r[i] = *a / (1 - pow(b1, t)) / (sqrt(*b / (1 - pow(b2, t))) + eps);
            if (!strcmp(name, "adamw"))
                *w *= 1 - lr * d;
            if (!strcmp(name, "lamb"))
                r[i] += vector ? 0 : d * *w;
            else
                *w -= lr * r[i];
        }
    }
    if (!strcmp(name, "lamb")) {
        const double factor = vector ? 1 : norm(o->w) / norm(r);
        for (int i = 0; i < N; i++)
            o->w[i] -= lr * factor * r[i];
    }
}

static void follow(const struct optim_ops *ops, bool vector)
{
    struct optim_settings s = {
        0.01, {NAN, NAN, NAN, NAN, NAN}
    };
    struct oracle o = {
        .w = {1.5, -0.75, 0.25, 2, -1}
    };
    float w[N], a[N] = {0}, b[N] = {0}, g[N];
    char error[256];
    if (!strcmp(ops->name, "rmsprop") || !strcmp(ops->name, "sgd"))
        s.numbers[OPTIM_MOMENTUM] = 0.5;
    cr_assert_eq(optim_complete(ops, &s, error, sizeof(error)), 0, "%s", error);
    for (int i = 0; i < N; i++)
        w[i] = (float)o.w[i];
    for (int t = 1; t <= 100; t++) {
        const double lr = 0.02 / (1 + 0.01 * t);
        for (int i = 0; i < N; i++)
            g[i] = (float)(0.3 * o.w[i] + sin(7 * t + 3 * i));
        double sums[2] = {0};
        const struct optim_part part = {
            w, g, {a, b},
              N, vector, sums
        };
        if (ops->measure)
            ops->measure(&s, t, part);
        ops->step(&s, lr, t, part);
        oracle_step(ops->name, &s, lr, t, g, vector, &o);
        for (int i = 0; i < N; i++) {
            const double off = fabs(w[i] - o.w[i]);
            cr_assert(off <= t * 4 * FLT_EPSILON, "%s, step %d, w[%d]: %g",
                      ops->name, t, i, off);
        }
    }
    cr_assert(fabs(o.w[0] - 1.5) > 1e-4, "%s does not move", ops->name);
}

Test(optim, all_follow_their_formulas)
{
    for (int i = 0; i < noptimisers; i++) {
        follow(optimisers[i], false);
        follow(optimisers[i], true);
    }
}

/* The loss sum h_i (w_i - x_i)^2 / 2, whose minimum is x. Rates fall to 0, as
 * without that steps of one length never end there. */
static double left_of_quadratic(const struct optim_ops *ops, double lr)
{
    enum { STEPS = 3000 };
    static const float h[N] = {1, 0.5f, 2, 0.25f, 1},
                       x[N] = {1, -2, 0.5f, 3, -0.25f};
    struct optim_settings s = {
        0, {NAN, NAN, NAN, NAN, NAN}
    };
    float w[N] = {3, 1, -2, -1, 2}, a[N] = {0}, b[N] = {0}, g[N];
    char error[256];
    cr_assert_eq(optim_complete(ops, &s, error, sizeof(error)), 0, "%s", error);
    for (int t = 1; t <= STEPS; t++) {
        double sums[2] = {0};
        const struct optim_part part = {
            w, g, {a, b},
              N, false, sums
        };
        for (int i = 0; i < N; i++)
            g[i] = h[i] * (w[i] - x[i]);
        if (ops->measure)
            ops->measure(&s, t, part);
        ops->step(&s, lr * (1 - (double)t / (STEPS + 1)), t, part);
    }
    double far = 0;
    for (int i = 0; i < N; i++)
        far = fmax(far, fabs((double)(w[i] - x[i])));
    return far;
}

Test(optim, all_find_the_minimum_of_a_quadratic)
{
    static const struct {
        const char *name;
        double lr;
    } rates[] = {
        {"sgd",      0.1 },
        {"nesterov", 0.1 },
        {"adagrad",  1   },
        {"rmsprop",  0.01},
        {"adadelta", 10  },
        {"adam",     0.1 },
        {"adamw",    0.1 },
        {"lars",     10  },
        {"lamb",     0.1 },
    };
    cr_assert_eq(noptimisers, (int)(sizeof(rates) / sizeof(rates[0])));
    for (int i = 0; i < noptimisers; i++) {
        const double far = left_of_quadratic(find(rates[i].name), rates[i].lr);
        cr_assert(far < 1e-3, "%s: %g away", rates[i].name, far);
    }
}

/* Caffe's form, v = m lr_t / lr_(t-1) v + lr_t g, which is what Goyal et al.
 * (2017, eq. 10) correct momentum to while the rate warms up. */
Test(optim, sgd_is_the_corrected_form_while_the_rate_changes)
{
    const struct optim_settings s = {0, {[OPTIM_MOMENTUM] = 0.9}};
    float w = 1, v = 0;
    double dw = 1, dv = 0, before = 1;
    for (int t = 1; t <= 100; t++) {
        const double lr = 0.001 * t;
        const float g = (float)cos(t);
        find("sgd")->step(&s, lr, t,
                          (struct optim_part){&w, &g, {&v}, 1, false, NULL});
        dv = 0.9 * lr / before * dv + lr * g;
        dw -= dv;
        before = lr;
    }
    cr_assert_float_eq(w, dw, 100 * FLT_EPSILON);
}

Test(optim, numbers_are_checked)
{
    const struct {
        const char *name;
        enum optim_number which;
        double value;
        const char *says;
    } bad[] = {
        {"sgd",     OPTIM_BETA1,    0.5, "--beta1: --optimizer sgd has no"    },
        {"adam",    OPTIM_MOMENTUM, 0.5, "--momentum: --optimizer adam has no"},
        {"sgd",     OPTIM_MOMENTUM, 1,   "--momentum: found 1, valid is"      },
        {"adam",    OPTIM_EPSILON,  0,   "--epsilon: found 0, valid is"       },
        {"lars",    OPTIM_TRUST,    0,   "--trust: found 0, valid is"         },
        {"rmsprop", OPTIM_BETA2,    -1,  "--beta2: found -1, valid is"        },
    };
    char error[256];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct optim_settings s = {
            0, {NAN, NAN, NAN, NAN, NAN}
        };
        s.numbers[bad[i].which] = bad[i].value;
        cr_assert(optim_complete(find(bad[i].name), &s, error, sizeof(error)));
        cr_assert(strstr(error, bad[i].says), "%s", error);
    }
    cr_assert_null(optim_find("adamm", error, sizeof(error)));
    cr_assert(strstr(error, "did you mean adam?"), "%s", error);
}
