/* SPDX-License-Identifier: MIT */
/* softmax_loss [smoothing S]: y = x - log(sum of exp x), the log of each
 * class's probability, so that the cross entropy of an image is -y at its
 * label. Taking the largest x out first keeps exp from overflowing and log from
 * 0. With dy = -1 at the label, the gradient is the known softmax(x) - one_hot.
 *
 * With smoothing the net's loss is the cross entropy to 1 - S at the label plus
 * S / classes everywhere (Szegedy et al., CVPR 2016, section 7). */
#include <math.h>
#include <string.h>

#include "layer/words.h"

static const char *parse(struct layer *l, int nwords, char **words)
{
    const struct real_option options[] = {
        {"smoothing", 0, 0.999f, &l->option.loss.smoothing},
        {NULL,        0, 0,      NULL                     },
    };
    l->option.loss.smoothing = 0;
    l->out = (struct shape){l->in.n, l->in.c * l->in.h * l->in.w, 1, 1};
    return reals_parse(l, options,
                       "softmax_loss has no options but smoothing S, from 0 to "
                       "below 1, as in softmax_loss smoothing 0.1",
                       nwords, words);
}

/* Where a class is in an image of x. */
static size_t place(const struct layer *l, int class)
{
    const size_t plane = shape_plane(l->in);
    return blocked_index(l->in, (int)((size_t) class / plane),
                         (size_t) class % plane);
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    const int nclasses = l->out.c;
    memset(y.x, 0, shape_floats(y.shape) * sizeof(float));
    for (int i = 0; i < x->shape.n; i++) {
        const float *from = x->x + (size_t)i * image_floats(l->in);
        float *to = y.x + (size_t)i * image_floats(l->out), max = from[0];
        double sum = 0;
        for (int c = 0; c < nclasses; c++) {
            to[c] = from[place(l, c)];
            max = to[c] > max ? to[c] : max;
        }
        for (int c = 0; c < nclasses; c++)
            sum += exp((double)to[c] - max);
        const double all = max + log(sum);
        for (int c = 0; c < nclasses; c++)
            to[c] = (float)(to[c] - all);
    }
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    (void)x;
    const int nclasses = l->out.c, n = dx->x ? y.shape.n : 0;
    if (n)
        memset(dx->x, 0, shape_floats(dx->shape) * sizeof(float));
    for (int i = 0; i < n; i++) {
        const size_t first = (size_t)i * image_floats(l->out);
        float *to = dx->x + (size_t)i * image_floats(l->in);
        double sum = 0;
        for (int c = 0; c < nclasses; c++)
            sum += dy.x[first + c];
        for (int c = 0; c < nclasses; c++)
            to[place(l, c)] =
                (float)(dy.x[first + c] - exp(y.x[first + c]) * sum);
    }
}

const struct layer_ops layer_softmax_loss = {
    .name = "softmax_loss",
    .whole = true,
    .loss = true,
    .reads = READS_Y,
    .parse = parse,
    .forward = forward,
    .backward = backward,
};
