/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_softmax.h"

#include <math.h>
#include <stdbool.h>

#include "kernels/sw/sw_kernels.h"
#include "kernels/sw/sw_moves.h"
#include "kernels/sw/sw_numbers.h"

enum { PIECE = 4096 }; /* floats: 16 KB */

/* Rows of a turn: one, or so many short ones that every CPE has some. */
static int rows_at_once(int n, int classes)
{
    return sw_most(1, sw_least(PIECE / classes, sw_parts(n, SW_CPES)));
}

static size_t at_row(int row, int classes)
{
    return (size_t)row * (size_t)classes;
}

/* Taking the largest out first keeps exp from overflowing and log from 0. */
struct row {
    float largest;
    double sum;
};

static void find_largest(struct row *r, const float *x, int count)
{
    for (int i = 0; i < count; i++)
        r->largest = x[i] > r->largest ? x[i] : r->largest;
}

static void add_up(struct row *r, const float *x, int count)
{
    for (int i = 0; i < count; i++)
        r->sum += exp((double)x[i] - (double)r->largest);
}

static void finish(struct row *r, float *x, int count)
{
    const double all = (double)r->largest + log(r->sum);
    for (int i = 0; i < count; i++)
        x[i] = (float)((double)x[i] - all);
}

/* --- forward ------------------------------------------------------------ */

static void short_rows(struct sw_cpe *cpe, const struct sw_softmax *job,
                       int first, int rows, float *x)
{
    const size_t at = at_row(first, job->classes);
    const size_t count = at_row(rows, job->classes);
    sw_bring(cpe, x, job->x + at, count);
    for (int i = 0; i < rows; i++) {
        float *own = x + at_row(i, job->classes);
        struct row r = {own[0], 0};
        find_largest(&r, own, job->classes);
        add_up(&r, own, job->classes);
        finish(&r, own, job->classes);
    }
    sw_take(cpe, x, job->y + at, count);
}

static void long_row(struct sw_cpe *cpe, const struct sw_softmax *job, int row,
                     float *x)
{
    struct row r = {-INFINITY, 0};
    for (int pass = 0; pass < 3; pass++)
        for (int c = 0; c < job->classes; c += PIECE) {
            const size_t at = at_row(row, job->classes) + (size_t)c;
            const int count = sw_least(PIECE, job->classes - c);
            sw_bring(cpe, x, job->x + at, (size_t)count);
            if (pass == 0)
                find_largest(&r, x, count);
            else if (pass == 1)
                add_up(&r, x, count);
            else
                finish(&r, x, count);
            if (pass == 2)
                sw_take(cpe, x, job->y + at, (size_t)count);
        }
}

void sw_softmax_forward(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_softmax *job = argument;
    const int rows = rows_at_once(job->n, job->classes);
    float *x = sw_ldm(cpe, PIECE * sizeof(float));
    for (int i = sw_number(cpe) * rows; i < job->n; i += SW_CPES * rows)
        if (job->classes > PIECE)
            long_row(cpe, job, i, x);
        else
            short_rows(cpe, job, i, sw_least(rows, job->n - i), x);
}

const char *sw_softmax(struct sw_machine *m, const struct sw_softmax *job)
{
    return sw_spawn(m, sw_softmax_forward, job, sizeof(*job));
}

/* --- backward ----------------------------------------------------------- */

static double total(const float *dy, int count, double sum)
{
    for (int i = 0; i < count; i++)
        sum += (double)dy[i];
    return sum;
}

static void give_back(float *dy, const float *y, int count, double sum)
{
    for (int i = 0; i < count; i++)
        dy[i] = (float)((double)dy[i] - exp((double)y[i]) * sum);
}

static void short_rows_back(struct sw_cpe *cpe,
                            const struct sw_softmax_backward *job, int first,
                            int rows, float *y, float *dy)
{
    const size_t at = at_row(first, job->classes);
    const size_t count = at_row(rows, job->classes);
    sw_bring(cpe, y, job->y + at, count);
    sw_bring(cpe, dy, job->dy + at, count);
    for (int i = 0; i < rows; i++) {
        float *own = dy + at_row(i, job->classes);
        give_back(own, y + at_row(i, job->classes), job->classes,
                  total(own, job->classes, 0));
    }
    sw_take(cpe, dy, job->dx + at, count);
}

static void long_row_back(struct sw_cpe *cpe,
                          const struct sw_softmax_backward *job, int row,
                          float *y, float *dy)
{
    double sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int c = 0; c < job->classes; c += PIECE) {
            const size_t at = at_row(row, job->classes) + (size_t)c;
            const int count = sw_least(PIECE, job->classes - c);
            sw_bring(cpe, dy, job->dy + at, (size_t)count);
            if (pass == 0) {
                sum = total(dy, count, sum);
                continue;
            }
            sw_bring(cpe, y, job->y + at, (size_t)count);
            give_back(dy, y, count, sum);
            sw_take(cpe, dy, job->dx + at, (size_t)count);
        }
}

void sw_softmax_backward_all(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_softmax_backward *job = argument;
    const int rows = rows_at_once(job->n, job->classes);
    float *y = sw_ldm(cpe, PIECE * sizeof(float));
    float *dy = sw_ldm(cpe, PIECE * sizeof(float));
    for (int i = sw_number(cpe) * rows; i < job->n; i += SW_CPES * rows)
        if (job->classes > PIECE)
            long_row_back(cpe, job, i, y, dy);
        else
            short_rows_back(cpe, job, i, sw_least(rows, job->n - i), y, dy);
}

const char *sw_softmax_backward(struct sw_machine *m,
                                const struct sw_softmax_backward *job)
{
    return sw_spawn(m, sw_softmax_backward_all, job, sizeof(*job));
}

/* --- bytes -------------------------------------------------------------- */

struct sw_bytes sw_softmax_bytes(int n, int classes)
{
    const size_t all = sizeof(float) * at_row(n, classes);
    return (struct sw_bytes){(classes > PIECE ? 3 : 1) * all, all};
}

struct sw_bytes sw_softmax_backward_bytes(int n, int classes)
{
    const size_t all = sizeof(float) * at_row(n, classes);
    return (struct sw_bytes){(classes > PIECE ? 3 : 2) * all, all};
}
