/* SPDX-License-Identifier: MIT */
/* maxpool HxW [stride S] [pad P]: the largest of each window; padding never
 * wins. The gradient goes to the first of equal ones. */
#include <string.h>

#include "layer/pool.h"

/* Index in plane of the first largest element of a window. */
static size_t largest(const struct layer *l, const float *plane,
                      struct window v)
{
    size_t best = (size_t)v.top * l->in.w + v.left;
    for (int i = v.top; i < v.bottom; i++)
        for (int j = v.left; j < v.right; j++)
            if (plane[(size_t)i * l->in.w + j] > plane[best])
                best = (size_t)i * l->in.w + j;
    return best;
}

static void forward(struct layer *l, struct tensor x, struct tensor y)
{
    const size_t in = (size_t)l->in.h * l->in.w,
                 nplanes = (size_t)x.shape.n * l->in.c;
    float *to = y.x;
    for (size_t p = 0; p < nplanes; p++)
        for (int i = 0; i < l->out.h; i++)
            for (int j = 0; j < l->out.w; j++, to++)
                *to = x.x[p * in
                          + largest(l, x.x + p * in, pool_window(l, i, j))];
}

static void backward(struct layer *l, struct tensor x, struct tensor y,
                     struct tensor dy, struct tensor dx)
{
    (void)y;
    const size_t in = (size_t)l->in.h * l->in.w,
                 nplanes = (size_t)x.shape.n * l->in.c;
    const float *from = dy.x;
    if (!dx.x)
        return;
    memset(dx.x, 0, nplanes * in * sizeof(float));
    for (size_t p = 0; p < nplanes; p++)
        for (int i = 0; i < l->out.h; i++)
            for (int j = 0; j < l->out.w; j++, from++)
                dx.x[p * in + largest(l, x.x + p * in, pool_window(l, i, j))] +=
                    *from;
}

const struct layer_ops layer_maxpool = {
    .name = "maxpool",
    .parse = pool_parse,
    .forward = forward,
    .backward = backward,
};
