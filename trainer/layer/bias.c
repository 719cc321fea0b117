/* SPDX-License-Identifier: MIT */
/* bias: y = x + b, one number a channel. */
#include "kernels/lanes.h"
#include "layer/channel.h"

static void describe(const struct layer *l, struct layer_param *to, int most)
{
    channel_describe(l, "bias", to, most);
}

static void init(struct layer *l, uint64_t seed)
{
    (void)seed;
    channel_fill(l, 0);
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    for (int i = 0; i < x->shape.n; i++)
        for (int b = 0; b < shape_blocks(l->in); b++) {
            const struct channel_run r = channel_run(l->in, i, b);
            float ones[BLOCK], bias[BLOCK];
            for (int k = 0; k < BLOCK; k++)
                ones[k] = 1;
            channel_load(l->in, l->params, b, 0, bias);
            lanes()->affine(x->x + r.first, ones, bias, y.x + r.first, r.count);
        }
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    (void)x;
    for (int b = 0; b < shape_blocks(l->in); b++) {
        double sums[BLOCK] = {0};
        for (int i = 0; i < y.shape.n; i++) {
            const struct channel_run r = channel_run(l->in, i, b);
            lanes()->sum(dy.x + r.first, NULL, NULL, r.count, sums, NULL);
        }
        channel_add(l->in, sums, b, l->grads);
    }
    const size_t count = dx->x && dx->x != dy.x ? shape_floats(y.shape) : 0;
    for (size_t i = 0; i < count; i++)
        dx->x[i] = dy.x[i];
}

const struct layer_ops layer_bias = {
    .name = "bias",
    .in_place = true,
    .parse = channel_parse,
    .describe = describe,
    .init = init,
    .forward = forward,
    .backward = backward,
};
