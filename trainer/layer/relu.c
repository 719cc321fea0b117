/* SPDX-License-Identifier: MIT */
/* relu: max(x, 0), with gradient 0 at 0. */
#include <string.h>

#include "half.h"
#include "layer/words.h"

static unsigned halves(const struct layer *l)
{
    (void)l;
    return HALF_X | HALF_Y | HALF_ALIKE;
}

static void forward_half(const uint16_t *x, uint16_t *y, size_t count)
{
    for (size_t i = 0; i < count; i++)
        y[i] = half_positive(x[i]) ? x[i] : 0;
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    const size_t count = shape_floats(x->shape);
    if (l->half) {
        forward_half((const uint16_t *)x->x, (uint16_t *)y.x, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        y.x[i] = x->x[i] > 0 ? x->x[i] : 0;
}

static void backward_half(const uint16_t *y, const uint16_t *dy, uint16_t *dx,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint16_t d = dy[i]; /* as below */
        dx[i] = half_positive(y[i]) ? d : 0;
    }
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    (void)x;
    const size_t count = dx->x ? shape_floats(y.shape) : 0;
    if (l->gated) {
        if (count && dx->x != dy.x)
            memcpy(dx->x, dy.x, (count >> l->half) * sizeof(float));
        return;
    }
    if (l->half) {
        backward_half((const uint16_t *)y.x, (const uint16_t *)dy.x,
                      (uint16_t *)dx->x, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const float d = dy.x[i]; /* read in any case, so that it is no branch */
        dx->x[i] = y.x[i] > 0 ? d : 0;
    }
}

const struct layer_ops layer_relu = {
    .name = "relu",
    .reads = READS_Y,
    .in_place = true,
    .halves = halves,
    .parse = plain_parse,
    .forward = forward,
    .backward = backward,
};
