/* SPDX-License-Identifier: MIT */
/* add from A B ...: the sum of tensors of one shape. */
#include <string.h>

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

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    const size_t count = shape_floats(y.shape);
    const bool relu = l->relu;
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
    for (int k = 0; k < l->ninputs; k++) {
        float *to = dx[k].x;
        if (!to || (k && to == dx[0].x))
            continue;
        if (l->relu)
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
    .parse = parse,
    .forward = forward,
    .backward = backward,
};
