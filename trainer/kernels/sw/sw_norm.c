/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_norm.h"

#include <math.h>
#include <stdbool.h>

#include "kernels/sw/sw_kernels.h"
#include "kernels/sw/sw_moves.h"

/* Sums over a channel of y, of x y and, if y is NULL, of x and x x, with x
 * less so much. */
static struct sw_vector sums(struct sw_bench *b, int channel, const float *x,
                             const float *y, double less)
{
    struct sw_vector sum = {{0}};
    for (struct sw_piece p = {-1, 0, 0}; sw_piece_next(b, channel, &p);) {
        sw_bring(b->cpe, b->x, x + p.first, (size_t)p.count);
        if (y)
            sw_bring(b->cpe, b->y, y + p.first, (size_t)p.count);
        for (int i = 0; i < p.count; i++) {
            const double a = (double)b->x[i] - less;
            const double with = y ? (double)b->y[i] : a;
            sum.lane[0] += with;
            sum.lane[1] += a * with;
        }
    }
    return sw_sum_all(b->cpe, sum);
}

/* to = factor x + shift, of a channel. */
static void map(struct sw_bench *b, int channel, const float *x, float *to,
                double factor, double shift)
{
    for (struct sw_piece p = {-1, 0, 0}; sw_piece_next(b, channel, &p);) {
        sw_bring(b->cpe, b->x, x + p.first, (size_t)p.count);
        for (int i = 0; i < p.count; i++)
            b->y[i] = (float)(factor * (double)b->x[i] + shift);
        sw_take(b->cpe, b->y, to + p.first, (size_t)p.count);
    }
}

static double count_of(struct sw_channels s)
{
    return (double)s.n * (double)s.places;
}

/* --- normalisation ------------------------------------------------------ */

/* Two passes, so that a mean far from 0 takes no digits from the variance. */
static void measure(struct sw_bench *b, const struct sw_norm *job, int channel,
                    double *mean, double *variance)
{
    const double count = count_of(job->shape);
    *mean = sums(b, channel, job->x, NULL, 0).lane[0] / count;
    *variance = sums(b, channel, job->x, NULL, *mean).lane[1] / count;
    sw_put_one(b, *mean, job->mean + channel);
    sw_put_one(b, *variance, job->variance + channel);
}

void sw_norm_forward(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_norm *job = argument;
    struct sw_bench b = sw_bench_of(cpe, job->shape);
    for (int c = 0; c < job->shape.c; c++) {
        double mean, variance;
        if (job->global) {
            mean = sw_one(&b, job->mean + c);
            variance = sw_one(&b, job->variance + c);
        } else {
            measure(&b, job, c, &mean, &variance);
        }
        const double factor = 1 / sqrt(variance + (double)job->eps);
        map(&b, c, job->x, job->y, factor, -mean * factor);
    }
}

const char *sw_norm(struct sw_machine *m, const struct sw_norm *job)
{
    return sw_spawn(m, sw_norm_forward, job, sizeof(*job));
}

/* dx = factor (dy - mean of dy - (x - mean) factor^2 mean of (x - mean) dy) */
void sw_norm_backward_all(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_norm_backward *job = argument;
    struct sw_bench b = sw_bench_of(cpe, job->shape);
    const double count = count_of(job->shape);
    for (int c = 0; c < job->shape.c; c++) {
        const double mean = sw_one(&b, job->mean + c);
        const double factor =
            1 / sqrt(sw_one(&b, job->variance + c) + (double)job->eps);
        if (job->global) {
            map(&b, c, job->dy, job->dx, factor, 0);
            continue;
        }
        const struct sw_vector s = sums(&b, c, job->x, job->dy, mean);
        const double dy = s.lane[0] / count;
        const double slope = factor * factor * s.lane[1] / count;
        for (struct sw_piece p = {-1, 0, 0}; sw_piece_next(&b, c, &p);) {
            sw_bring(cpe, b.x, job->x + p.first, (size_t)p.count);
            sw_bring(cpe, b.y, job->dy + p.first, (size_t)p.count);
            for (int i = 0; i < p.count; i++)
                b.y[i] = (float)(factor
                                 * ((double)b.y[i] - dy
                                    - ((double)b.x[i] - mean) * slope));
            sw_take(cpe, b.y, job->dx + p.first, (size_t)p.count);
        }
    }
}

const char *sw_norm_backward(struct sw_machine *m,
                             const struct sw_norm_backward *job)
{
    return sw_spawn(m, sw_norm_backward_all, job, sizeof(*job));
}

/* --- scale and bias ----------------------------------------------------- */

void sw_norm_scale(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_scale *job = argument;
    struct sw_bench b = sw_bench_of(cpe, job->shape);
    for (int c = 0; c < job->shape.c; c++)
        map(&b, c, job->x, job->y,
            job->factor ? sw_one(&b, job->factor + c) : 1,
            job->bias ? sw_one(&b, job->bias + c) : 0);
}

const char *sw_scale(struct sw_machine *m, const struct sw_scale *job)
{
    return sw_spawn(m, sw_norm_scale, job, sizeof(*job));
}

void sw_norm_scale_backward(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_scale_backward *job = argument;
    struct sw_bench b = sw_bench_of(cpe, job->shape);
    for (int c = 0; c < job->shape.c; c++) {
        const struct sw_vector s = sums(&b, c, job->x, job->dy, 0);
        sw_put_one(&b, s.lane[0], job->dbias + c);
        sw_put_one(&b, s.lane[1], job->dfactor + c);
    }
}

const char *sw_scale_backward(struct sw_machine *m,
                              const struct sw_scale_backward *job)
{
    return sw_spawn(m, sw_norm_scale_backward, job, sizeof(*job));
}
