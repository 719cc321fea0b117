/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_conv.h"

#include <string.h>

#include "kernels/conv_size.h"
#include "kernels/sw/sw_column.h"
#include "kernels/sw/sw_implicit.h"
#include "kernels/sw/sw_numbers.h"
#include "kernels/sw/sw_product.h"
#include "kernels/sw/sw_transform.h"

/* A convolution under way; scratch is NULL where floats are only counted. */
struct work {
    struct sw_machine *machine;
    const struct sw_conv *job;
    float *scratch;
    size_t used;
    struct sw_conv_counts counts;
    const char *error;
};

/* So many floats of the scratch. */
static float *take(struct work *w, size_t count)
{
    float *at = w->scratch ? w->scratch + w->used : NULL;
    w->used += count;
    return at;
}

/* After each run of a kernel: what it did counts for `sum`. */
static void settle(struct work *w, struct sw_counts *sum, const char *error)
{
    const struct sw_counts one = sw_machine_counts(w->machine);
    sw_counts_add(sum, &one);
    sw_machine_clear(w->machine);
    if (!w->error)
        w->error = error;
}

static void transpose(struct work *w, struct sw_transpose t)
{
    settle(w, &w->counts.transforms, sw_transpose(w->machine, &t));
}

static void copy(struct work *w, const float *from, size_t from_row, float *to,
                 size_t to_row, int rows, int columns)
{
    const struct sw_copy c = {from, to, rows, columns, from_row, to_row};
    settle(w, &w->counts.transforms, sw_copy(w->machine, &c));
}

/* --- implicit ----------------------------------------------------------- */

/* The pass's three tensors between the framework's order and the tile's. */
static void enter(struct work *w, float *in, float *by)
{
    const struct sw_conv *job = w->job;
    const struct conv *c = &job->conv;
    const int places = c->h * c->w, windows = c->out_h * c->out_w;
    const int taps = c->kernel_h * c->kernel_w;
    switch (job->pass) {
    case CONV_BACKWARD_DATA:
        transpose(w, sw_images_to_tile(job->in, in, c->n, c->k, windows));
        transpose(w,
                  sw_weights_to_tile_backward(job->by, by, c->k, c->c, taps));
        break;
    case CONV_BACKWARD_WEIGHTS:
        transpose(w,
                  sw_images_to_tile_backward(job->in, in, c->n, c->c, places));
        transpose(w, sw_images_to_tile(job->by, by, c->n, c->k, windows));
        break;
    default:
        transpose(w, sw_images_to_tile(job->in, in, c->n, c->c, places));
        transpose(w, sw_weights_to_tile(job->by, by, c->k, c->c, taps));
    }
}

static void leave(struct work *w, const float *out)
{
    const struct sw_conv *job = w->job;
    const struct conv *c = &job->conv;
    if (job->pass == CONV_FORWARD)
        transpose(w, sw_images_from_tile(out, job->out, c->n, c->k,
                                         c->out_h * c->out_w));
    else if (job->pass == CONV_BACKWARD_DATA)
        transpose(w,
                  sw_images_from_tile(out, job->out, c->n, c->c, c->h * c->w));
    else
        transpose(w, sw_weights_from_tile(out, job->out, c->k, c->c,
                                          c->kernel_h * c->kernel_w));
}

static void implicit(struct work *w)
{
    const struct sw_conv *job = w->job;
    const struct sw_geometry g = sw_geometry_of(&job->conv, job->pass);
    float *in = take(w, sw_times(g.in_h, g.in_w, g.b) * (size_t)g.ni);
    float *by = take(w, sw_times(g.kernel_h, g.kernel_w, g.no) * (size_t)g.ni);
    float *out = take(w, sw_times(g.out_h, g.out_w, g.b) * (size_t)g.no);
    struct sw_implicit run = {
        .geometry = g, .in = in, .weights = by, .out = out};
    if (!w->scratch)
        return;
    if (job->plan)
        run.plan = *job->plan;
    else
        sw_plan_best(&g,
                     job->pass == CONV_FORWARD ? SW_FORWARD_KB : SW_BACKWARD_KB,
                     &run.plan);
    enter(w, in, by);
    settle(w, &w->counts.work, sw_implicit(w->machine, &run));
    leave(w, out);
}

