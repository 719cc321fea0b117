/* SPDX-License-Identifier: MIT */
/* concat from A B ...: the channels of A, then those of B, and so on. */
#include <string.h>

#include "layer/words.h"

static const char *parse(struct layer *l, int nwords, char **words)
{
    double channels = 0;
    const char *why = plain_parse(l, nwords, words);
    if (why)
        return why;
    l->wrong = NULL;
    for (int i = 0; i < l->ninputs; i++) {
        channels += l->ins[i].c;
        if (l->ins[i].h != l->in.h || l->ins[i].w != l->in.w)
            return "what is joined must have the same rows and columns";
    }
    if (!floats_fit(channels))
        return "the channels are too many, at most 2147483647 are valid";
    l->out.c = (int)channels;
    return NULL;
}

/* An image's channels of `part`, which `whole` has from `first` on. Whole
 * blocks are copied as they are. */
static void copy(struct shape part_of, struct shape whole_of, int first,
                 float *part, float *whole, bool back)
{
    const size_t plane = shape_plane(part_of);
    for (int c = 0; c < part_of.c;) {
        float *a = part + blocked_index(part_of, c, 0);
        float *b = whole + blocked_index(whole_of, first + c, 0);
        const bool block = c % BLOCK == 0 && (first + c) % BLOCK == 0
                           && part_of.c - c >= BLOCK;
        if (block)
            memcpy(back ? a : b, back ? b : a, plane * BLOCK * sizeof(float));
        else
            for (size_t p = 0; p < plane * BLOCK; p += BLOCK)
                *(back ? a + p : b + p) = back ? b[p] : a[p];
        c += block ? BLOCK : 1;
    }
}

/* Channels that fill up the last block. */
static void clear_rest(struct shape s, float *image)
{
    const size_t plane = shape_plane(s);
    if (s.c % BLOCK == 0)
        return;
    float *last = image + blocked_index(s, s.c - s.c % BLOCK, 0);
    for (size_t p = 0; p < plane; p++)
        for (int k = s.c % BLOCK; k < BLOCK; k++)
            last[p * BLOCK + (size_t)k] = 0;
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    for (int i = 0; i < y.shape.n; i++) {
        float *whole = y.x + (size_t)i * image_floats(l->out);
        for (int k = 0, first = 0; k < l->ninputs; first += l->ins[k++].c)
            copy(l->ins[k], l->out, first,
                 x[k].x + (size_t)i * image_floats(l->ins[k]), whole, false);
        clear_rest(l->out, whole);
    }
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    (void)x;
    for (int i = 0; i < y.shape.n; i++) {
        float *whole = dy.x + (size_t)i * image_floats(l->out);
        for (int k = 0, first = 0; k < l->ninputs; first += l->ins[k++].c) {
            if (!dx[k].x)
                continue;
            float *part = dx[k].x + (size_t)i * image_floats(l->ins[k]);
            copy(l->ins[k], l->out, first, part, whole, true);
            clear_rest(l->ins[k], part);
        }
    }
}

const struct layer_ops layer_concat = {
    .name = "concat",
    .joins = true,
    .parse = parse,
    .forward = forward,
    .backward = backward,
};
