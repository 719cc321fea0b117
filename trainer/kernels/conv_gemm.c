/* SPDX-License-Identifier: MIT */
/* Convolution by a column matrix and one product for each image and group:
 *
 *     y (M x P) = weights (M x K) column (K x P) + bias
 *
 * with M output channels, K = channels in x window, P output positions. It can
 * do every shape. The column matrix is built again for the gradient, which
 * costs less than keeping one for each image of the batch. */
#include <string.h>

#include "kernels/conv.h"
#include "kernels/gemm.h"
#include "kernels/im2col.h"

static const char *cannot(const struct conv *c, enum conv_pass pass)
{
    return c->plain && pass == CONV_BACKWARD_DATA
               ? "there is no gradient of a plain input"
               : NULL;
}

struct sizes {
    int m, k, p;    /* of a group's product */
    size_t in, out; /* floats of a plain image, */
    size_t x_image; /* of one as it is given, */
    size_t y_image;
    struct im2col column; /* of a group's channels */
};

static struct sizes sizes_of(const struct conv *c)
{
    const int channels = c->c / c->groups;
    struct sizes s = {
        .m = c->k / c->groups,
        .k = channels * c->kernel_h * c->kernel_w,
        .p = c->out_h * c->out_w,
        .in = (size_t)c->c * (size_t)c->h * (size_t)c->w,
        .out = (size_t)c->k * (size_t)c->out_h * (size_t)c->out_w,
        .y_image = conv_blocked(1, c->k, c->out_h, c->out_w),
        .column = {channels, c->h, c->w, c->kernel_h, c->kernel_w, c->stride_h,
                   c->stride_w, c->pad_h, c->pad_w, c->dilation_h,
                   c->dilation_w, c->out_h, c->out_w},
    };
    s.x_image = c->plain ? s.in : conv_blocked(1, c->c, c->h, c->w);
    return s;
}

/* An image's x, plain, at `to` if it is not. */
static const float *plain_x(const struct conv *c, const float *x, float *to)
{
    if (c->plain)
        return x;
    conv_to_plain(x, to, 1, c->c, c->h, c->w);
    return to;
}

/* The scratch: a column matrix, and plain images of x and y. */
static void forward(const struct conv *c, const float *x, const float *w,
                    const float *bias, float *y, float *scratch)
{
    const struct sizes s = sizes_of(c);
    float *column = scratch, *px = column + (size_t)s.k * (size_t)s.p;
    float *py = px + s.in;
    for (int i = 0; i < c->n; i++) {
        const float *from = plain_x(c, x + (size_t)i * s.x_image, px);
        for (int k = 0; k < c->k; k++)
            for (int p = 0; p < s.p; p++)
                py[(size_t)k * (size_t)s.p + (size_t)p] = bias ? bias[k] : 0;
        for (int g = 0; g < c->groups; g++) {
            im2col(&s.column, from + (size_t)g * s.in / (size_t)c->groups,
                   column);
            gemm((struct matrix){w + (size_t)g * (size_t)s.m * (size_t)s.k, s.m,
                                 s.k, false, 0},
                 (struct matrix){column, s.k, s.p, false, 0}, 1,
                 py + (size_t)g * (size_t)s.m * (size_t)s.p, s.p);
        }
        conv_to_blocked(py, y + (size_t)i * s.y_image, 1, c->k, c->out_h,
                        c->out_w);
    }
}

static void backward_data(const struct conv *c, const float *dy, const float *w,
                          float *dx, float *scratch)
{
    const struct sizes s = sizes_of(c);
    float *column = scratch, *px = column + (size_t)s.k * (size_t)s.p;
    float *py = px + s.in;
    for (int i = 0; i < c->n; i++) {
        conv_to_plain(dy + (size_t)i * s.y_image, py, 1, c->k, c->out_h,
                      c->out_w);
        for (int g = 0; g < c->groups; g++) {
            gemm((struct matrix){w + (size_t)g * (size_t)s.m * (size_t)s.k, s.m,
                                 s.k, true, 0},
                 (struct matrix){py + (size_t)g * (size_t)s.m * (size_t)s.p,
                                 s.m, s.p, false, 0},
                 0, column, s.p);
            col2im(&s.column, column,
                   px + (size_t)g * s.in / (size_t)c->groups);
        }
        conv_to_blocked(px, dx + (size_t)i * s.x_image, 1, c->c, c->h, c->w);
    }
}

static void backward_weights(const struct conv *c, const float *x,
                             const float *dy, float *dw, float *scratch)
{
    const struct sizes s = sizes_of(c);
    float *column = scratch, *px = column + (size_t)s.k * (size_t)s.p;
    float *py = px + s.in;
    for (int i = 0; i < c->n; i++) {
        const float *from = plain_x(c, x + (size_t)i * s.x_image, px);
        conv_to_plain(dy + (size_t)i * s.y_image, py, 1, c->k, c->out_h,
                      c->out_w);
        for (int g = 0; g < c->groups; g++) {
            im2col(&s.column, from + (size_t)g * s.in / (size_t)c->groups,
                   column);
            gemm((struct matrix){py + (size_t)g * (size_t)s.m * (size_t)s.p,
                                 s.m, s.p, false, 0},
                 (struct matrix){column, s.k, s.p, true, 0}, 1,
                 dw + (size_t)g * (size_t)s.m * (size_t)s.k, s.k);
        }
    }
}

static size_t scratch_of(const struct conv *c, enum conv_pass pass)
{
    const struct sizes s = sizes_of(c);
    (void)pass;
    return (size_t)s.k * (size_t)s.p + s.in + s.out;
}

const struct conv_method conv_gemm = {
    .name = "gemm",
    .cannot = cannot,
    .scratch = scratch_of,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
};
