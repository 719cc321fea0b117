/* SPDX-License-Identifier: MIT */
/* lrn SIZE [alpha A] [beta B] [k K]: local response normalisation over SIZE
 * neighbouring channels (Krizhevsky et al., NIPS 2012, section 3.3, with alpha
 * divided by SIZE as in Caffe and PyTorch):
 *
 *     s_c = k + alpha / SIZE * sum of x_j^2 over |j - c| <= SIZE / 2
 *     y_c = x_c s_c^-beta
 *
 * Backward computes s again, which takes less than memory to keep it. */
#include "kernels/lrn.h"

#include <string.h>

#include "kernels/lanes.h"
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
    l->wrong = nwords ? words[0] : NULL;
    if (!nwords || !word_numbers(words[0], 1, 1, &l->option.lrn.size)
        || l->option.lrn.size % 2 == 0 || l->option.lrn.size > 1023)
        return "lrn is followed by an odd number of channels up to 1023, as in "
               "lrn 5";
    l->nscratch = 2 * lrn_lines(shape_blocks(l->in), l->option.lrn.size);
    return reals_parse(l, options,
                       "after its size lrn has alpha A, beta B and k K, as in "
                       "lrn 5 alpha 0.0001 beta 0.75 k 1",
                       nwords - 1, words + 1);
}

/* With lines of zeros. */
static struct lrn lrn_of(const struct layer *l)
{
    const struct lrn n = {
        .blocks = shape_blocks(l->in),
        .size = l->option.lrn.size,
        .share = l->option.lrn.alpha / (float)l->option.lrn.size,
        .beta = l->option.lrn.beta,
        .k = l->option.lrn.k,
        .next = shape_plane(l->in) * BLOCK,
        .squares = l->scratch,
        .slopes = l->scratch + l->nscratch / 2,
    };
    memset(l->scratch, 0, l->nscratch * sizeof(float));
    return n;
}

/* backward if dx is not NULL, else forward. */
static void each_position(const struct layer *l, struct tensor x,
                          const float *dy, float *dx, float *y)
{
    const struct lrn n = lrn_of(l);
    const struct lrn_loops *by = lanes()->lrn;
    const size_t plane = shape_plane(l->in);
    for (int i = 0; i < x.shape.n; i++)
        for (size_t p = 0; p < plane; p += LRN_POSITIONS) {
            const size_t at = (size_t)i * image_floats(l->in) + p * BLOCK;
            const size_t count =
                plane - p < LRN_POSITIONS ? plane - p : LRN_POSITIONS;
            if (dx)
                by->backward(&n, x.x + at, dy + at, dx + at, count);
            else
                by->forward(&n, x.x + at, y + at, count);
        }
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    each_position(l, *x, NULL, NULL, y.x);
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    (void)y;
    if (dx->x)
        each_position(l, *x, dy.x, dx->x, NULL);
}

const struct layer_ops layer_lrn = {
    .name = "lrn",
    .reads = READS_X,
    .parse = parse,
    .forward = forward,
    .backward = backward,
};
