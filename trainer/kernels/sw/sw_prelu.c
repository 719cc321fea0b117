/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_prelu.h"

#include "kernels/sw/sw_kernels.h"
#include "kernels/sw/sw_moves.h"
#include "kernels/sw/sw_numbers.h"

static void count(struct sw_cpe *cpe, int numbers)
{
    sw_count(cpe, (size_t)sw_parts(numbers, SW_LANES));
}

void sw_prelu_forward(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_prelu *job = argument;
    struct sw_bench b = sw_bench_of(cpe, job->shape);
    for (int c = 0; c < job->shape.c; c++) {
        const float slope = (float)sw_one(&b, job->slope + c);
        for (struct sw_piece p = {-1, 0, 0}; sw_piece_next(&b, c, &p);) {
            sw_bring(cpe, b.x, job->x + p.first, (size_t)p.count);
            for (int i = 0; i < p.count; i++)
                b.x[i] = b.x[i] > 0 ? b.x[i] : b.x[i] * slope;
            sw_take(cpe, b.x, job->y + p.first, (size_t)p.count);
            count(cpe, p.count);
        }
    }
}

const char *sw_prelu(struct sw_machine *m, const struct sw_prelu *job)
{
    return sw_spawn(m, sw_prelu_forward, job, sizeof(*job));
}

/* dx of a piece, whose x and dy are there; the sum for the slope. */
static double slope_sum(struct sw_bench *b, int numbers, float slope)
{
    double sum = 0;
    for (int i = 0; i < numbers; i++)
        if (!(b->x[i] > 0)) {
            sum += (double)b->x[i] * (double)b->y[i];
            b->y[i] *= slope;
        }
    return sum;
}

void sw_prelu_backward_all(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_prelu_backward *job = argument;
    struct sw_bench b = sw_bench_of(cpe, job->shape);
    for (int c = 0; c < job->shape.c; c++) {
        const float slope = (float)sw_one(&b, job->slope + c);
        struct sw_vector sum = {{0}};
        for (struct sw_piece p = {-1, 0, 0}; sw_piece_next(&b, c, &p);) {
            sw_bring(cpe, b.x, job->x + p.first, (size_t)p.count);
            sw_bring(cpe, b.y, job->dy + p.first, (size_t)p.count);
            sum.lane[0] += slope_sum(&b, p.count, slope);
            sw_take(cpe, b.y, job->dx + p.first, (size_t)p.count);
            count(cpe, 2 * p.count);
        }
        sw_put_one(&b, sw_sum_all(cpe, sum).lane[0], job->dslope + c);
    }
}

const char *sw_prelu_backward(struct sw_machine *m,
                              const struct sw_prelu_backward *job)
{
    return sw_spawn(m, sw_prelu_backward_all, job, sizeof(*job));
}

static struct sw_bytes bytes(struct sw_channels s, size_t reads, size_t sums)
{
    const size_t channels = sizeof(float) * (size_t)s.c;
    const size_t all = channels * (size_t)s.n * (size_t)s.places;
    return (struct sw_bytes){reads * all + SW_CPES * channels,
                             all + sums * channels};
}

struct sw_bytes sw_prelu_bytes(struct sw_channels s)
{
    return bytes(s, 1, 0);
}

struct sw_bytes sw_prelu_backward_bytes(struct sw_channels s)
{
    return bytes(s, 2, 1);
}
