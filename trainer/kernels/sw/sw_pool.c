/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_pool.h"

#include <string.h>

#include "kernels/sw/sw_kernels.h"
#include "kernels/sw/sw_moves.h"
#include "kernels/sw/sw_numbers.h"
#include "kernels/sw/sw_pool_plan.h"

/* --- one window --------------------------------------------------------- */

struct job {
    struct sw_pool pool;
    const float *x, *dy;
    float *y, *dx;
};

struct window {
    int top, bottom, left, right; /* inside the plane */
};

static struct window window_of(const struct sw_pool *p, int r, int q)
{
    const int top = r * p->stride_h - p->pad_h;
    const int left = q * p->stride_w - p->pad_w;
    return (struct window){sw_most(0, top), sw_least(p->h, top + p->kernel_h),
                           sw_most(0, left),
                           sw_least(p->w, left + p->kernel_w)};
}

static int area(struct window v)
{
    return (v.bottom - v.top) * (v.right - v.left);
}

/* Where the largest is; x starts with row `first` of the plane. */
static int largest(const struct sw_pool *p, const float *x, int first,
                   struct window v)
{
    int best = (v.top - first) * p->w + v.left;
    for (int i = v.top; i < v.bottom; i++)
        for (int j = v.left; j < v.right; j++) {
            const int at = (i - first) * p->w + j;
            best = x[at] > x[best] ? at : best;
        }
    return best;
}

static float mean(const struct sw_pool *p, const float *x, int first,
                  struct window v)
{
    double sum = 0;
    for (int i = v.top; i < v.bottom; i++)
        for (int j = v.left; j < v.right; j++)
            sum += (double)x[(i - first) * p->w + j];
    return (float)(sum / area(v));
}

/* --- transfers ---------------------------------------------------------- */

/* Rows of so many planes, which are whole if they are several. */
static size_t at_rows(int plane, int height, int width, struct sw_pool_rows r)
{
    return ((size_t)plane * (size_t)height + (size_t)r.first) * (size_t)width;
}

static size_t floats_of(int planes, int width, struct sw_pool_rows r)
{
    return sw_times(planes, r.end - r.first, width);
}

/* --- forward ------------------------------------------------------------ */

static void pool_rows(const struct sw_pool *p, const float *x, int first,
                      struct sw_pool_rows windows, float *y)
{
    for (int r = windows.first; r < windows.end; r++)
        for (int q = 0; q < p->out_w; q++) {
            const struct window v = window_of(p, r, q);
            *y++ =
                p->average ? mean(p, x, first, v) : x[largest(p, x, first, v)];
        }
}

void sw_pool_forward(struct sw_cpe *cpe, const void *argument)
{
    const struct job *job = argument;
    const struct sw_pool *p = &job->pool;
    const struct sw_pool_cut c = sw_pool_forward_cut(p);
    float *x = sw_ldm(cpe, sizeof(float) * (size_t)(c.floats * c.planes));
    const int own = sw_number(cpe);
    for (int i = own * c.planes; i < p->planes; i += SW_CPES * c.planes) {
        const int planes = sw_least(c.planes, p->planes - i);
        for (struct sw_pool_rows w = {0, 0}; w.first < p->out_h;
             w.first = w.end) {
            w.end = sw_least(p->out_h, w.first + c.band);
            const struct sw_pool_rows r = c.planes > 1
                                              ? (struct sw_pool_rows){0, p->h}
                                              : sw_pool_seen(p, w);
            const int in = (r.end - r.first) * p->w;
            const int out = (w.end - w.first) * p->out_w;
            float *y = x + planes * in;
            sw_bring(cpe, x, job->x + at_rows(i, p->h, p->w, r),
                     floats_of(planes, p->w, r));
            for (int k = 0; k < planes; k++)
                pool_rows(p, x + k * in, r.first, w, y + k * out);
            sw_take(cpe, y, job->y + at_rows(i, p->out_h, p->out_w, w),
                    floats_of(planes, p->out_w, w));
        }
    }
}

