/* SPDX-License-Identifier: MIT */
/* Elastic averaging in double, of one number that P workers and a centre have,
 * each worker with the loss h (w - x)^2 / 2 of its own x. */
#ifndef TESTS_EASGD_ORACLE_H
#define TESTS_EASGD_ORACLE_H

#include <math.h>
#include <stdbool.h>

enum { ORACLE_WORKERS = 8 };

struct oracle {
    int workers;
    double w[ORACLE_WORKERS], v[ORACLE_WORKERS], x[ORACLE_WORKERS], c, h;
};

/* (1) and (2) of You, Buluc and Demmel (2017), or with momentum (5), (6) and
 * (2); their eta rho is alpha. Without exchange workers move by themselves. */
static inline void oracle_step(struct oracle *o, double eta, double momentum,
                               double alpha, bool exchange)
{
    double pull = 0;
    for (int i = 0; i < o->workers; i++) {
        const double e = exchange ? o->w[i] - o->c : 0;
        const double g = o->h * (o->w[i] - o->x[i]);
        o->v[i] = momentum * o->v[i] - eta * g;
        o->w[i] += o->v[i] - alpha * e;
        pull += e;
    }
    o->c += alpha * pull;
}

/* Whether (1) and (2) converge, with b = P alpha: the workers' differences
 * shrink by |1 - eta h - alpha|; their mean and the centre by the matrix [1 -
 * eta h - alpha, alpha; b, 1 - b], for which this is its larger |eigenvalue|.
 */
static inline double oracle_radius(double eta_h, double alpha, int workers)
{
    const double b = workers * alpha, a = 1 - eta_h - alpha,
                 half = (a + 1 - b) / 2, det = a * (1 - b) - alpha * b,
                 root = half * half - det;
    const double pair =
        root < 0 ? sqrt(det)
                 : fmax(fabs(half + sqrt(root)), fabs(half - sqrt(root)));
    return workers > 1 ? fmax(pair, fabs(a)) : pair;
}

#endif
