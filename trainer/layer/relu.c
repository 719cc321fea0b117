/* SPDX-License-Identifier: MIT */
/* relu: max(x, 0), with gradient 0 at 0. */
#include "layer/words.h"

static void forward(struct layer *l, struct tensor x, struct tensor y)
{
    (void)l;
    const size_t count = shape_count(x.shape);
    for (size_t i = 0; i < count; i++)
        y.x[i] = x.x[i] > 0 ? x.x[i] : 0;
}

static void backward(struct layer *l, struct tensor x, struct tensor y,
                     struct tensor dy, struct tensor dx)
{
    (void)l;
    (void)y;
    const size_t count = dx.x ? shape_count(x.shape) : 0;
    for (size_t i = 0; i < count; i++)
        dx.x[i] = x.x[i] > 0 ? dy.x[i] : 0;
}

const struct layer_ops layer_relu = {
    .name = "relu",
    .parse = plain_parse,
    .forward = forward,
    .backward = backward,
};
