/* SPDX-License-Identifier: MIT */
/* lrn SIZE [alpha A] [beta B] [k K]: local response normalisation over SIZE
 * neighbouring channels (Krizhevsky et al., NIPS 2012, section 3.3, with alpha
 * divided by SIZE as in Caffe and PyTorch):
 *
 *     s_c = k + alpha / SIZE * sum of x_j^2 over |j - c| <= SIZE / 2
 *     y_c = x_c s_c^-beta
 *
 * saved keeps s. */
#include <math.h>
#include <string.h>

#include "layer/words.h"

static const char *parse(struct layer *l, int nwords, char **words)
{
    l->option.lrn.alpha = 1e-4f;
    l->option.lrn.beta = 0.75f;
    l->option.lrn.k = 1;
    const struct real_option options[] = {
        {"alpha", 0,     1e6f, &l->option.lrn.alpha},
        {"beta",  0,     1e6f, &l->option.lrn.beta },
        {"k",     1e-6f, 1e6f, &l->option.lrn.k    },
        {NULL,    0,     0,    NULL                },
    };
    l->out = l->in;
    l->nsaved = shape_floats(l->in);
    l->wrong = nwords ? words[0] : NULL;
    if (!nwords || !word_numbers(words[0], 1, 1, &l->option.lrn.size)
        || l->option.lrn.size % 2 == 0 || l->option.lrn.size > 1023)
        return "lrn is followed by an odd number of channels up to 1023, as in "
               "lrn 5";
    /* A channel and its neighbours, twice. */
    l->nscratch =
        2 * ((size_t)shape_blocks(l->in) * BLOCK + (size_t)l->option.lrn.size);
    return reals_parse(l, options,
                       "after its size lrn has alpha A, beta B and k K, as in "
                       "lrn 5 alpha 0.0001 beta 0.75 k 1",
                       nwords - 1, words + 1);
}

/* x = s^-beta; the usual beta needs no powf. */
static void lower(const float *s, float beta, float *x)
{
    if (beta == 0.75f)
        for (int k = 0; k < BLOCK; k++)
            x[k] = 1 / (sqrtf(s[k]) * sqrtf(sqrtf(s[k])));
    else
        for (int k = 0; k < BLOCK; k++)
            x[k] = powf(s[k], -beta);
}

/* The sums of a position's channels over their windows: line has half a window
 * of zeros at both ends. */
struct sums {
    int blocks, size;
    size_t next; /* floats to the next block of a tensor */
    float *line, *sum;
};

static struct sums sums_of(const struct layer *l)
{
    struct sums s = {
        .blocks = shape_blocks(l->in),
        .size = l->option.lrn.size,
        .next = shape_plane(l->in) * BLOCK,
        .line = l->scratch,
    };
    const size_t floats = (size_t)(s.blocks * BLOCK + s.size);
    memset(s.line, 0, floats * sizeof(float));
    s.sum = s.line + floats;
    return s;
}

static void add_up(const struct sums *s)
{
    for (int c = 0; c < s->blocks * BLOCK; c += BLOCK) {
        float sum[BLOCK] = {0};
        for (int j = 0; j < s->size; j++)
            for (int k = 0; k < BLOCK; k++)
                sum[k] += s->line[c + j + k];
        memcpy(s->sum + c, sum, sizeof(sum));
    }
}

static void forward_position(const struct layer *l, const struct sums *s,
                             const float *x, float *saved, float *y)
{
    const float alpha = l->option.lrn.alpha / (float)s->size;
    const float beta = l->option.lrn.beta, least = l->option.lrn.k;
    float *middle = s->line + s->size / 2;
    for (int b = 0; b < s->blocks; b++)
        for (int k = 0; k < BLOCK; k++) {
            const float v = x[(size_t)b * s->next + (size_t)k];
            middle[b * BLOCK + k] = v * v;
        }
    add_up(s);
    for (int b = 0; b < s->blocks; b++) {
        const size_t at = (size_t)b * s->next;
        float raised[BLOCK], lowered[BLOCK];
        for (int k = 0; k < BLOCK; k++)
            raised[k] = least + alpha * s->sum[b * BLOCK + k];
        lower(raised, beta, lowered);
        for (int k = 0; k < BLOCK; k++)
            lowered[k] *= x[at + (size_t)k];
        memcpy(saved + at, raised, sizeof(raised));
        memcpy(y + at, lowered, sizeof(lowered));
    }
}

static void backward_position(const struct layer *l, const struct sums *s,
                              const float *x, const float *saved,
                              const float *y, const float *dy, float *dx)
{
    const float beta = l->option.lrn.beta;
    const float share = 2 * beta * l->option.lrn.alpha / (float)s->size;
    float *middle = s->line + s->size / 2;
    for (int b = 0; b < s->blocks; b++)
        for (int k = 0; k < BLOCK; k++) {
            const size_t at = (size_t)b * s->next + (size_t)k;
            middle[b * BLOCK + k] = dy[at] * y[at] / saved[at];
        }
    add_up(s);
    for (int b = 0; b < s->blocks; b++) {
        const size_t at = (size_t)b * s->next;
        float lowered[BLOCK];
        lower(saved + at, beta, lowered);
        for (int k = 0; k < BLOCK; k++)
            lowered[k] = dy[at + (size_t)k] * lowered[k]
                         - share * x[at + (size_t)k] * s->sum[b * BLOCK + k];
        memcpy(dx + at, lowered, sizeof(lowered));
    }
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    const struct sums s = sums_of(l);
    for (int i = 0; i < y.shape.n; i++)
        for (size_t p = 0; p < shape_plane(l->in); p++) {
            const size_t at = (size_t)i * image_floats(l->in) + p * BLOCK;
            forward_position(l, &s, x->x + at, l->saved + at, y.x + at);
        }
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    const struct sums s = sums_of(l);
    for (int i = 0; dx->x && i < y.shape.n; i++)
        for (size_t p = 0; p < shape_plane(l->in); p++) {
            const size_t at = (size_t)i * image_floats(l->in) + p * BLOCK;
            backward_position(l, &s, x->x + at, l->saved + at, y.x + at,
                              dy.x + at, dx->x + at);
        }
}

const struct layer_ops layer_lrn = {
    .name = "lrn",
    .reads = READS_X | READS_Y,
    .parse = parse,
    .forward = forward,
    .backward = backward,
};
