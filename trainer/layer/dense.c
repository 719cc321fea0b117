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

/* Threads share out the outputs, for dx the inputs. */
struct job {
    struct layer *l;
    struct matrix x, dy;
    float *to; /* y, or dx */
    int stride;
};

/* From where to where the i-th of n parts goes; whole cache lines. */
static int edge(int count, int i, int n)
{
    const int lines = (count + BLOCK - 1) / BLOCK;
    const int at = (int)((long long)lines * i / n) * BLOCK;
    return at < count ? at : count;
}

static void forward_part(void *context, int i, int n)
{
    const struct job *j = context;
    const struct layer *l = j->l;
    const int k = inputs_of(l), first = edge(l->out.c, i, n);
    const int m = edge(l->out.c, i + 1, n) - first;
    const float *bias = l->params + (size_t)l->out.c * k + first;
    for (int r = 0; r < j->x.rows; r++)
        memcpy(j->to + (size_t)r * j->stride + first, bias,
               (size_t)m * sizeof(float));
    gemm(j->x, (struct matrix){l->params + (size_t)first * k, m, k, true, 0}, 1,
         j->to + first, j->stride);
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    struct job j = {.l = l, .to = y.x, .stride = (int)image_floats(l->out)};
    memset(y.x, 0, shape_floats(y.shape) * sizeof(float));
    j.x = rows_of(l, *x);
    crew_run(l->crew, forward_part, &j);
}

static void weights_part(void *context, int i, int n)
{
    const struct job *j = context;
    struct layer *l = j->l;
    const int k = inputs_of(l), first = edge(l->out.c, i, n);
    const int m = edge(l->out.c, i + 1, n) - first;
    float *dbias = l->grads + (size_t)l->out.c * k + first;
    struct matrix dy = j->dy;
    dy.x += first;
    dy.columns = m;
    dy.transposed = true;
    gemm(dy, j->x, 1, l->grads + (size_t)first * k, k);
    for (int r = 0; r < dy.rows; r++)
        for (int c = 0; c < m; c++)
            dbias[c] += dy.x[(size_t)r * dy.stride + c];
}

static void data_part(void *context, int i, int n)
{
    const struct job *j = context;
    const struct layer *l = j->l;
    const int k = inputs_of(l), first = edge(k, i, n);
    const int columns = edge(k, i + 1, n) - first;
    gemm(j->dy, (struct matrix){l->params + first, l->out.c, columns, false, k},
         0, j->to + first, j->stride);
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    const int n = y.shape.n;
    struct job j = {
        .l = l,
        .x = rows_of(l, *x),
        .dy = {dy.x, n, l->out.c, false, (int)image_floats(l->out)},
    };
    crew_run(l->crew, weights_part, &j);
    if (!dx->x)
        return;
    j.to = are_rows(l) ? dx->x : l->scratch;
    j.stride = are_rows(l) ? (int)image_floats(l->in) : inputs_of(l);
    if (are_rows(l))
        memset(dx->x, 0, shape_floats(dx->shape) * sizeof(float));
    crew_run(l->crew, data_part, &j);
    if (!are_rows(l))
        conv_to_blocked(l->scratch, dx->x, n, l->in.c, l->in.h, l->in.w);
}

const struct layer_ops layer_dense = {
    .name = "dense",
    .whole = true,
    .reads = READS_X,
    .parse = parse,
    .describe = describe,
    .init = init,
    .forward = forward,
    .backward = backward,
};
