/* SPDX-License-Identifier: MIT */
/* Whether a linear iteration converges: by the spectral radius of its matrix.
 */
#ifndef TESTS_STABILITY_H
#define TESTS_STABILITY_H

#include <assert.h>
#include <math.h>

enum { STABILITY_SIZE = 32 };

/* One round of the iteration, of x[n] in place. */
typedef void stability_round(const void *context, double *x);

/* Squares a matrix, and divides it by its largest number, which it returns. */
static inline double stability_square(double m[STABILITY_SIZE][STABILITY_SIZE],
                                      int n)
{
    double product[STABILITY_SIZE][STABILITY_SIZE], most = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            product[i][j] = 0;
            for (int l = 0; l < n; l++)
                product[i][j] += m[i][l] * m[l][j];
            most = fmax(most, fabs(product[i][j]));
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            m[i][j] = most > 0 ? product[i][j] / most : 0;
    return most;
}

/* The spectral radius of a round's matrix M: |M^k|^(1/k) for k = 2^20. */
static inline double stability_radius(int n, stability_round *round,
                                      const void *context)
{
    double m[STABILITY_SIZE][STABILITY_SIZE], log_most = 0, power = 1;
    assert(n <= STABILITY_SIZE);
    for (int j = 0; j < n; j++) {
        double x[STABILITY_SIZE] = {0};
        x[j] = 1;
        round(context, x);
        for (int i = 0; i < n; i++)
            m[i][j] = x[i];
    }
    for (int i = 0; i < 20; i++) {
        power /= 2;
        log_most += power * log(stability_square(m, n));
    }
    return exp(log_most);
}

#endif
