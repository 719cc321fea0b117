/* SPDX-License-Identifier: MIT */
/* maxpool HxW|global [stride S] [pad P] [ceil]: the largest of each window;
 * padding never wins. The gradient goes to the first of equal ones. */
#include <string.h>

#include "layer/pool.h"

/* Of 16 channels. */
static void largest(const float *plane, int width, struct window v, float *to)
{
    float best[BLOCK];
    memcpy(best, plane + ((size_t)v.top * width + v.left) * BLOCK,
           sizeof(best));
    for (int i = v.top; i < v.bottom; i++)
        for (int j = v.left; j < v.right; j++) {
            const float *x = plane + ((size_t)i * width + j) * BLOCK;
            for (int k = 0; k < BLOCK; k++)
                best[k] = x[k] > best[k] ? x[k] : best[k];
        }
    memcpy(to, best, sizeof(best));
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    const size_t in = shape_plane(l->in) * BLOCK,
                 nplanes = (size_t)x->shape.n * (size_t)shape_blocks(l->in);
    float *to = y.x;
    for (size_t p = 0; p < nplanes; p++)
        for (int i = 0; i < l->out.h; i++)
            for (int j = 0; j < l->out.w; j++, to += BLOCK)
                largest(x->x + p * in, l->in.w, pool_window(l, i, j), to);
}

/* Adds to the first elements of a window that are equal to y. */
static void give_back(const float *plane, int width, struct window v,
                      const float *y, const float *dy, float *dx)
{
    float left[BLOCK]; /* of dy, where the element is yet to come */
    memcpy(left, dy, sizeof(left));
    for (int i = v.top; i < v.bottom; i++)
        for (int j = v.left; j < v.right; j++) {
            const size_t at = ((size_t)i * width + j) * BLOCK;
            for (int k = 0; k < BLOCK; k++) {
                const float given = plane[at + k] == y[k] ? left[k] : 0;
                dx[at + k] += given;
                left[k] = plane[at + k] == y[k] ? 0 : left[k];
            }
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
    size_t at = 0;
    for (size_t p = 0; p < nplanes; p++)
        for (int i = 0; i < l->out.h; i++)
            for (int j = 0; j < l->out.w; j++, at += BLOCK)
                give_back(x->x + p * in, l->in.w, pool_window(l, i, j),
                          y.x + at, dy.x + at, dx->x + p * in);
}

const struct layer_ops layer_maxpool = {
    .name = "maxpool",
    .reads = READS_X | READS_Y,
    .parse = pool_parse,
    .forward = forward,
    .backward = backward,
};
