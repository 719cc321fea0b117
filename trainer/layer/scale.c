/* SPDX-License-Identifier: MIT */
/* scale: y = x g, one number a channel. */
#include "kernels/lanes.h"
#include "layer/channel.h"

static void describe(const struct layer *l, struct layer_param *to, int most)
{
    channel_describe(l, "weight", to, most);
}

static void init(struct layer *l, uint64_t seed)
{
    (void)seed;
    channel_fill(l, 1);
}

/* to = from g */
static void multiply(const struct layer *l, struct tensor from, float *to)
{
    for (int i = 0; i < from.shape.n; i++)
        for (int b = 0; b < shape_blocks(l->in); b++) {
            const struct channel_run r = channel_run(l->in, i, b);
            const float zeros[BLOCK] = {0};
            float g[BLOCK];
            channel_load(l->in, l->params, b, 0, g);
            lanes()->affine(from.x + r.first, g, zeros, to + r.first, r.count);
        }
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    multiply(l, *x, y.x);
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    static const float zeros[BLOCK];
    for (int b = 0; b < shape_blocks(l->in); b++) {
        double sums[BLOCK] = {0}, products[BLOCK] = {0};
        for (int i = 0; i < y.shape.n; i++) {
            const struct channel_run r = channel_run(l->in, i, b);
            lanes()->sum(dy.x + r.first, x->x + r.first, zeros, r.count, sums,
                         products);
        }
        channel_add(l->in, products, b, l->grads);
    }
    if (dx->x)
        multiply(l, dy, dx->x);
}

const struct layer_ops layer_scale = {
    .name = "scale",
    .reads = READS_X,
    .parse = channel_parse,
    .describe = describe,
    .init = init,
    .forward = forward,
    .backward = backward,
};
