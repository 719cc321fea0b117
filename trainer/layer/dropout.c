/* SPDX-License-Identifier: MIT */
/* dropout RATE: in training a number becomes 0 with probability RATE, and is
 * divided by 1 - RATE otherwise (Srivastava et al., JMLR 2014, the scale moved
 * to training). Which one depends only on the seed, the image's place in the
 * global batch and the element, so that it does not matter how many ranks
 * share the batch. */
#include <stdlib.h>
#include <string.h>

#include "layer/words.h"
#include "random.h"

static const char *parse(struct layer *l, int nwords, char **words)
{
    char *end = NULL;
    l->wrong = nwords ? words[0] : NULL;
    const float rate = nwords ? strtof(words[0], &end) : -1;
    if (!nwords || *end || !(rate >= 0 && rate < 1))
        return "dropout is followed by a rate from 0 to below 1, as in "
               "dropout 0.5";
    l->option.dropout.rate = rate;
    l->nsaved = shape_floats(l->in);
    l->out = l->in;
    l->wrong = nwords > 1 ? words[1] : NULL;
    return nwords > 1 ? "after its rate dropout has no options" : NULL;
}

/* saved[i] is what number i was multiplied by. */
static void draw(struct layer *l, int nimages, size_t size)
{
    const float rate = l->option.dropout.rate, keep = 1 / (1 - rate);
    for (int i = 0; i < nimages; i++) {
        const uint64_t of_image =
            random_u64(l->seed, l->first_image + (uint64_t)i);
        for (size_t j = 0; j < size; j++)
            l->saved[i * size + j] = random_unit(of_image, j) < rate ? 0 : keep;
    }
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    const size_t count = shape_floats(x->shape);
    if (!l->training) {
        if (y.x != x->x)
            memcpy(y.x, x->x, count * sizeof(float));
        return;
    }
    draw(l, x->shape.n, image_floats(l->in));
    for (size_t i = 0; i < count; i++)
        y.x[i] = x->x[i] * l->saved[i];
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    (void)x;
    const size_t count = dx->x ? shape_floats(y.shape) : 0;
    for (size_t i = 0; i < count; i++)
        dx->x[i] = l->training ? dy.x[i] * l->saved[i] : dy.x[i];
}

const struct layer_ops layer_dropout = {
    .name = "dropout",
    .in_place = true,
    .parse = parse,
    .forward = forward,
    .backward = backward,
};
