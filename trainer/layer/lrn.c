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

/* s^-beta; the usual beta needs no powf. */
static float lowered(float s, float beta)
{
    return beta == 0.75f ? 1 / (sqrtf(s) * sqrtf(sqrtf(s))) : powf(s, -beta);
}

/* to[c] = sum of line[c + j] over the window; line begins half a window early,
 * and has zeros at both ends. */
static void window_sum(const struct layer *l, const float *line, float *to)
{
    const int channels = shape_blocks(l->in) * BLOCK;
    memset(to, 0, (size_t)channels * sizeof(float));
    for (int j = 0; j < l->option.lrn.size; j++)
        for (int c = 0; c < channels; c++)
            to[c] += line[c + j];
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    const int size = l->option.lrn.size, blocks = shape_blocks(l->in);
    const size_t plane = shape_plane(l->in), image = image_floats(l->in);
    const float alpha = l->option.lrn.alpha / (float)size;
    float *line = l->scratch, *sum = line + blocks * BLOCK + size;
    memset(line, 0, (size_t)(blocks * BLOCK + size) * sizeof(float));
    for (int i = 0; i < x->shape.n; i++)
        for (size_t p = 0; p < plane; p++) {
            const size_t at = (size_t)i * image + p * BLOCK;
            for (int c = 0; c < blocks * BLOCK; c++) {
                const float v = x->x[at + blocked_index(l->in, c, 0)];
                line[size / 2 + c] = v * v;
            }
            window_sum(l, line, sum);
            for (int c = 0; c < blocks * BLOCK; c++) {
                const size_t k = at + blocked_index(l->in, c, 0);
                const float s = l->option.lrn.k + alpha * sum[c];
                l->saved[k] = s;
                y.x[k] = x->x[k] * lowered(s, l->option.lrn.beta);
            }
        }
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    const int size = l->option.lrn.size, blocks = shape_blocks(l->in);
    const size_t plane = shape_plane(l->in), image = image_floats(l->in);
    const float beta = l->option.lrn.beta,
                share = 2 * beta * l->option.lrn.alpha / (float)size;
    float *line = l->scratch, *sum = line + blocks * BLOCK + size;
    memset(line, 0, (size_t)(blocks * BLOCK + size) * sizeof(float));
    for (int i = 0; dx->x && i < y.shape.n; i++)
        for (size_t p = 0; p < plane; p++) {
            const size_t at = (size_t)i * image + p * BLOCK;
            for (int c = 0; c < blocks * BLOCK; c++) {
                const size_t k = at + blocked_index(l->in, c, 0);
                line[size / 2 + c] = dy.x[k] * y.x[k] / l->saved[k];
            }
            window_sum(l, line, sum);
            for (int c = 0; c < blocks * BLOCK; c++) {
                const size_t k = at + blocked_index(l->in, c, 0);
                dx->x[k] = dy.x[k] * lowered(l->saved[k], beta)
                           - share * x->x[k] * sum[c];
            }
        }
}

const struct layer_ops layer_lrn = {
    .name = "lrn",
    .reads = READS_X | READS_Y,
    .parse = parse,
    .forward = forward,
    .backward = backward,
};
