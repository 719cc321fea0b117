/* SPDX-License-Identifier: MIT */
/* The rules of elastic averaging, over n floats each. w are the weights of a
 * worker, c is the centre, alpha their product eta rho of the papers (Zhang,
 * Choromanska, LeCun, 2015; You, Buluc, Demmel, 2017, whose numbers (1), (2)
 * and (6) are given). All use values of before the step: a worker keeps its
 * distance e = w - c, lets its optimiser move w, then takes alpha e from it.
 */
#ifndef TRAINER_DIST_ELASTIC_H
#define TRAINER_DIST_ELASTIC_H

#include <stddef.h>

/* (1), (6), first part: e = w - c. e may be c. */
void elastic_distance(float *e, const float *w, const float *c, size_t n);

/* (1), (6), last part, after the optimiser: w -= alpha e. */
void elastic_pull(float *w, const float *e, float alpha, size_t n);

/* (2), s being the sum of the weights of so many workers:
 * c += alpha (s - workers c). */
void elastic_centre(float *c, const float *s, float alpha, int workers,
                    size_t n);

/* Both at once: (2), and the distance comes where the sum was. */
void elastic_meet(float *c, float *s, const float *w, float alpha, int workers,
                  size_t n);

#endif
