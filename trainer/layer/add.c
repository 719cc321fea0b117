/* SPDX-License-Identifier: MIT */
/* add from A B ...: the sum of tensors of one shape. */
#include <string.h>

#include "half.h"
#include "kernels/code.h"
#include "kernels/lanes.h"
#include "layer/words.h"

static const char *parse(struct layer *l, int nwords, char **words)
{
    l->wrong = NULL;
    for (int i = 1; i < l->ninputs; i++)
        if (l->ins[i].c != l->in.c || l->ins[i].h != l->in.h
            || l->ins[i].w != l->in.w)
            return "what is added must have the same shape";
    return plain_parse(l, nwords, words);
}

static unsigned halves(const struct layer *l)
{
    return l->ninputs == 2 ? HALF_X | HALF_Y | HALF_ALIKE : 0;
}

/* y = a + b, or its positive part. */
static void add_halves(const uint16_t *a, const uint16_t *b, uint16_t *y,
                       size_t count, bool relu)
{
    enum { NEAR = 1024 };
    const struct code_loops *code = lanes()->code;
    float sums[NEAR];
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < NEAR ? count - at : NEAR;
        code->from_bf16(a + at, n, sums);
        code->add_bf16(b + at, n, sums);
        for (size_t i = 0; i < n && relu; i++)
            sums[i] = sums[i] > 0 ? sums[i] : 0;
        code->to_bf16(sums, n, y + at);
    }
}

/* The gradient where the relu passes it. */
static void pass_halves(const uint16_t *y, const uint16_t *dy, uint16_t *to,
                        size_t count, bool relu)
{
    for (size_t i = 0; i < count && relu; i++) {
        const uint16_t d = dy[i];
        to[i] = half_positive(y[i]) ? d : 0;
    }
    if (!relu && to != dy)
        memcpy(to, dy, count * sizeof(*to));
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    const size_t count = shape_floats(y.shape);
    const bool relu = l->relu;
    if (l->half) {
        add_halves((const uint16_t *)x[0].x, (const uint16_t *)x[1].x,
                   (uint16_t *)y.x, count, relu);
        return;
    }
    for (int k = 1; k < l->ninputs; k++) {
        const float *a = k > 1 ? y.x : x[0].x, *b = x[k].x;
        if (relu && k + 1 == l->ninputs)
            for (size_t i = 0; i < count; i++)
                y.x[i] = a[i] + b[i] > 0 ? a[i] + b[i] : 0;
        else
            for (size_t i = 0; i < count; i++)
                y.x[i] = a[i] + b[i];
    }
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    (void)x;
    const size_t count = shape_floats(y.shape);
    const bool relu = l->relu && !l->gated;
    for (int k = 0; k < l->ninputs; k++) {
        float *to = dx[k].x;
        if (!to || (k && to == dx[0].x))
            continue;
        if (l->half)
            pass_halves((const uint16_t *)y.x, (const uint16_t *)dy.x,
                        (uint16_t *)to, count, relu);
        else if (relu)
            for (size_t i = 0; i < count; i++) {
                const float d = dy.x[i]; /* in any case: no branch */
                to[i] = y.x[i] > 0 ? d : 0;
            }
        else if (to != dy.x)
            memcpy(to, dy.x, count * sizeof(float));
    }
}

const struct layer_ops layer_add = {
    .name = "add",
    .joins = true,
    .can_relu = true,
    .relu_reads = READS_Y,
    .same_gradients = true,
    .in_place = true,
    .halves = halves,
    .parse = parse,
    .forward = forward,
    .backward = backward,
};
