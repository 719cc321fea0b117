/* SPDX-License-Identifier: MIT */
/* scale: y = x g, one number a channel. */
#include "layer/channel.h"
#include "layer/words.h"

static const char *parse(struct layer *l, int nwords, char **words)
{
    l->nparams = (size_t)l->in.c;
    return plain_parse(l, nwords, words);
}

static void describe(const struct layer *l, struct layer_param *to, int most)
{
    if (most > 0)
        to[0] = (struct layer_param){"weight", 1, {l->in.c}};
}

static void init(struct layer *l, uint64_t seed)
{
    (void)seed;
    for (int c = 0; c < l->in.c; c++)
        l->params[c] = 1;
}

/* to = from g */
static void multiply(const struct layer *l, struct tensor from, float *to)
{
    for (int i = 0; i < from.shape.n; i++)
        for (int b = 0; b < shape_blocks(l->in); b++) {
            const struct channel_run r = channel_run(l->in, i, b);
            float g[BLOCK];
            channel_load(l->in, l->params, b, 0, g);
            for (size_t p = 0; p < r.count; p++)
                for (int k = 0; k < BLOCK; k++)
                    to[r.first + p * BLOCK + k] =
                        from.x[r.first + p * BLOCK + k] * g[k];
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
        double sums[BLOCK] = {0};
        for (int i = 0; i < y.shape.n; i++) {
            const struct channel_run r = channel_run(l->in, i, b);
            channel_sum(dy.x + r.first, x->x + r.first, zeros, r.count, sums);
        }
        channel_add(l->in, sums, b, l->grads);
    }
    if (dx->x)
        multiply(l, dy, dx->x);
}

const struct layer_ops layer_scale = {
    .name = "scale",
    .reads = READS_X,
    .parse = parse,
    .describe = describe,
    .init = init,
    .forward = forward,
    .backward = backward,
};