const char *sw_pool(struct sw_machine *m, const struct sw_pool *p,
                    const float *x, float *y)
{
    return sw_spawn(m, sw_pool_forward,
                    &(struct job){.pool = *p, .x = x, .y = y},
                    sizeof(struct job));
}

/* --- backward ----------------------------------------------------------- */

/* Adds what the windows give to rows `own`, with dx starting there. */
static void give_back(const struct sw_pool *p, const float *x, int first,
                      struct sw_pool_rows windows, const float *dy,
                      struct sw_pool_rows own, float *dx)
{
    for (int r = windows.first; r < windows.end; r++)
        for (int q = 0; q < p->out_w; q++, dy++) {
            const struct window v = window_of(p, r, q);
            if (!p->average) {
                const int at = largest(p, x, first, v);
                const int row = at / p->w + first;
                if (row >= own.first && row < own.end)
                    dx[at + (first - own.first) * p->w] += *dy;
                continue;
            }
            for (int i = sw_most(v.top, own.first);
                 i < sw_least(v.bottom, own.end); i++)
                for (int j = v.left; j < v.right; j++)
                    dx[(i - own.first) * p->w + j] += *dy / (float)area(v);
        }
}

/* Rows of one plane, or all of several. */
struct band {
    int plane, planes;
    struct sw_pool_rows own, windows, read;
};

static struct band band_of(const struct sw_pool *p, const struct sw_pool_cut *c,
                           int plane, int first)
{
    struct band b = {
        .plane = plane,
        .planes = sw_least(c->planes, p->planes - plane),
        .own = {first, sw_least(p->h, first + c->band)},
        .windows = {0,     p->out_h                 },
        .read = {0,     p->h},
    };
    if (c->planes == 1) {
        b.windows = sw_pool_seeing(p, b.own);
        b.read = sw_pool_seen(p, b.windows);
    }
    return b;
}

static void backward_band(struct sw_cpe *cpe, const struct job *job,
                          const struct band *b, float *dx)
{
    const struct sw_pool *p = &job->pool;
    const int into = (b->own.end - b->own.first) * p->w;
    memset(dx, 0, sizeof(float) * (size_t)(b->planes * into));
    if (b->windows.first < b->windows.end) {
        const int in = (b->read.end - b->read.first) * p->w;
        const int out = (b->windows.end - b->windows.first) * p->out_w;
        float *x = dx + b->planes * into, *dy = x + b->planes * in;
        if (!p->average)
            sw_bring(cpe, x, job->x + at_rows(b->plane, p->h, p->w, b->read),
                     floats_of(b->planes, p->w, b->read));
        sw_bring(cpe, dy,
                 job->dy + at_rows(b->plane, p->out_h, p->out_w, b->windows),
                 floats_of(b->planes, p->out_w, b->windows));
        for (int k = 0; k < b->planes; k++)
            give_back(p, x + k * in, b->read.first, b->windows, dy + k * out,
                      b->own, dx + k * into);
    }
    sw_take(cpe, dx, job->dx + at_rows(b->plane, p->h, p->w, b->own),
            floats_of(b->planes, p->w, b->own));
}

void sw_pool_backward_all(struct sw_cpe *cpe, const void *argument)
{
    const struct job *job = argument;
    const struct sw_pool *p = &job->pool;
    const struct sw_pool_cut c = sw_pool_backward_cut(p);
    float *ldm = sw_ldm(cpe, sizeof(float) * (size_t)(c.floats * c.planes));
    const int own = sw_number(cpe);
    for (int i = own * c.planes; i < p->planes; i += SW_CPES * c.planes)
        for (int first = 0; first < p->h; first += c.band) {
            const struct band b = band_of(p, &c, i, first);
            backward_band(cpe, job, &b, ldm);
        }
}

const char *sw_pool_backward(struct sw_machine *m, const struct sw_pool *p,
                             const float *x, const float *dy, float *dx)
{
    return sw_spawn(m, sw_pool_backward_all,
                    &(struct job){.pool = *p, .x = x, .dy = dy, .dx = dx},
                    sizeof(struct job));
}
