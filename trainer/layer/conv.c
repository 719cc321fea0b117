/* SPDX-License-Identifier: MIT */
/* conv OUTPUTS HxW [stride S] [pad P]: convolution (without flipping) with
 * bias. Where channels fill blocks of 16, by the kernels that want 16 channels
 * side by side: what comes in and goes out is reordered. Else, and for kernels
 * too large for those, by a column matrix and one product per image:
 *
 *     y (M x P) = weights (M x K) column (K x P) + bias
 *
 * with M output channels, K = channels in x window, P output positions. The
 * column matrix is built again for the gradient, which costs less than keeping
 * one for each image of the batch. */
#include "kernels/conv.h"
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

/* For n images. */
static struct conv conv_of(const struct layer *l, int n)
{
    struct conv c = {
        .n = n,
        .c = l->in.c,
        .h = l->in.h,
        .w = l->in.w,
        .k = l->out.c,
        .groups = 1,
        .kernel_h = l->option.window.kernel_h,
        .kernel_w = l->option.window.kernel_w,
        .stride_h = l->option.window.stride_h,
        .stride_w = l->option.window.stride_w,
        .pad_h = l->option.window.pad,
        .pad_w = l->option.window.pad,
        .dilation_h = 1,
        .dilation_w = 1,
    };
    conv_set_outputs(&c);
    return c;
}

/* NULL: a column matrix is to do. Blocks that are not full are work for
 * nothing, and so is reordering for few of them; Winograd's transforms pay
 * where there are many channels. */
static const struct conv_method *method_of(const struct layer *l)
{
    enum { MANY = 32 };
    const struct conv c = conv_of(l, 1);
    if (c.c % CONV_BLOCK || c.k % CONV_BLOCK)
        return NULL;
    if (c.c >= MANY && c.k >= MANY && !conv_winograd.cannot(&c, CONV_FORWARD))
        return &conv_winograd;
    return conv_direct.cannot(&c, CONV_FORWARD) ? NULL : &conv_direct;
}

/* Blocked x or dx, y or dy, and what the kernels need. */
static double scratch_of(const struct layer *l,
                         const struct conv_method *method)
{
    const struct conv c = conv_of(l, l->in.n);
    double most = 0;
    for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++) {
        const double floats = (double)method->scratch(&c, pass);
        most = floats > most ? floats : most;
    }
    return most + (double)conv_blocked(c.n, c.c, c.h, c.w)
           + (double)conv_blocked(c.n, c.k, c.out_h, c.out_w);
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
                 nparams = outputs * (k + 1), columns = k * l->out.h * l->out.w;
    l->wrong = words[0];
    if (!floats_fit(nparams) || !floats_fit(columns))
        return "the weights or columns are too large, at most 2147483647 "
               "numbers are valid";
    l->nparams = (size_t)nparams;
    const struct conv_method *method = method_of(l);
    l->nscratch = (size_t)(method ? scratch_of(l, method) : columns);
    return NULL;
}

static void init(struct layer *l, uint64_t seed)
{
    const size_t k = (size_t)window_size(l);
    fan_in_init(l, l->params, k * l->out.c, k, seed);
    for (int i = 0; i < l->out.c; i++)
        l->params[k * l->out.c + i] = 0;
}

static void forward_blocked(struct layer *l, const struct conv_method *method,
                            struct tensor x, struct tensor y)
{
    const struct conv c = conv_of(l, x.shape.n);
    float *xb = l->scratch, *yb = xb + conv_blocked(c.n, c.c, c.h, c.w);
    float *more = yb + conv_blocked(c.n, c.k, c.out_h, c.out_w);
    conv_to_blocked(x.x, xb, c.n, c.c, c.h, c.w);
    method->forward(&c, xb, l->params,
                    l->params + (size_t)c.k * (size_t)window_size(l), yb, more);
    conv_to_plain(yb, y.x, c.n, c.k, c.out_h, c.out_w);
}

static void forward(struct layer *l, struct tensor x, struct tensor y)
{
    const struct conv_method *method = method_of(l);
    if (method) {
        forward_blocked(l, method, x, y);
        return;
    }
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

static void backward_bias(struct layer *l, struct tensor dy)
{
    const int m = l->out.c, p = l->out.h * l->out.w;
    float *dbias = l->grads + (size_t)m * (size_t)window_size(l);
    for (int i = 0; i < dy.shape.n; i++)
        for (int c = 0; c < m; c++)
            dbias[c] += sum(dy.x + ((size_t)i * m + c) * p, p);
}

static void backward_blocked(struct layer *l, const struct conv_method *method,
                             struct tensor x, struct tensor dy,
                             struct tensor dx)
{
    const struct conv c = conv_of(l, x.shape.n);
    float *xb = l->scratch, *dyb = xb + conv_blocked(c.n, c.c, c.h, c.w);
    float *more = dyb + conv_blocked(c.n, c.k, c.out_h, c.out_w);
    conv_to_blocked(dy.x, dyb, c.n, c.k, c.out_h, c.out_w);
    conv_to_blocked(x.x, xb, c.n, c.c, c.h, c.w);
    method->backward_weights(&c, xb, dyb, l->grads, more);
    if (!dx.x)
        return;
    method->backward_data(&c, dyb, l->params, xb, more);
    conv_to_plain(xb, dx.x, c.n, c.c, c.h, c.w);
}

static void backward(struct layer *l, struct tensor x, struct tensor y,
                     struct tensor dy, struct tensor dx)
{
    (void)y;
    backward_bias(l, dy);
    const struct conv_method *method = method_of(l);
    if (method) {
        backward_blocked(l, method, x, dy, dx);
        return;
    }
    const struct im2col s = columns_of(l);
    const int k = window_size(l), m = l->out.c, p = l->out.h * l->out.w;
    const size_t image = (size_t)l->in.c * l->in.h * l->in.w;
    for (int i = 0; i < x.shape.n; i++) {
        const float *from = dy.x + (size_t)i * m * p;
        im2col(&s, x.x + i * image, l->scratch);
        gemm((struct matrix){from, m, p, false},
             (struct matrix){l->scratch, k, p, true}, 1, l->grads);
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
