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
#include <stdint.h>
#include <string.h>

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

struct sums {
    double a[BLOCK], b[BLOCK];
};

/* A block of channels, forward or backward: first something is summed over all
 * its runs, one of each image, then something is written. */
struct block {
    struct layer *l;
    const struct tensor *x;
    struct tensor dy;
    float *to; /* y, or dx */
    int b;
    struct norm norm;
    void (*sum)(const struct block *, size_t run, size_t count, struct sums *);
    void (*write)(const struct block *, size_t run, size_t count);
    struct sums part[CREW_PARTS];
};

static void sum_parts(void *context, int i, int n)
{
    struct block *k = context;
    int part, first;
    for (int left = crew_part(CREW_PARTS, i, n, &part); left > 0;
         left--, part++) {
        struct sums s = {{0}, {0}};
        for (int m = crew_part(k->x->shape.n, part, CREW_PARTS, &first); m > 0;
             m--, first++) {
            const struct channel_run r = channel_run(k->l->in, first, k->b);
            k->sum(k, r.first, r.count, &s);
        }
        k->part[part] = s;
    }
}

static struct sums sum_up(struct block *k, struct crew *crew)
{
    struct sums all = {{0}, {0}};
    crew_run(crew, sum_parts, k);
    for (int i = 0; i < CREW_PARTS; i++)
        for (int c = 0; c < BLOCK; c++) {
            all.a[c] += k->part[i].a[c];
            all.b[c] += k->part[i].b[c];
        }
    return all;
}

/* Goes back through the images, as the last ones are in the nearest cache. */
static void write_parts(void *context, int i, int n)
{
    const struct block *k = context;
    int part, first;
    for (int left = crew_part(CREW_PARTS, i, n, &part); left > 0; left--)
        for (int m =
                 crew_part(k->x->shape.n, part + left - 1, CREW_PARTS, &first);
             m > 0; m--) {
            const struct channel_run r =
                channel_run(k->l->in, first + m - 1, k->b);
            k->write(k, r.first, r.count);
        }
}

/* Where x and dy have number `run`. */
static const float *x_at(const struct block *k, size_t run)
{
    return k->x->x + (run >> k->l->half_x);
}

static const float *dy_at(const struct block *k, size_t run)
{
    return k->dy.x + (run >> k->l->half);
}

static void moments(const struct block *k, size_t run, size_t count,
                    struct sums *s)
{
    norm_loops(&k->norm)->moments(&k->norm, x_at(k, run), count, s->a, s->b);
}

/* The first position's numbers. */
static void first_of(const struct block *k, float *to)
{
    const float *x = x_at(k, channel_run(k->l->in, 0, k->b).first);
    if (!k->l->half_x) {
        memcpy(to, x, BLOCK * sizeof(float));
        return;
    }
    for (int c = 0; c < BLOCK; c++) {
        const uint32_t bits = (uint32_t)((const uint16_t *)x)[c] << 16;
        memcpy(&to[c], &bits, sizeof(bits));
    }
}

/* This batch's mean and 1 / deviation of a block; moves the running ones. Sums
 * are of x less one of its values, so that a mean far from 0 takes no digits
 * from the variance. */
