/* SPDX-License-Identifier: MIT */
/* What the lines of a net are made of: numbers, 5x5, stride 2 pad 1. */
#ifndef TRAINER_LAYER_WORDS_H
#define TRAINER_LAYER_WORDS_H

#include "layer/layer.h"

/* Reads "20" (count 1), "5x5" (2), "1x28x28" (3): decimal, each at least
 * `least` and at most INT_MAX. False if the word is anything else. */
bool word_numbers(const char *word, int least, int count, int *numbers);

/* Reads "0.5", from least to most. */
bool word_real(const char *word, float least, float most, float *);

/* Whether so many floats may be in one shape or parameter array: sizes are
 * ints, also those of BLAS. */
bool floats_fit(double count);

/* Reads HxW or "global", then what of stride S, pad P, groups G, dilation D,
 * ceil and nobias has its name in `options`, into option.window, and sets out.h
 * and out.w; a stride of 0 stands for the window's sizes. Returns as parse
 * does. */
const char *window_parse(struct layer *, int default_stride,
                         const char *options, int nwords, char **words);

/* parse for layers without options: out is in. */
const char *plain_parse(struct layer *, int nwords, char **words);

/* A word and a number, any of them, in any order: "alpha 0.5 beta 1". wrong and
 * the text as parse does. */
struct real_option {
    const char *name;
    float least, most;
    float *to; /* NULL ends a list */
};
const char *reals_parse(struct layer *, const struct real_option *,
                        const char *valid, int nwords, char **words);

/* Uniform weights whose variance keeps that of the signal: 2 / fan_in before a
 * ReLU, which drops half of it (He et al., ICCV 2015), else 1 / fan_in. It
 * takes no more than a square root, so every machine gets the same bits. */
void fan_in_init(const struct layer *, float *weights, size_t count,
                 size_t fan_in, uint64_t seed);

#endif
