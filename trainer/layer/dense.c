/* SPDX-License-Identifier: MIT */
/* dense OUTPUTS: y = x weights^T + bias over all numbers of an image. weights
 * has one row for each output. */
#include <string.h>

#include "kernels/gemm.h"
#include "layer/words.h"

static int inputs_of(const struct layer *l)
{
    return l->in.c * l->in.h * l->in.w;
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
    l->out = (struct shape){l->in.n, outputs, 1, 1};
    l->wrong = nwords > 1 ? words[1] : NULL;
    return nwords > 1 ? "after the number of its outputs dense has no options"
                      : NULL;
}

static void init(struct layer *l, uint64_t seed)
{
    const size_t k = (size_t)inputs_of(l);
    fan_in_init(l, l->params, k * l->out.c, k, seed);
    for (int i = 0; i < l->out.c; i++)
        l->params[k * l->out.c + i] = 0;
}

static void forward(struct layer *l, struct tensor x, struct tensor y)
{
    const int k = inputs_of(l), m = l->out.c, n = x.shape.n;
    const float *bias = l->params + (size_t)m * k;
    for (int i = 0; i < n; i++)
        memcpy(y.x + (size_t)i * m, bias, (size_t)m * sizeof(float));
    gemm((struct matrix){x.x, n, k, false},
         (struct matrix){l->params, m, k, true}, 1, y.x);
}

static void backward(struct layer *l, struct tensor x, struct tensor y,
                     struct tensor dy, struct tensor dx)
{
    (void)y;
    const int k = inputs_of(l), m = l->out.c, n = x.shape.n;
    float *dbias = l->grads + (size_t)m * k;
    gemm((struct matrix){dy.x, n, m, true}, (struct matrix){x.x, n, k, false},
         1, l->grads);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            dbias[j] += dy.x[(size_t)i * m + j];
    if (dx.x)
        gemm((struct matrix){dy.x, n, m, false},
             (struct matrix){l->params, m, k, false}, 0, dx.x);
}

const struct layer_ops layer_dense = {
    .name = "dense",
    .parse = parse,
    .init = init,
    .forward = forward,
    .backward = backward,
};