static void measure(struct block *k, struct crew *crew, float *mean,
                    float *scale)
{
    struct layer *l = k->l;
    const double count = (double)k->x->shape.n * (double)shape_plane(l->in);
    const double keep = 1 - (double)l->option.batchnorm.momentum;
    k->norm.half_x = l->half_x;
    first_of(k, k->norm.mean);
    k->sum = moments;
    const struct sums s = sum_up(k, crew);
    for (int i = 0; i < BLOCK; i++) {
        const double off = s.a[i] / count, c = k->norm.mean[i] + off;
        const double variance = fmax(s.b[i] / count - off * off, 0);
        mean[i] = (float)c;
        scale[i] =
            (float)(1 / sqrt(variance + (double)l->option.batchnorm.eps));
        const int at = k->b * BLOCK + i;
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

/* Whether what is written is too much for a cache. */
static bool streams(const struct block *k, bool half)
{
    const size_t numbers = (size_t)k->x->shape.n * image_floats(k->l->in);
    return numbers * (half ? sizeof(uint16_t) : sizeof(float)) > CACHE;
}

/* What block b's forward has saved or is about to apply. */
static struct norm norm_of(const struct layer *l, int b)
{
    const float *mean = l->saved + 2 * b * BLOCK, *scale = mean + BLOCK;
    struct norm n = {.relu = l->relu, .half_x = l->half_x, .half_y = l->half};
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

/* The sum that this does as well, or NULL. */
static const struct layer *sum_of(const struct layer *l)
{
    return l->training ? l->sum : NULL;
}

static void write_y(const struct block *k, size_t run, size_t count)
{
    const size_t at = run >> k->norm.half_y;
    norm_loops(&k->norm)->forward(&k->norm, x_at(k, run),
                                  sum_of(k->l) ? k->x[1].x + at : NULL,
                                  k->to + at, count);
}

static void forward_block(struct block *k, struct crew *crew)
{
    struct layer *l = k->l;
    float *mean = l->saved + 2 * k->b * BLOCK, *scale = mean + BLOCK;
    if (l->training)
        measure(k, crew, mean, scale);
    else
        recall(l, k->b, mean, scale);
    k->norm = norm_of(l, k->b);
    if (sum_of(l)) {
        k->norm.relu = sum_of(l)->relu;
        k->norm.half_y = sum_of(l)->half;
    }
    k->norm.stream = streams(k, k->norm.half_y);
    k->write = write_y;
    crew_run(crew, write_parts, k);
}

static void gradients(const struct block *k, size_t run, size_t count,
                      struct sums *s)
{
    norm_loops(&k->norm)->sums(&k->norm, dy_at(k, run), x_at(k, run), count,
                               s->a, s->b);
}

static void write_dx(const struct block *k, size_t run, size_t count)
{
    norm_loops(&k->norm)->backward(&k->norm, dy_at(k, run), x_at(k, run),
                                   k->to + (run >> k->l->half_x), count);
}

/* dx = a dy + c x + d, with one number of each a channel: mean and deviation
 * depend on all x of the batch, in evaluation on none. */
static void backward_block(struct block *k, struct crew *crew)
{
    struct layer *l = k->l;
    const float *scale = l->saved + (2 * k->b + 1) * BLOCK;
    struct norm *n = &k->norm;
    *n = norm_of(l, k->b);
    n->stream = streams(k, l->half_x) && k->to != k->dy.x; /* in a cache */
    k->sum = gradients;
    struct sums s = sum_up(k, crew); /* of bias and weight */
    for (int c = 0; c < BLOCK; c++)
        s.b[c] *= (double)scale[c];
    channel_add(l->in, s.b, k->b, l->grads);
    channel_add(l->in, s.a, k->b, l->grads + l->in.c);
    if (!k->to)
        return;
    const double count = (double)k->x->shape.n * (double)shape_plane(l->in);
    for (int c = 0; c < BLOCK; c++) {
        const double a = (double)n->times[c],
                     slope = a * s.b[c] * (double)scale[c] / count;
        n->of_dy[c] = n->times[c];
        if (!l->training)
            continue;
        n->of_x[c] = (float)-slope;
        n->one[c] = (float)(slope * (double)n->mean[c] - a * s.a[c] / count);
    }
    k->write = write_dx;
    crew_run(crew, write_parts, k);
}

/* Threads share out the blocks of channels. */
struct job {
    struct block block; /* but for b */
    void (*run)(struct block *, struct crew *);
};

static void run_blocks(void *context, int i, int n)
{
    const struct job *j = context;
    struct block k = j->block;
    for (int left = crew_part(shape_blocks(k.l->in), i, n, &k.b); left > 0;
         left--, k.b++)
        j->run(&k, NULL);
}

static int up(int a, int b)
{
    return (a + b - 1) / b;
}

/* Or the images of each block, where less is then left to the thread that has
 * most: so many parts of blocks, of as many parts as there are images. */
static void share_out(struct job *j)
{
    struct block *k = &j->block;
    struct crew *crew = k->l->crew;
    const int blocks = shape_blocks(k->l->in), threads = crew_size(crew),
              n = k->x->shape.n, parts = n < CREW_PARTS ? n : CREW_PARTS;
    if (!n)
        return;
    if (blocks * up(parts, threads) < parts * up(blocks, threads))
        for (k->b = 0; k->b < blocks; k->b++)
            j->run(k, crew);
    else
        crew_run(crew, run_blocks, j);
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    share_out(&(struct job){
        {.l = l, .x = x, .to = y.x},
        forward_block
    });
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    (void)y;
    share_out(&(struct job){
        {.l = l, .x = x, .dy = dy, .to = dx->x},
        backward_block
    });
}

static unsigned halves(const struct layer *l)
{
    (void)l;
    return HALF_X | HALF_Y;
}

const struct layer_ops layer_batchnorm = {
    .name = "batchnorm",
    .whole = true,
    .can_relu = true,
    .over_dy = true,
    .reads = READS_X,
    .halves = halves,
    .parse = parse,
    .describe = describe,
    .init = init,
    .forward = forward,
    .backward = backward,
};
