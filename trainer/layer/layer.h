/* SPDX-License-Identifier: MIT */
/* A layer: one row of layers.def, one file ending in a struct layer_ops.
 *
 * A layer is described by one line of a net's text, "conv 20 5x5 pad 2".
 * Parameters, their gradients and whatever forward keeps for backward live in
 * the net's arenas; the layer holds views. Where a net has several threads,
 * each calls a layer for its own images, with a copy of the struct that has
 * scratch and gradients of its own, or for its share of the outputs; a layer
 * that is `whole` is called once and may share its work out itself, by crew.
 */
#ifndef TRAINER_LAYER_LAYER_H
#define TRAINER_LAYER_LAYER_H

#include <stdbool.h>
#include <stdint.h>

#include "crew.h"
#include "tensor.h"

enum { LAYER_INPUTS = 8, LAYER_NAME = 32 };

/* What backward reads besides dy, so that the net keeps it. */
enum { READS_X = 1, READS_Y = 2 };

/* What a layer can have in bf16. */
enum {
    HALF_X = 1,    /* all inputs and their gradients, */
    HALF_Y = 2,    /* y and dy, */
    HALF_ALIKE = 4 /* but all or none */
};

/* Of params and then of state, in order; for files that name them. */
struct layer_param {
    const char *name; /* NULL: no more */
    int ndims, dims[4];
};

/* What gradients are worked out from: rows of images, `next` floats apart. */
struct factors {
    float *x;
    size_t next;
    int images;
};

/* Is told a run of a layer's gradient. */
typedef void gradient_run(void *context, size_t first, const float *grads,
                          size_t count);

struct layer {
    const struct layer_ops *ops;
    char name[LAYER_NAME];           /* "" if the text gives none */
    int line;                        /* of the text */
    int ninputs, from[LAYER_INPUTS]; /* which layers' outputs; -1: the images */
    struct shape ins[LAYER_INPUTS];  /* n is the largest batch */
    struct shape in, out;            /* in: ins[0] */
    size_t nparams;                  /* learned */
    size_t nstate;                   /* not learned, but kept with what is */
    size_t nsaved;                   /* floats kept from forward to backward */
    size_t nscratch;       /* floats used within one call, shared by layers */
    float *params, *grads; /* views, set by the net */
    float *state, *saved, *scratch;
    struct factors factors;  /* x is not NULL: gradients() writes these, and
                                there are no grads; net/factor.h */
    struct crew *crew;       /* of whole layers; NULL: one thread */
    int share, shares;       /* of a pass by outputs; 0: it is by images */
    bool before_relu;        /* a relu follows, which matters to init */
    bool relu;               /* y = max(f(x), 0), for a relu that follows, or
                                one that is relu_first: */
    bool folded;             /* batchnorm: some layer's norm */
    bool half;               /* y and dy are bf16 in memory, two numbers in a
                                float's place, */
    bool half_x;             /* and so are what it reads and dx; net/half.h */
    bool done;               /* which has nothing to do, y and x are one */
    bool learns;             /* it or something before it has parameters */
    bool gates; /* backward does what that of the relu whose output it reads
                   would, which has ended all parts of that gradient: */
    bool gated; /* relu, or what does one: dy comes so */
    bool adds[LAYER_INPUTS]; /* its part of an input's gradient comes to that of
                                a later layer */
    bool plain;              /* the images, which are its input, are plain */
    /* A batchnorm that only follows this: what it does in evaluation is part of
     * this then, and it is called in training only. NULL: none */
    struct layer *norm;
    /* An add of two, this batchnorm's output the later one, which nobody else
     * reads: in training this writes the sum, given the other as x[1], and the
     * add's forward is not called. NULL: none */
    struct layer *sum;
    bool summed;          /* add: some batchnorm's sum */
    bool training;        /* dropout and the like act only then */
    uint64_t seed;        /* changes every step; the same on any number of
                             ranks for the same image: see first_image */
    uint64_t first_image; /* index, in the global batch, of a call's first */
    union {
        struct window_option {
            int kernel_h, kernel_w, stride_h, stride_w, pad;
            int groups, dilation;
            bool ceil, no_bias;
            /* conv: of blocked and plain input, by pass */
            const struct conv_method *methods[2][3];
        } window;
        struct {
            float rate;
        } dropout;
        struct {
            float eps, momentum;
        } batchnorm;
        struct {
            int size;
            float alpha, beta, k;
        } lrn;
        struct {
            float smoothing;
        } loss;
    } option;
    const char *wrong; /* set by a parse that fails: the word at fault, NULL
                          if one is missing */
};

