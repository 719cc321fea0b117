/* SPDX-License-Identifier: MIT */
/* conv OUTPUTS HxW [stride S] [pad P]: convolution (without flipping) with
 * bias. Per image one column matrix and one product:
 *
 *     y (M x P) = weights (M x K) column (K x P) + bias
 *
 * with M output channels, K = channels in x window, P output positions. The
 * column matrix is built again for the gradient, which costs less than keeping
 * one for each image of the batch. */
#include "kernels/gemm.h"
#include "kernels/im2col.h"
#include "layer/words.h"

static struct im2col columns_of(const struct layer *l)
{
    return (struct im2col){
        .c = l->in.c,
        .h = l->in.h,
        .w = l->in.w,
        .kernel_h = l->option.window.kernel_h,
        .kernel_w = l->option.window.kernel_w,
        .stride_h = l->option.window.stride_h,
        .stride_w = l->option.window.stride_w,
        .pad = l->option.window.pad,
        .out_h = l->out.h,
        .out_w = l->out.w,
    };
}

static int window_size(const struct layer *l) /* K */
{
    return l->in.c * l->option.window.kernel_h * l->option.window.kernel_w;
}

static const char *parse(struct layer *l, int nwords, char **words)
{
    int outputs;
    l->wrong = nwords ? words[0] : NULL;
    if (!nwords || !word_numbers(words[0], 1, 1, &outputs))
        return "conv starts with the number of its output channels, as in "
               "conv 20 5x5 stride 1 pad 2";
    l->out = l->in;
    l->out.c = outputs;
    const char *why = window_parse(l, 1, nwords - 1, words + 1);
    if (why)
        return why;
    const double k = (double)l->in.c * l->option.window.kernel_h
                     * l->option.window.kernel_w,
                 nparams = outputs * (k + 1),
                 nscratch = k * l->out.h * l->out.w;
    l->wrong = words[0];
    if (!floats_fit(nparams) || !floats_fit(nscratch))
        return "the weights or columns are too large, at most 2147483647 "
               "numbers are valid";
    l->nparams = (size_t)nparams;
    l->nscratch = (size_t)nscratch;
    return NULL;
}

static void init(struct layer *l, uint64_t seed)
{
    const size_t k = (size_t)window_size(l);
    fan_in_init(l, l->params, k * l->out.c, k, seed);
    for (int i = 0; i < l->out.c; i++)
        l->params[k * l->out.c + i] = 0;
}

static void forward(struct layer *l, struct tensor x, struct tensor y)
{
    const struct im2col s = columns_of(l);
    const int k = window_size(l), m = l->out.c, p = l->out.h * l->out.w;
    const float *bias = l->params + (size_t)m * k;
    const size_t image = (size_t)l->in.c * l->in.h * l->in.w;
    for (int i = 0; i < x.shape.n; i++) {
        float *to = y.x + (size_t)i * m * p;
        im2col(&s, x.x + i * image, l->scratch);
        for (int c = 0; c < m; c++)
            for (int j = 0; j < p; j++)
                to[(size_t)c * p + j] = bias[c];
        gemm((struct matrix){l->params, m, k, false},
             (struct matrix){l->scratch, k, p, false}, 1, to);
    }
}

/* Eight sums side by side: short chains, always in the same order. */
static float sum(const float *x, int count)
{
    float part[8] = {0};
    int i = 0;
    for (; i + 8 <= count; i += 8)
        for (int j = 0; j < 8; j++)
            part[j] += x[i + j];
    for (; i < count; i++)
        part[0] += x[i];
    return ((part[0] + part[4]) + (part[1] + part[5]))
           + ((part[2] + part[6]) + (part[3] + part[7]));
}

static void backward(struct layer *l, struct tensor x, struct tensor y,
                     struct tensor dy, struct tensor dx)
{
    (void)y;
    const struct im2col s = columns_of(l);
    const int k = window_size(l), m = l->out.c, p = l->out.h * l->out.w;
    float *dbias = l->grads + (size_t)m * k;
    const size_t image = (size_t)l->in.c * l->in.h * l->in.w;
    for (int i = 0; i < x.shape.n; i++) {
        const float *from = dy.x + (size_t)i * m * p;
        im2col(&s, x.x + i * image, l->scratch);
        gemm((struct matrix){from, m, p, false},
             (struct matrix){l->scratch, k, p, true}, 1, l->grads);
        for (int c = 0; c < m; c++)
            dbias[c] += sum(from + (size_t)c * p, p);
        if (!dx.x)
            continue;
        gemm((struct matrix){l->params, m, k, true},
             (struct matrix){from, m, p, false}, 0, l->scratch);
        col2im(&s, l->scratch, dx.x + i * image);
    }
}

const struct layer_ops layer_conv = {
    .name = "conv",
    .parse = parse,
    .init = init,
    .forward = forward,
    .backward = backward,
};
