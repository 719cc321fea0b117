/* SPDX-License-Identifier: MIT */
/* batchnorm [eps E] [momentum M]: each channel less its mean, divided by its
 * deviation, times weight, plus bias (Ioffe and Szegedy, ICML 2015).
 *
 * In training mean and variance are those of this rank's images; state keeps
 * their running means, and evaluation uses those: mean, then variance, which is
 * that of a sample (divided by count - 1), as PyTorch has it.
 */
#include "layer/batchnorm.h"

#include <math.h>

#include "kernels/lanes.h"
#include "kernels/norm.h"
#include "layer/channel.h"
#include "layer/words.h"

/* Tensors of more bytes are written past the caches: whoever reads them next
 * would not find them there. */
enum { CACHE = 16 << 20 };

static const char *parse(struct layer *l, int nwords, char **words)
{
    l->option.batchnorm.eps = 1e-5f;
    l->option.batchnorm.momentum = 0.1f;
    const struct real_option options[] = {
        {"eps",      1e-12f, 1, &l->option.batchnorm.eps     },
        {"momentum", 0,      1, &l->option.batchnorm.momentum},
        {NULL,       0,      0, NULL                         },
    };
    l->out = l->in;
    l->nparams = l->nstate = 2 * (size_t)l->in.c;
    l->nsaved = 2 * (size_t)shape_blocks(l->in) * BLOCK;
    return reals_parse(l, options,
                       "batchnorm has eps E, above 0, and momentum M, from 0 "
                       "to 1, as in batchnorm eps 1e-5 momentum 0.1",
                       nwords, words);
}

static void describe(const struct layer *l, struct layer_param *to, int most)
{
    static const char *const names[] = {"weight", "bias", "running_mean",
                                        "running_var"};
    for (int i = 0; i < 4 && i < most; i++)
        to[i] = (struct layer_param){names[i], 1, {l->in.c}};
}

static void init(struct layer *l, uint64_t seed)
{
    (void)seed;
    for (int c = 0; c < l->in.c; c++) {
        l->params[c] = 1;
        l->params[l->in.c + c] = 0;
        l->state[c] = 0;
        l->state[l->in.c + c] = 1;
    }
}

/* This batch's mean and 1 / deviation of a block; moves the running ones. Sums
 * are of x less one of its values, so that a mean far from 0 takes no digits
 * from the variance. */
static void measure(struct layer *l, const struct tensor *x, int b, float *mean,
                    float *scale)
{
    const double count = (double)x->shape.n * (double)shape_plane(l->in);
    const double keep = 1 - (double)l->option.batchnorm.momentum;
    double sums[BLOCK] = {0}, squares[BLOCK] = {0};
    float shift[BLOCK];
    for (int k = 0; k < BLOCK; k++)
        shift[k] = x->x[channel_run(l->in, 0, b).first + (size_t)k];
    for (int i = 0; i < x->shape.n; i++) {
        const struct channel_run r = channel_run(l->in, i, b);
        lanes()->norm->moments(x->x + r.first, shift, r.count, sums, squares);
    }
    for (int k = 0; k < BLOCK; k++) {
        const double off = sums[k] / count, c = shift[k] + off;
        const double variance = fmax(squares[k] / count - off * off, 0);
        mean[k] = (float)c;
        scale[k] =
            (float)(1 / sqrt(variance + (double)l->option.batchnorm.eps));
        const int at = b * BLOCK + k;
        if (at >= l->in.c)
            continue;
        float *running = l->state + at, *running_variance = running + l->in.c;
        const double sample =
            count > 1 ? variance * count / (count - 1) : variance;
        *running = (float)(keep * (double)*running + (1 - keep) * c);
        *running_variance =
            (float)(keep * (double)*running_variance + (1 - keep) * sample);
    }
}

static void recall(const struct layer *l, int b, float *mean, float *scale)
{
    channel_load(l->in, l->state, b, 0, mean);
    channel_load(l->in, l->state + l->in.c, b, 1, scale);
    for (int k = 0; k < BLOCK; k++)
        scale[k] = 1 / sqrtf(scale[k] + l->option.batchnorm.eps);
}