/* GRADIENTS: of the parameters alone. */
enum layer_pass { LAYER_FORWARD, LAYER_GRADIENTS, LAYER_BACKWARD };

struct layer_ops {
    const char *name; /* "conv" in "conv 20 5x5" */
    bool loss;        /* y is the log of each class's probability. Ends a net */
    bool joins;       /* takes two inputs or more, others take one */
    bool whole;       /* wants all images at once; else saved has as many floats
                         for each */
    unsigned reads;   /* READS_X, READS_Y */
    /* Optional: how many of the first grads backward writes; to the others it
     * adds, and they were set to 0. */
    size_t (*grads_written)(const struct layer *);
    /* Can do the relu that follows, in forward and in backward, for which it
     * reads what relu_reads says as well; optional: whether in forward alone. */
    bool can_relu;
    bool (*can_relu_forward)(const struct layer *);
    unsigned relu_reads;
    bool relu_first; /* which comes to the same as one that precedes this */
    /* Can do the batchnorm that follows, in evaluation; with so many floats of
     * scratch more. */
    size_t (*norm_scratch)(const struct layer *);
    /* Optional: what of this can be bf16 in memory, HALF_X and so on. */
    unsigned (*halves)(const struct layer *);
    /* backward gives inputs 0 and 1 the same; dx[1].x may be dx[0].x. */
    bool same_gradients;
    /* forward may be given y.x == x[0].x, and backward dx[0].x == dy.x. */
    bool in_place;
    /* backward may be given dx[0].x == dy.x. */
    bool over_dy;
    /* Optional, of layers with one input: whether backward adds to dx[0], which
     * a later layer has written, where adds[0] says so. */
    bool (*adds_dx)(const struct layer *);
    /* Optional, of such layers: whether backward knows `gates`, and adds. */
    bool (*can_gate)(const struct layer *);

    /* Reads the words after the name; ins and ninputs are set. Sets out, the
     * counts and option. Returns NULL, or static text that says what is wrong
     * and what would be right, with wrong set. Counts are at most INT_MAX. */
    const char *(*parse)(struct layer *, int nwords, char **words);

    /* Optional: whether plain images will do, if nobody needs their gradient.
     */
    bool (*takes_plain)(const struct layer *);

    /* Where there are params: names and shapes of them and of state, at most
     * `most`. */
    void (*describe)(const struct layer *, struct layer_param *, int most);

    /* Optional: fills params from seed, the same on every machine, and state.
     */
    void (*init)(struct layer *, uint64_t seed);

    /* Optional: whether so many threads had better share out outputs than
     * images. All then call the pass with all images, and each does its
     * `share`. */
    bool (*by_outputs)(const struct layer *, enum layer_pass, int images,
                       int threads);

    /* y = f(x[0], ...). All have n <= in.n images. */
    void (*forward)(struct layer *, const struct tensor *x, struct tensor y);

    /* Given x and y, as far as it reads them, and dy: adds to grads, or
     * writes them, and writes dx[0], ... dx[i].x is NULL if nobody needs it. */
    void (*backward)(struct layer *, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx);

    /* Optional: grads alone; backward then does dx[0] alone, and is called if
     * that is wanted. */
    void (*gradients)(struct layer *, const struct tensor *x, struct tensor dy);

    /* Optional, of whole layers with gradients(): floats of an image, its
     * factors, from which the gradient can be worked out later. */
    size_t (*factor_floats)(const struct layer *);
    /* Part i of n of the gradient that these images have, in runs. scratch is
     * the part's own, nscratch floats. */
    void (*by_factors)(const struct layer *, const struct factors *, int i,
                       int n, float *scratch, gradient_run *, void *context);
};

extern const struct layer_ops *const layers[];
extern const int nlayers;
const struct layer_ops *layer_find(const char *name); /* or NULL */

/* The layer whose y its forward writes. */
static inline const struct layer *layer_writes(const struct layer *l)
{
    const struct layer *last = l->training ? l->sum : l->norm;
    return last ? last : l;
}

/* Floats that its y takes in memory, and its dy. */
static inline size_t layer_floats(const struct layer *l)
{
    return shape_floats(l->out) >> l->half;
}

static inline size_t layer_grads_written(const struct layer *l)
{
    return l->ops->grads_written ? l->ops->grads_written(l) : 0;
}

/* READS_X, READS_Y: what its backward reads, in its net. */
unsigned layer_reads(const struct layer *);
bool layer_adds(const struct layer *); /* adds_dx */

#endif
