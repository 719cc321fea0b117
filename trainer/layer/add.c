/* SPDX-License-Identifier: MIT */
/* add from A B ...: the sum of tensors of one shape. */
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
    for (size_t i = 0; i < count; i++)
        y.x[i] = x[0].x[i] + x[1].x[i];
    for (int k = 2; k < l->ninputs; k++)
        for (size_t i = 0; i < count; i++)
            y.x[i] += x[k].x[i];
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    (void)x;
    const size_t count = shape_floats(y.shape);
    for (int k = 0; k < l->ninputs; k++)
        for (size_t i = 0; dx[k].x && dx[k].x != dy.x && i < count; i++)
            dx[k].x[i] = dy.x[i];
}

const struct layer_ops layer_add = {
    .name = "add",
    .joins = true,
    .in_place = true,
    .parse = parse,
    .forward = forward,
    .backward = backward,
};
