/* SPDX-License-Identifier: MIT */
/* prelu: x where it is positive, else x times a slope, one a channel, that is
 * learned (He et al., ICCV 2015). At 0 the gradient is the slope's. */
#include "layer/channel.h"

static void describe(const struct layer *l, struct layer_param *to, int most)
{
    channel_describe(l, "weight", to, most);
}

static void init(struct layer *l, uint64_t seed)
{
    (void)seed;
    channel_fill(l, 0.25f);
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    for (int i = 0; i < x->shape.n; i++)
        for (int b = 0; b < shape_blocks(l->in); b++) {
            const struct channel_run r = channel_run(l->in, i, b);
            const float *from = x->x + r.first;
            float *to = y.x + r.first, slope[BLOCK];
            channel_load(l->in, l->params, b, 0, slope);
            for (size_t p = 0; p < r.count; p++)
                for (int k = 0; k < BLOCK; k++) {
                    const float v = from[p * BLOCK + k];
                    to[p * BLOCK + k] = v > 0 ? v : v * slope[k];
                }
        }
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    for (int b = 0; b < shape_blocks(l->in); b++) {
        double sums[BLOCK] = {0};
        float slope[BLOCK];
        channel_load(l->in, l->params, b, 0, slope);
        for (int i = 0; i < y.shape.n; i++) {
            const struct channel_run r = channel_run(l->in, i, b);
            const float *v = x->x + r.first, *d = dy.x + r.first;
            for (size_t p = 0; p < r.count * BLOCK; p++)
                sums[p % BLOCK] += v[p] > 0 ? 0 : (double)v[p] * (double)d[p];
            for (size_t p = 0; dx->x && p < r.count * BLOCK; p++)
                dx->x[r.first + p] = v[p] > 0 ? d[p] : d[p] * slope[p % BLOCK];
        }
        channel_add(l->in, sums, b, l->grads);
    }
}

const struct layer_ops layer_prelu = {
    .name = "prelu",
    .reads = READS_X,
    .parse = channel_parse,
    .describe = describe,
    .init = init,
    .forward = forward,
    .backward = backward,
};
