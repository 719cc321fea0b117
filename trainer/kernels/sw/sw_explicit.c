/* SPDX-License-Identifier: MIT */
/* Convolution by a column matrix, of as many images at once as sw_matrices.h
 * has it, group by group. */
#include <string.h>

#include "kernels/conv_size.h"
#include "kernels/sw/sw_column.h"
#include "kernels/sw/sw_matrices.h"
#include "kernels/sw/sw_numbers.h"
#include "kernels/sw/sw_product.h"
#include "kernels/sw/sw_work.h"

/* Where the matrices of a group are, and the images of a turn. */
struct turn {
    struct sw_work *work;
    struct sw_matrices size;
    float *column, *weights, *places; /* k x p, m x k or k x m, m x p */
    float *turned;                    /* p x k */
    size_t image, out; /* floats from image to image, and of their outputs */
};

static void product(struct turn *t, const float *by, const float *a, float *c,
                    int n, int k, int m, bool adds)
{
    struct sw_work *w = t->work;
    const struct sw_product p = {by, a, c, n, k, m, adds};
    sw_work_settle(w, &w->counts.work, sw_product(w->machine, &p));
}

/* Outputs of the images, between (image, output, place) and the matrix. */
static void enter_outputs(struct turn *t, const float *y)
{
    const struct sw_matrices *s = &t->size;
    const size_t places = (size_t)(s->p / s->images);
    sw_work_copy(t->work,
                 (struct sw_copy){y, t->places, s->images, s->m, (int)places,
                                  t->out, places, places, (size_t)s->p_full});
}

static void leave_outputs(struct turn *t, float *y)
{
    const struct sw_matrices *s = &t->size;
    const size_t places = (size_t)(s->p / s->images);
    sw_work_copy(t->work,
                 (struct sw_copy){t->places, y, s->images, s->m, (int)places,
                                  places, (size_t)s->p_full, t->out, places});
}

static void make_column(struct turn *t, const float *x)
{
    struct sw_work *w = t->work;
    const struct sw_column job = {t->size.shape, t->size.images,
                                  t->image,      x,
                                  t->column,     (size_t)t->size.p_full};
    sw_work_settle(w, &w->counts.work, sw_im2col(w->machine, &job));
}

static void add_column_up(struct turn *t, float *dx)
{
    struct sw_work *w = t->work;
    const struct sw_column job = {
        t->size.shape,         t->size.images, t->image, t->column, dx,
        (size_t)t->size.p_full};
    sw_work_settle(w, &w->counts.work, sw_col2im(w->machine, &job));
}

static void forward(struct turn *t, const float *x, float *y)
{
    const struct sw_matrices *s = &t->size;
    make_column(t, x);
    product(t, t->weights, t->column, t->places, s->m_full, s->k_full,
            s->p_full, false);
    leave_outputs(t, y);
}

static void backward_data(struct turn *t, const float *dy, float *dx)
{
    const struct sw_matrices *s = &t->size;
    enter_outputs(t, dy);
    product(t, t->weights, t->places, t->column, s->k_full, s->m_full,
            s->p_full, false);
    add_column_up(t, dx);
}

static void backward_weights(struct turn *t, const float *x, const float *dy,
                             bool adds)
{
    const struct sw_matrices *s = &t->size;
    make_column(t, x);
    sw_work_transpose(t->work,
                      (struct sw_transpose){t->column, t->turned, 1, s->k,
                                            s->p_full, 0, (size_t)s->p_full, 0,
                                            (size_t)s->k_full, false});
    enter_outputs(t, dy);
    product(t, t->places, t->turned, t->weights, s->m_full, s->p_full,
            s->k_full, adds);
}

/* The weights of a group as the product wants them. */
static void enter_weights(struct turn *t, const float *weights)
{
    const struct sw_matrices *s = &t->size;
    const size_t k = (size_t)s->k;
    if (t->work->job->pass == CONV_FORWARD)
        sw_work_copy(t->work,
                     (struct sw_copy){weights, t->weights, 1, s->m, s->k, 0, k,
                                      0, (size_t)s->k_full});
    else
        sw_work_transpose(
            t->work, (struct sw_transpose){weights, t->weights, 1, s->m, s->k,
                                           0, k, 0, (size_t)s->m_full, false});
}

static void leave_weights(struct turn *t, float *weights)
{
    const struct sw_matrices *s = &t->size;
    sw_work_copy(t->work,
                 (struct sw_copy){t->weights, weights, 1, s->m, s->k, 0,
                                  (size_t)s->k_full, 0, (size_t)s->k});
}

/* One group of all images. */
static void group(struct turn *t, size_t x, size_t y, size_t weights)
{
    struct sw_work *w = t->work;
    const struct sw_conv *job = w->job;
    const bool learns = job->pass == CONV_BACKWARD_WEIGHTS;
    if (!learns)
        enter_weights(t, job->by + weights);
    for (int i = 0; i < job->conv.n && !w->error; i += t->size.images) {
        if (job->pass == CONV_FORWARD)
            forward(t, job->in + x, job->out + y);
        else if (job->pass == CONV_BACKWARD_DATA)
            backward_data(t, job->in + y, job->out + x);
        else
            backward_weights(t, job->in + x, job->by + y, i > 0);
        x += t->image * (size_t)t->size.images;
        y += t->out * (size_t)t->size.images;
    }
    if (learns && job->conv.n)
        leave_weights(t, job->out + weights);
}

void sw_work_explicit(struct sw_work *w)
{
    const struct conv *c = &w->job->conv;
    const struct sw_matrices s = sw_matrices_of(c, sw_conv_images(w->job));
    const bool turned = w->job->pass == CONV_BACKWARD_WEIGHTS;
    struct turn t = {
        .work = w,
        .size = s,
        .column = sw_work_floats(w, sw_times(s.k_full, s.p_full, 1)),
        .weights = sw_work_floats(w, sw_times(s.m_full, s.k_full, 1)),
        .places = sw_work_floats(w, sw_times(s.m_full, s.p_full, 1)),
        .turned =
            sw_work_floats(w, turned ? sw_times(s.k_full, s.p_full, 1) : 0),
        .image = sw_times(c->c, c->h, c->w),
        .out = sw_times(c->k, c->out_h, c->out_w),
    };
    if (!w->scratch)
        return;
    /* What fills matrices up is written here only. */
    memset(w->scratch, 0, w->used * sizeof(float));
    for (int g = 0; g < c->groups && !w->error; g++) {
        const size_t at = (size_t)g, groups = (size_t)c->groups;
        group(&t, at * (t.image / groups), at * (t.out / groups),
              at * (conv_weights(c) / groups));
    }
}
