/* SPDX-License-Identifier: MIT */
/* One layer with inputs, parameters and gradients of its own, to be run by
 * itself. */
#ifndef TESTS_LAYER_BENCH_H
#define TESTS_LAYER_BENCH_H

#include "layer/layer.h"

enum { SEED = 20 };

/* A layer with its floats. One number of canary lies behind each array. */
struct bench {
    struct layer l;
    struct arena params, grads, state, saved, scratch, y, dy;
    struct arena x[LAYER_INPUTS], dx[LAYER_INPUTS];
    int n;
};

/* The layer of a net's line on an input of that shape, of which n images are
 * given, full of multiples of 1/8; for a maxpool, all different. more: channels
 * of further inputs, 0 at the end, or NULL. */
void setup_more(struct bench *, const char *line, struct shape in, int n,
                const int *more);
void setup(struct bench *, const char *line, struct shape in, int n);
/* Frees it. Fails if something was written behind an array, or where blocks are
 * filled up. */
void teardown(struct bench *);

/* n images of that shape, in one of its arrays; all inputs, or gradients. */
struct tensor view(struct shape, int n, struct arena *);
void views(struct bench *, struct arena *of_inputs, struct tensor *to);

void run_forward(struct bench *);
/* With what backward does not read gone. */
void run_backward(struct bench *, bool with_dx);

/* Whether float i of a blocked tensor is a number of it, not filled up. */
bool is_number(struct shape, size_t i);
/* Multiples of 1/8 from -2 to 2 without 0, or all different and shuffled where
 * a largest one is sought. */
void fill(float *x, size_t count, bool different, uint64_t seed);
/* Numbers in the order of n, c, h, w. */
void put(struct arena *, struct shape, const float *plain);
void expect_plain(const struct arena *, struct shape, const float *wanted);

#endif
