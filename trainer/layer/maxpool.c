/* SPDX-License-Identifier: MIT */
/* maxpool HxW|global [stride S] [pad P] [ceil]: the largest of each window;
 * padding never wins. The gradient goes to the first of equal ones. */
#include <string.h>

#include "kernels/lanes.h"
#include "layer/pool.h"

static struct lanes_window inside(const struct layer *l, struct window v)
{
    return (struct lanes_window){v.bottom - v.top, v.right - v.left,
                                 (size_t)l->in.w * BLOCK};
}

static size_t corner(const struct layer *l, struct window v)
{
    return ((size_t)v.top * (size_t)l->in.w + (size_t)v.left) * BLOCK;
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    const size_t in = shape_plane(l->in) * BLOCK,
                 nplanes = (size_t)x->shape.n * (size_t)shape_blocks(l->in);
    const struct lanes *by = lanes();
    float *to = y.x;
    for (size_t p = 0; p < nplanes; p++)
        for (int i = 0; i < l->out.h; i++)
            for (int j = 0; j < l->out.w; j++, to += BLOCK) {
                const struct window v = pool_window(l, i, j);
                by->largest(x->x + p * in + corner(l, v), inside(l, v), to);
            }
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    const size_t in = shape_plane(l->in) * BLOCK,
                 nplanes = (size_t)x->shape.n * (size_t)shape_blocks(l->in);
    if (!dx->x)
        return;
    memset(dx->x, 0, nplanes * in * sizeof(float));
    const struct lanes *by = lanes();
    size_t at = 0;
    for (size_t p = 0; p < nplanes; p++)
        for (int i = 0; i < l->out.h; i++)
            for (int j = 0; j < l->out.w; j++, at += BLOCK) {
                const struct window v = pool_window(l, i, j);
                const size_t first = p * in + corner(l, v);
                by->to_largest(x->x + first, inside(l, v), y.x + at, dy.x + at,
                               dx->x + first);
            }
}

const struct layer_ops layer_maxpool = {
    .name = "maxpool",
    .reads = READS_X | READS_Y,
    .parse = pool_parse,
    .forward = forward,
    .backward = backward,
};
