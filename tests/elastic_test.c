/* SPDX-License-Identifier: MIT */
/* The rules of elastic averaging by themselves: one number a worker. */
#include <criterion/criterion.h>

#include "dist/elastic.h"
#include "easgd_oracle.h"
#include "random.h"

static double between(uint64_t seed, uint64_t i, double low, double high)
{
    return low + (high - low) * (double)random_unit(seed, i);
}

struct trial {
    double eta, alpha;
    int workers;
};

static struct trial trial(uint64_t seed)
{
    return (struct trial){between(seed, 0, 0, 3), between(seed, 1, 0, 1.2),
                          1 + (int)random_below(seed, 2, ORACLE_WORKERS)};
}

/* Steps of workers with the loss w^2 / 2, all from other weights. Returns how
 * far the farthest is from 0. */
static double run_rules(struct trial k, int steps)
{
    float w[ORACLE_WORKERS], c = 1;
    double far = fabs((double)c);
    for (int i = 0; i < k.workers; i++)
        w[i] = 1 + (float)i;
    for (int t = 0; t < steps && far < 1e6; t++) {
        float sum = 0, before = c;
        for (int i = 0; i < k.workers; i++)
            sum += w[i];
        elastic_centre(&c, &sum, (float)k.alpha, k.workers, 1);
        far = fabs((double)c);
        for (int i = 0; i < k.workers; i++) {
            float e;
            elastic_distance(&e, &w[i], &before, 1);
            w[i] -= (float)k.eta * w[i];
            elastic_pull(&w[i], &e, (float)k.alpha, 1);
            far = fmax(far, fabs((double)w[i]));
        }
    }
    return far;
}

/* A sign, a sum over the workers that is forgotten, or a value of after the
 * step in place of one before would move the border. */
Test(elastic, converges_where_the_spectral_radius_says)
{
    int stable = 0, unstable = 0;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        const struct trial k = trial(seed);
        const double radius = oracle_radius(k.eta, k.alpha, k.workers);
        if (fabs(radius - 1) < 0.005) /* 10^4 steps do not tell */
            continue;
        const double far = run_rules(k, 10000);
        cr_assert(radius < 1 ? far < 1e-6 : far >= 1e6,
                  "eta %g, alpha %g, %d workers: radius %g, but %g away", k.eta,
                  k.alpha, k.workers, radius, far);
        stable += radius < 1;
        unstable += radius > 1;
    }
    cr_assert(stable > 300 && unstable > 300, "%d, %d", stable, unstable);
}

Test(elastic, the_oracle_itself_is_stable_there_too)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        const struct trial k = trial(seed);
        const double radius = oracle_radius(k.eta, k.alpha, k.workers);
        struct oracle o = {.workers = k.workers, .c = 1, .h = 1};
        double far = 0;
        for (int i = 0; i < k.workers; i++)
            o.w[i] = 1 + i;
        for (int t = 0; t < 10000 && far < 1e6; t++) {
            oracle_step(&o, k.eta, 0, k.alpha, true);
            far = fabs(o.c);
            for (int i = 0; i < k.workers; i++)
                far = fmax(far, fabs(o.w[i]));
        }
        if (fabs(radius - 1) >= 0.005)
            cr_assert(radius < 1 ? far < 1e-6 : far >= 1e6, "seed %d",
                      (int)seed);
    }
}

Test(elastic, meets_as_its_parts_do)
{
    enum { N = 100 };
    float c[N], s[N], w[N], c2[N], e[N];
    for (int i = 0; i < N; i++) {
        c[i] = c2[i] = random_unit(1, (uint64_t)i);
        s[i] = 3 * random_unit(2, (uint64_t)i);
        w[i] = random_unit(3, (uint64_t)i);
    }
    elastic_distance(e, w, c2, N);
    elastic_centre(c2, s, 0.3f, 3, N);
    elastic_meet(c, s, w, 0.3f, 3, N);
    for (int i = 0; i < N; i++) {
        cr_assert_float_eq(c[i], c2[i], 1e-6);
        cr_assert_eq(s[i], e[i]);
    }
}