/* --- explicit ----------------------------------------------------------- */

/* Of one group: m outputs, k inputs with their taps, p places; and filled up
 * with zeros as the mesh wants them. */
struct sizes {
    int m, k, p, m_full, k_full, p_full;
    size_t image, out; /* floats of a group of an image, and of its output */
    struct im2col shape;
};

static struct sizes sizes_of(const struct conv *c)
{
    const int channels = c->c / c->groups;
    struct sizes s = {
        .m = c->k / c->groups,
        .k = channels * c->kernel_h * c->kernel_w,
        .p = c->out_h * c->out_w,
        .image = sw_times(channels, c->h, c->w),
        .shape = {channels, c->h, c->w, c->kernel_h, c->kernel_w, c->stride_h,
                  c->stride_w, c->pad_h, c->pad_w, c->dilation_h, c->dilation_w,
                  c->out_h, c->out_w},
    };
    s.m_full = sw_full(s.m, SW_SIDE);
    s.k_full = sw_full(s.k, SW_SIDE * SW_LANES);
    s.p_full = sw_full(s.p, 128);
    s.out = sw_times(s.m, s.p, 1);
    return s;
}

struct matrices {
    float *column, *weights, *places; /* k x p, m x k or k x m, m x p */
    float *turned;                    /* p x k */
};

static void product(struct work *w, const float *by, const float *a, float *c,
                    int n, int k, int m, bool adds)
{
    const struct sw_product p = {by, a, c, n, k, m, adds};
    settle(w, &w->counts.work, sw_product(w->machine, &p));
}

static void forward(struct work *w, const struct sizes *s,
                    const struct matrices *a, const float *x, float *y)
{
    const struct sw_column job = {s->shape, x, a->column, (size_t)s->p_full};
    settle(w, &w->counts.work, sw_im2col(w->machine, &job));
    product(w, a->weights, a->column, a->places, s->m_full, s->k_full,
            s->p_full, false);
    copy(w, a->places, (size_t)s->p_full, y, (size_t)s->p, s->m, s->p);
}

static void backward_data(struct work *w, const struct sizes *s,
                          const struct matrices *a, const float *dy, float *dx)
{
    const struct sw_column job = {s->shape, a->column, dx, (size_t)s->p_full};
    copy(w, dy, (size_t)s->p, a->places, (size_t)s->p_full, s->m, s->p);
    product(w, a->weights, a->places, a->column, s->k_full, s->m_full,
            s->p_full, false);
    settle(w, &w->counts.work, sw_col2im(w->machine, &job));
}

static void backward_weights(struct work *w, const struct sizes *s,
                             const struct matrices *a, const float *x,
                             const float *dy, bool adds)
{
    const struct sw_column job = {s->shape, x, a->column, (size_t)s->p_full};
    settle(w, &w->counts.work, sw_im2col(w->machine, &job));
    transpose(w, (struct sw_transpose){a->column, a->turned, 1, s->k, s->p_full,
                                       0, (size_t)s->p_full, 0,
                                       (size_t)s->k_full, false});
    copy(w, dy, (size_t)s->p, a->places, (size_t)s->p_full, s->m, s->p);
    product(w, a->places, a->turned, a->weights, s->m_full, s->p_full,
            s->k_full, adds);
}

