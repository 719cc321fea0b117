/* SPDX-License-Identifier: MIT */
/* softmax_loss: y = x - log(sum of exp x), the log of each class's probability,
 * so that the cross entropy of an image is -y at its label. Taking the largest
 * x out first keeps exp from overflowing and log from 0. With dy = -1 at the
 * label, the gradient is the known softmax(x) - one_hot. */
#include <math.h>

#include "layer/words.h"

static const char *parse(struct layer *l, int nwords, char **words)
{
    const char *why = plain_parse(l, nwords, words);
    l->out = (struct shape){l->in.n, l->in.c * l->in.h * l->in.w, 1, 1};
    return why;
}

static void forward(struct layer *l, struct tensor x, struct tensor y)
{
    const int nclasses = l->out.c;
    for (int i = 0; i < x.shape.n; i++) {
        const float *from = x.x + (size_t)i * nclasses;
        float *to = y.x + (size_t)i * nclasses, max = from[0];
        double sum = 0;
        for (int c = 1; c < nclasses; c++)
            max = from[c] > max ? from[c] : max;
        for (int c = 0; c < nclasses; c++)
            sum += exp((double)from[c] - max);
        const double all = max + log(sum);
        for (int c = 0; c < nclasses; c++)
            to[c] = (float)(from[c] - all);
    }
}

static void backward(struct layer *l, struct tensor x, struct tensor y,
                     struct tensor dy, struct tensor dx)
{
    const int nclasses = l->out.c, n = dx.x ? x.shape.n : 0;
    for (int i = 0; i < n; i++) {
        const size_t first = (size_t)i * nclasses;
        double sum = 0;
        for (int c = 0; c < nclasses; c++)
            sum += dy.x[first + c];
        for (int c = 0; c < nclasses; c++)
            dx.x[first + c] =
                (float)(dy.x[first + c] - exp(y.x[first + c]) * sum);
    }
}

const struct layer_ops layer_softmax_loss = {
    .name = "softmax_loss",
    .loss = true,
    .parse = parse,
    .forward = forward,
    .backward = backward,
};
