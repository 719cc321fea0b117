/* SPDX-License-Identifier: MIT */
/* dense OUTPUTS: y = x weights^T + bias over all numbers of an image, in the
 * order channel, row, column. weights has one row for each output.
 *
 * With H = W = 1 an image is a row already; else it is reordered into one, here
 * and nowhere else in a net. */
#include <string.h>

#include "kernels/conv.h"
#include "kernels/gemm.h"
#include "layer/words.h"

static int inputs_of(const struct layer *l)
{
    return l->in.c * l->in.h * l->in.w;
}

static bool are_rows(const struct layer *l)
{
    return shape_plane(l->in) == 1;
}

static const char *parse(struct layer *l, int nwords, char **words)
{
    int outputs;
    l->wrong = nwords ? words[0] : NULL;
    if (!nwords || !word_numbers(words[0], 1, 1, &outputs))
        return "dense is followed by the number of its outputs, as in "
               "dense 500";
    if (!floats_fit(outputs * (inputs_of(l) + 1.0)))
        return "the weights are too large, at most 2147483647 numbers are "
               "valid";
    l->nparams = (size_t)outputs * ((size_t)inputs_of(l) + 1);
    l->nscratch = are_rows(l) ? 0 : shape_count(l->in);
    l->out = (struct shape){l->in.n, outputs, 1, 1};
    l->wrong = nwords > 1 ? words[1] : NULL;
    return nwords > 1 ? "after the number of its outputs dense has no options"
                      : NULL;
}

static void describe(const struct layer *l, struct layer_param *to, int most)
{
    if (most > 1) {
        to[0] = (struct layer_param){
            "weight", 2, {l->out.c, inputs_of(l)}
        };
        to[1] = (struct layer_param){"bias", 1, {l->out.c}};
    }
}

static void init(struct layer *l, uint64_t seed)
{
    const size_t k = (size_t)inputs_of(l);
    fan_in_init(l, l->params, k * l->out.c, k, seed);
    for (int i = 0; i < l->out.c; i++)
        l->params[k * l->out.c + i] = 0;
}

/* The images as rows. */
static struct matrix rows_of(struct layer *l, struct tensor x)
{
    const int k = inputs_of(l);
    if (are_rows(l))
        return (struct matrix){x.x, x.shape.n, k, false,
                               (int)image_floats(l->in)};
    conv_to_plain(x.x, l->scratch, x.shape.n, l->in.c, l->in.h, l->in.w);
    return (struct matrix){l->scratch, x.shape.n, k, false, k};
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    const int k = inputs_of(l), m = l->out.c, n = x->shape.n;
    const int stride = (int)image_floats(l->out);
    const float *bias = l->params + (size_t)m * k;
    memset(y.x, 0, shape_floats(y.shape) * sizeof(float));
    for (int i = 0; i < n; i++)
        memcpy(y.x + (size_t)i * stride, bias, (size_t)m * sizeof(float));
    gemm(rows_of(l, *x), (struct matrix){l->params, m, k, true, 0}, 1, y.x,
         stride);
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    const int k = inputs_of(l), m = l->out.c, n = y.shape.n;
    const int stride = (int)image_floats(l->out);
    const struct matrix back = {dy.x, n, m, false, stride};
    float *dbias = l->grads + (size_t)m * k;
    gemm((struct matrix){dy.x, n, m, true, stride}, rows_of(l, *x), 1, l->grads,
         k);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            dbias[j] += dy.x[(size_t)i * stride + j];
    if (!dx->x)
        return;
    if (are_rows(l)) {
        memset(dx->x, 0, shape_floats(dx->shape) * sizeof(float));
        gemm(back, (struct matrix){l->params, m, k, false, 0}, 1, dx->x,
             (int)image_floats(l->in));
        return;
    }
    gemm(back, (struct matrix){l->params, m, k, false, 0}, 0, l->scratch, k);
    conv_to_blocked(l->scratch, dx->x, n, l->in.c, l->in.h, l->in.w);
}

const struct layer_ops layer_dense = {
    .name = "dense",
    .reads = READS_X,
    .parse = parse,
    .describe = describe,
    .init = init,
    .forward = forward,
    .backward = backward,
};
