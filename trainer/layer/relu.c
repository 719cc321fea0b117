/* SPDX-License-Identifier: MIT */
/* relu: max(x, 0), with gradient 0 at 0. */
#include "layer/words.h"

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    (void)l;
    const size_t count = shape_floats(x->shape);
    for (size_t i = 0; i < count; i++)
        y.x[i] = x->x[i] > 0 ? x->x[i] : 0;
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    (void)l;
    (void)x;
    const size_t count = dx->x ? shape_floats(y.shape) : 0;
    for (size_t i = 0; i < count; i++) {
        const float d = dy.x[i]; /* read in any case, so that it is no branch */
        dx->x[i] = y.x[i] > 0 ? d : 0;
    }
}

const struct layer_ops layer_relu = {
    .name = "relu",
    .reads = READS_Y,
    .in_place = true,
    .parse = plain_parse,
    .forward = forward,
    .backward = backward,
};
