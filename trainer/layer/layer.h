/* SPDX-License-Identifier: MIT */
/* A layer: one row of layers.def, one file ending in a struct layer_ops.
 *
 * A layer is described by one line of a net's text, "conv 20 5x5 pad 2".
 * Parameters, their gradients and whatever forward keeps for backward live in
 * the net's arenas; the layer holds views. Layers are single-threaded.
 */
#ifndef TRAINER_LAYER_LAYER_H
#define TRAINER_LAYER_LAYER_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor.h"

struct layer {
    const struct layer_ops *ops;
    struct shape in, out;  /* n is the largest batch */
    size_t nparams;        /* weights first, then biases */
    size_t nsaved;         /* floats kept from forward to backward */
    size_t nscratch;       /* floats used within one call, shared by layers */
    float *params, *grads; /* views, set by the net */
    float *saved, *scratch;
    bool before_relu;      /* a relu follows, which matters to init */
    bool training;        /* dropout and the like act only then */
    uint64_t seed;        /* changes every step; the same on any number of
                             ranks for the same image: see first_image */
    uint64_t first_image; /* index, in the global batch, of image 0 */
    union {
        struct {
            int kernel_h, kernel_w, stride_h, stride_w, pad;
        } window;
        struct {
            float rate;
        } dropout;
    } option;
    const char *wrong; /* set by a parse that fails: the word at fault, NULL
                          if one is missing */
};

struct layer_ops {
    const char *name; /* "conv" in "conv 20 5x5" */
    bool loss;        /* y is the log of each class's probability. Ends a net */

    /* Reads the words after the name; in is set. Sets out, the counts and
     * option. Returns NULL, or static text that says what is wrong and what
     * would be right, with wrong set. Counts are at most INT_MAX. */
    const char *(*parse)(struct layer *, int nwords, char **words);

    /* Optional: fills params from seed, the same on every machine. */
    void (*init)(struct layer *, uint64_t seed);

    /* y = f(x). x.shape.n <= in.n images; y.shape.n == x.shape.n. */
    void (*forward)(struct layer *, struct tensor x, struct tensor y);

    /* Given x, y as in forward and dy, adds to grads and writes dx. dx.x is
     * NULL if nobody needs it. */
    void (*backward)(struct layer *, struct tensor x, struct tensor y,
                     struct tensor dy, struct tensor dx);
};

extern const struct layer_ops *const layers[];
extern const int nlayers;
const struct layer_ops *layer_find(const char *name); /* or NULL */

#endif
