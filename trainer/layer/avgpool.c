/* SPDX-License-Identifier: MIT */
/* avgpool HxW|global [stride S] [pad P] [ceil]: the mean of those elements of
 * each window that lie inside the image. */
#include <string.h>

#include "layer/pool.h"

static float share(struct window v)
{
    return 1.0f / ((float)(v.bottom - v.top) * (float)(v.right - v.left));
}

static void mean(const float *plane, int width, struct window v, float *to)
{
    float sum[BLOCK] = {0};
    for (int i = v.top; i < v.bottom; i++)
        for (int j = v.left; j < v.right; j++)
            for (int k = 0; k < BLOCK; k++)
                sum[k] += plane[((size_t)i * width + j) * BLOCK + k];
    for (int k = 0; k < BLOCK; k++)
        to[k] = sum[k] * share(v);
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    const size_t in = shape_plane(l->in) * BLOCK,
                 nplanes = (size_t)x->shape.n * (size_t)shape_blocks(l->in);
    float *to = y.x;
    for (size_t p = 0; p < nplanes; p++)
        for (int i = 0; i < l->out.h; i++)
            for (int j = 0; j < l->out.w; j++, to += BLOCK)
                mean(x->x + p * in, l->in.w, pool_window(l, i, j), to);
}

static void give_back(float *plane, int width, struct window v, const float *dy)
{
    for (int i = v.top; i < v.bottom; i++)
        for (int j = v.left; j < v.right; j++)
            for (int k = 0; k < BLOCK; k++)
                plane[((size_t)i * width + j) * BLOCK + k] += dy[k] * share(v);
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    (void)x;
    const size_t in = shape_plane(l->in) * BLOCK,
                 nplanes = (size_t)y.shape.n * (size_t)shape_blocks(l->in);
    const float *from = dy.x;
    if (!dx->x)
        return;
    memset(dx->x, 0, nplanes * in * sizeof(float));
    for (size_t p = 0; p < nplanes; p++)
        for (int i = 0; i < l->out.h; i++)
            for (int j = 0; j < l->out.w; j++, from += BLOCK)
                give_back(dx->x + p * in, l->in.w, pool_window(l, i, j), from);
}

const struct layer_ops layer_avgpool = {
    .name = "avgpool",
    .parse = pool_parse,
    .forward = forward,
    .backward = backward,
};
