/* SPDX-License-Identifier: MIT */
/* avgpool HxW [stride S] [pad P]: the mean of those elements of each window
 * that lie inside the image. */
#include <string.h>

#include "layer/pool.h"

static float share(struct window v)
{
    return 1.0f / ((float)(v.bottom - v.top) * (float)(v.right - v.left));
}

static void forward(struct layer *l, struct tensor x, struct tensor y)
{
    const size_t nplanes = (size_t)x.shape.n * l->in.c;
    const float *plane = x.x;
    float *to = y.x;
    for (size_t p = 0; p < nplanes; p++, plane += (size_t)l->in.h * l->in.w)
        for (int i = 0; i < l->out.h; i++)
            for (int j = 0; j < l->out.w; j++, to++) {
                const struct window v = pool_window(l, i, j);
                float sum = 0;
                for (int r = v.top; r < v.bottom; r++)
                    for (int c = v.left; c < v.right; c++)
                        sum += plane[(size_t)r * l->in.w + c];
                *to = sum * share(v);
            }
}

static void backward(struct layer *l, struct tensor x, struct tensor y,
                     struct tensor dy, struct tensor dx)
{
    (void)y;
    const size_t nplanes = (size_t)x.shape.n * l->in.c;
    const float *from = dy.x;
    float *plane = dx.x;
    if (!plane)
        return;
    memset(plane, 0, nplanes * l->in.h * l->in.w * sizeof(float));
    for (size_t p = 0; p < nplanes; p++, plane += (size_t)l->in.h * l->in.w)
        for (int i = 0; i < l->out.h; i++)
            for (int j = 0; j < l->out.w; j++, from++) {
                const struct window v = pool_window(l, i, j);
                for (int r = v.top; r < v.bottom; r++)
                    for (int c = v.left; c < v.right; c++)
                        plane[(size_t)r * l->in.w + c] += *from * share(v);
            }
}

const struct layer_ops layer_avgpool = {
    .name = "avgpool",
    .parse = pool_parse,
    .forward = forward,
    .backward = backward,
};