/* The weights of a group as the product wants them. */
static void enter_weights(struct work *w, const struct sizes *s,
                          const struct matrices *a, const float *weights)
{
    if (w->job->pass == CONV_FORWARD)
        copy(w, weights, (size_t)s->k, a->weights, (size_t)s->k_full, s->m,
             s->k);
    else if (w->job->pass == CONV_BACKWARD_DATA)
        transpose(w, (struct sw_transpose){weights, a->weights, 1, s->m, s->k,
                                           0, (size_t)s->k, 0,
                                           (size_t)s->m_full, false});
}

/* One group of all images. */
static void group(struct work *w, const struct sizes *s,
                  const struct matrices *a, int g)
{
    const struct sw_conv *job = w->job;
    const size_t groups = (size_t)job->conv.groups, at = (size_t)g;
    const size_t weights = at * sw_times(s->m, s->k, 1);
    if (job->pass != CONV_BACKWARD_WEIGHTS)
        enter_weights(w, s, a, job->by + weights);
    for (int i = 0; i < job->conv.n && !w->error; i++) {
        const size_t x = ((size_t)i * groups + at) * s->image;
        const size_t y = ((size_t)i * groups + at) * s->out;
        if (job->pass == CONV_FORWARD)
            forward(w, s, a, job->in + x, job->out + y);
        else if (job->pass == CONV_BACKWARD_DATA)
            backward_data(w, s, a, job->in + y, job->out + x);
        else
            backward_weights(w, s, a, job->in + x, job->by + y, i > 0);
    }
    if (job->pass == CONV_BACKWARD_WEIGHTS && job->conv.n)
        copy(w, a->weights, (size_t)s->k_full, job->out + weights, (size_t)s->k,
             s->m, s->k);
}

static void explicitly(struct work *w)
{
    const struct sizes s = sizes_of(&w->job->conv);
    const bool turned = w->job->pass == CONV_BACKWARD_WEIGHTS;
    const struct matrices a = {
        .column = take(w, sw_times(s.k_full, s.p_full, 1)),
        .weights = take(w, sw_times(s.m_full, s.k_full, 1)),
        .places = take(w, sw_times(s.m_full, s.p_full, 1)),
        .turned = take(w, turned ? sw_times(s.k_full, s.p_full, 1) : 0),
    };
    if (!w->scratch)
        return;
    /* What fills matrices up is written here only. */
    memset(w->scratch, 0, w->used * sizeof(float));
    for (int g = 0; g < w->job->conv.groups && !w->error; g++)
        group(w, &s, &a, g);
}

/* --- all ---------------------------------------------------------------- */

bool sw_conv_is_implicit(const struct sw_conv *job)
{
    return job->way == SW_IMPLICIT
           || (job->way == SW_BY_RULE
               && sw_implicit_is_taken(&job->conv, job->pass));
}

const char *sw_conv_way(const struct sw_conv *job)
{
    return sw_conv_is_implicit(job) ? "implicit" : "explicit";
}

const char *sw_conv_cannot(const struct sw_conv *job)
{
    const struct sizes s = sizes_of(&job->conv);
    if (sw_conv_is_implicit(job))
        return sw_implicit_can(&job->conv, job->pass)
                   ? NULL
                   : "the mesh cannot be dealt so";
    return sw_column_cannot(&s.shape);
}

static void all(struct work *w)
{
    if (sw_conv_is_implicit(w->job))
        implicit(w);
    else
        explicitly(w);
}

size_t sw_conv_scratch(const struct sw_conv *job)
{
    struct work w = {.job = job};
    all(&w);
    return w.used;
}

const char *sw_conv(struct sw_machine *m, const struct sw_conv *job,
                    float *scratch, struct sw_conv_counts *counts)
{
    struct work w = {.machine = m, .job = job, .scratch = scratch};
    sw_machine_clear(m);
    all(&w);
    if (job->pass == CONV_BACKWARD_WEIGHTS && job->conv.n == 0)
        memset(job->out, 0, sizeof(float) * conv_weights(&job->conv));
    if (counts)
        *counts = w.counts;
    return w.error;
}