/* What block b's forward has saved or is about to apply. */
static struct norm norm_of(const struct layer *l, int b, int images)
{
    const float *mean = l->saved + 2 * b * BLOCK, *scale = mean + BLOCK;
    struct norm n = {.relu = l->relu};
    n.stream = (size_t)images * image_floats(l->in) * sizeof(float) > CACHE;
    channel_load(l->in, l->params, b, 0, n.times);
    channel_load(l->in, l->params + l->in.c, b, 0, n.plus);
    for (int k = 0; k < BLOCK; k++) {
        n.mean[k] = mean[k];
        n.times[k] *= scale[k];
        n.plus[k] -= mean[k] * n.times[k];
    }
    return n;
}

void batchnorm_factors(const struct layer *l, int c, float *times, float *plus)
{
    const float variance = l->state[l->in.c + c];
    *times = l->params[c] / sqrtf(variance + l->option.batchnorm.eps);
    *plus = l->params[l->in.c + c] - l->state[c] * *times;
}

/* The second pass of a block goes back through the images, as the last ones
 * are in the nearest cache; so does backward's. */
static void forward_block(struct layer *l, const struct tensor *x, float *y,
                          int b)
{
    float *mean = l->saved + 2 * b * BLOCK, *scale = mean + BLOCK;
    if (l->training)
        measure(l, x, b, mean, scale);
    else
        recall(l, b, mean, scale);
    const struct norm n = norm_of(l, b, x->shape.n);
    for (int i = x->shape.n - 1; i >= 0; i--) {
        const struct channel_run r = channel_run(l->in, i, b);
        lanes()->norm->forward(&n, x->x + r.first, y + r.first, r.count);
    }
}

/* dx = a dy + c x + d, with one number of each a channel: mean and deviation
 * depend on all x of the batch, in evaluation on none. */
static void backward_block(struct layer *l, const struct tensor *x,
                           struct tensor dy, float *dx, int b)
{
    const float *scale = l->saved + (2 * b + 1) * BLOCK;
    struct norm n = norm_of(l, b, x->shape.n);
    double dbias[BLOCK] = {0}, dweight[BLOCK] = {0};
    for (int i = 0; i < x->shape.n; i++) {
        const struct channel_run r = channel_run(l->in, i, b);
        lanes()->norm->sums(&n, dy.x + r.first, x->x + r.first, r.count, dbias,
                            dweight);
    }
    for (int k = 0; k < BLOCK; k++)
        dweight[k] *= (double)scale[k];
    channel_add(l->in, dweight, b, l->grads);
    channel_add(l->in, dbias, b, l->grads + l->in.c);
    if (!dx)
        return;
    const double count = (double)x->shape.n * (double)shape_plane(l->in);
    for (int k = 0; k < BLOCK; k++) {
        const double a = (double)n.times[k],
                     slope = a * dweight[k] * (double)scale[k] / count;
        n.of_dy[k] = n.times[k];
        if (!l->training)
            continue;
        n.of_x[k] = (float)-slope;
        n.one[k] = (float)(slope * (double)n.mean[k] - a * dbias[k] / count);
    }
    for (int i = x->shape.n - 1; i >= 0; i--) {
        const struct channel_run r = channel_run(l->in, i, b);
        lanes()->norm->backward(&n, dy.x + r.first, x->x + r.first,
                                dx + r.first, r.count);
    }
}

/* Threads share out the blocks of channels. */
struct job {
    struct layer *l;
    const struct tensor *x;
    struct tensor dy;
    float *to; /* y, or dx */
};

static void forward_part(void *context, int i, int n)
{
    const struct job *j = context;
    int b;
    for (int left = crew_part(shape_blocks(j->l->in), i, n, &b); left > 0;
         left--, b++)
        forward_block(j->l, j->x, j->to, b);
}

static void backward_part(void *context, int i, int n)
{
    const struct job *j = context;
    int b;
    for (int left = crew_part(shape_blocks(j->l->in), i, n, &b); left > 0;
         left--, b++)
        backward_block(j->l, j->x, j->dy, j->to, b);
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    struct job j = {.l = l, .x = x, .to = y.x};
    if (x->shape.n)
        crew_run(l->crew, forward_part, &j);
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    struct job j = {l, x, dy, dx->x};
    (void)y;
    if (x->shape.n)
        crew_run(l->crew, backward_part, &j);
}

const struct layer_ops layer_batchnorm = {
    .name = "batchnorm",
    .whole = true,
    .can_relu = true,
    .reads = READS_X,
    .parse = parse,
    .describe = describe,
    .init = init,
    .forward = forward,
    .backward = backward,
};
