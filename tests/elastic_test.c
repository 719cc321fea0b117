/* SPDX-License-Identifier: MIT */
/* The rules of elastic averaging by themselves: one number a worker. */
#include <assert.h>
#include <criterion/criterion.h>

#include "dist/elastic.h"
#include "dist/server_rules.h"
#include "easgd_oracle.h"
#include "random.h"
#include "stability.h"

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

/* --- Other ways: momentum, and one worker after the other ----------------- */

/* What moves: the centre, and each worker's weight and velocity. */
enum { SIZE = 1 + 2 * ORACLE_WORKERS };
static_assert((int)SIZE <= (int)STABILITY_SIZE, "a round has a matrix");

struct way {
    double eta, alpha, momentum;
    int workers;
    bool in_turn; /* (2'), each worker meets the centre alone; else (2) */
};

/* A round in double: each worker does (5), (6) once, with the loss w^2 / 2. */
static void round_in_double(const void *way, double *x)
{
    const struct way *k = way;
    const double old = x[0];
    for (int i = 0; i < k->workers; i++) {
        double *w = x + 1 + 2 * i, *v = w + 1;
        const double force = k->alpha * (*w - (k->in_turn ? x[0] : old));
        *v = k->momentum * *v - k->eta * *w;
        *w += *v - force;
        x[0] += force;
    }
}

/* And by the rules that ranks go by. */
static void round_by_rules(const struct way *k, float *x)
{
    const float eta = (float)k->eta, alpha = (float)k->alpha, old = x[0];
    const struct server_state server = {
        .centre = x, .count = 1, .alpha = alpha};
    float sum = 0;
    for (int i = 0; i < k->workers; i++)
        sum += x[1 + 2 * i];
    if (!k->in_turn)
        elastic_centre(x, &sum, alpha, k->workers, 1);
    for (int i = 0; i < k->workers; i++) {
        float *w = x + 1 + 2 * i, *v = w + 1, centre = old, distance;
        if (k->in_turn)
            rule_elastic(&server, w, &centre);
        elastic_distance(&distance, w, &centre, 1);
        *v = (float)k->momentum * *v - eta * *w;
        *w += *v;
        elastic_pull(w, &distance, alpha, 1);
    }
}

static double round_radius(const struct way *k)
{
    return stability_radius(1 + 2 * k->workers, round_in_double, k);
}

static double far_after(const struct way *k, int rounds)
{
    const int n = 1 + 2 * k->workers;
    float x[SIZE] = {1};
    double far = 1;
    for (int i = 0; i < k->workers; i++)
        x[1 + 2 * i] = 2 + (float)i;
    for (int t = 0; t < rounds && far > 1e-12 && far < 1e6; t++) {
        round_by_rules(k, x);
        far = 0;
        for (int i = 0; i < n; i++)
            far = fmax(far, fabs((double)x[i]));
    }
    return far;
}

static struct way chosen(uint64_t seed, bool momentum, bool in_turn)
{
    const double m = momentum ? between(seed, 3, 0, 0.95) : 0;
    return (struct way){
        between(seed, 0, 0, 3 * (1 + m)), between(seed, 1, 0, 1.2), m,
        1 + (int)random_below(seed, 2, ORACLE_WORKERS), in_turn};
}

static void converges_as_the_radius_says(bool momentum, bool in_turn)
{
    int stable = 0, unstable = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        const struct way k = chosen(seed, momentum, in_turn);
        const double radius = round_radius(&k);
        if (fabs(radius - 1) < 0.01) /* 3000 rounds do not tell */
            continue;
        const double far = far_after(&k, 3000);
        cr_assert(radius < 1 ? far < 1e-6 : far >= 1e6,
                  "eta %g, alpha %g, momentum %g, %d workers: radius %g, but "
                  "%g away",
                  k.eta, k.alpha, k.momentum, k.workers, radius, far);
        stable += radius < 1;
        unstable += radius > 1;
    }
    cr_assert(stable > 20 && unstable > 20, "%d, %d", stable, unstable);
}

Test(elastic, round_robin_converges_where_its_round_does)
{
    converges_as_the_radius_says(false, true);
    converges_as_the_radius_says(true, true);
}

Test(elastic, with_momentum_it_converges_where_its_step_does)
{
    converges_as_the_radius_says(true, false);
}

Test(elastic, a_round_has_the_radius_of_the_closed_form)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        const struct way k = chosen(seed, false, false);
        const double right = oracle_radius(k.eta, k.alpha, k.workers);
        cr_assert_float_eq(round_radius(&k), right, 1e-4 * (1 + right),
                           "eta %g, alpha %g, %d workers: %g, not %g", k.eta,
                           k.alpha, k.workers, round_radius(&k), right);
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
