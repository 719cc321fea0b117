/* SPDX-License-Identifier: MIT */
/* Convolution (without flipping) and its two gradients.
 *
 * Activations are blocked: (N, C/16, H, W, 16), 16 channels side by side, the
 * last block filled up with zeros. A few channels, as the first layer's, may be
 * plain (N, C, H, W). Weights and their gradient are (K, C/groups, R, S) as
 * elsewhere; each call repacks them, which takes a pass over them.
 *
 * Single-threaded; threads may work on different images, or shares of outputs,
 * at the same time with scratch of their own.
 */
#ifndef TRAINER_KERNELS_CONV_H
#define TRAINER_KERNELS_CONV_H

#include <stdbool.h>

#include "tensor.h"

enum { CONV_BLOCK = BLOCK };

struct conv {
    int n, c, h, w; /* of the input: images, channels, rows, columns */
    int k, groups;  /* output channels; groups divide them and c */
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    int dilation_h, dilation_w;
    int out_h, out_w; /* set by conv_set_outputs() */
    bool plain;       /* the input; only if c is less than a block */
    bool add;         /* backward_data adds to dx, by a method that can */
    bool fresh;       /* backward_weights writes dw, by a method that can */
    /* x and dx, or y and dy, are bf16, two in a float's place, by a method that
     * halves(); what is added to is rounded with it. */
    bool half_x, half_y;
    /* Forward y = max(y, 0), by a method that `relus`. */
    bool relu;
    /* NULL, or x, of which none is NaN: dx becomes 0 where that is not above 0,
     * by a method that gates(). */
    const float *gate;
    /* Only this of so many shares of the outputs is computed, or of dx or dw,
     * and the rest left alone, by a method that `shares`; 0: all. Together they
     * give the bits that one gives. */
    int share, shares;
};

/* False if no window fits. */
bool conv_set_outputs(struct conv *);

enum conv_pass {
    CONV_FORWARD,
    CONV_BACKWARD_DATA,
    CONV_BACKWARD_WEIGHTS,
    CONV_PASSES
};

/* The instruction set of all later calls: its name, or NULL for the best that
 * this processor has. NULL if it does not have it, or nobody knows it; else the
 * name. Not thread-safe. */
const char *conv_use(const char *isa);

/* Floats of a blocked tensor. */
size_t conv_blocked(int n, int c, int h, int w);

/* One way to do it. */
struct conv_method {
    const char *name;
    bool adds;   /* backward_data knows `add` */
    bool shares; /* all passes know `shares` */
    bool relus;  /* forward knows `relu` */

    /* Optional: whether all passes know half_x and half_y, on this
     * processor. A plain input is no half_x. */
    bool (*halves)(void);

    /* Optional: whether backward_weights knows `fresh`, likewise. */
    bool (*writes)(void);

    /* Optional: whether backward_data knows `gate`. */
    bool (*gates)(const struct conv *);

    /* NULL, or why it cannot. */
    const char *(*cannot)(const struct conv *, enum conv_pass);

    /* Optional, of a method that has several ways: the name of the one that a
     * pass would go. Results of one tell nothing of another. */
    const char *(*way)(const struct conv *, enum conv_pass);

    /* Floats of scratch that a pass needs. */
    size_t (*scratch)(const struct conv *, enum conv_pass);

    /* y = x * w + bias; bias (k floats) may be NULL. */
    void (*forward)(const struct conv *, const float *x, const float *w,
                    const float *bias, float *y, float *scratch);

    /* dx, of which every element is written, from dy and w; or dx += that,
     * with `add`, if the method `adds`. */
    void (*backward_data)(const struct conv *, const float *dy, const float *w,
                          float *dx, float *scratch);

    /* Adds to dw, from x and dy; or writes it, with `fresh`, if the method
     * `writes`. */
    void (*backward_weights)(const struct conv *, const float *x,
                             const float *dy, float *dw, float *scratch);
};

static inline bool conv_writes(const struct conv_method *m)
{
    return m->writes && m->writes();
}

/* As it is defined; any kernel of up to 256 elements. */
extern const struct conv_method conv_direct;
/* Winograd's F(4x4, 3x3) and F(4x4, 5x5), with strides of 1, whose rounding
 * errors are some ten and twenty times those of the other; and 3x3 with strides
 * of 2, whose errors are no larger. */
extern const struct conv_method conv_winograd;
/* 1x1 without padding: 7 products of matrices' quarters where the definition
 * takes 8 (Strassen 1969). */
extern const struct conv_method conv_strassen;
/* As conv_direct, but of operands that are rounded to bf16, to nearest even;
 * sums are float. Fast with AVX512-BF16 or AMX only. */
extern const struct conv_method conv_bf16;
/* By a column matrix and OpenBLAS. It can do all but the gradient of a plain
 * input, which nothing can. */
extern const struct conv_method conv_gemm;

/* What conv_bf16 computes with: conv_use()'s, but "amx" for "avx512"
 * where the processor has that, and "avx2" where it has no AVX512-BF16. Whether
 * that has instructions for products of bf16. */
const char *conv_bf16_isa(void);
bool conv_bf16_fast(void);

/* The one to take: by what conv_choose() has set, else by a rule that depends
 * on nothing but the shape, so that runs repeat bit by bit; with bf16 it also
 * asks whether the processor has AMX. It can do the pass, if anything can. */
const struct conv_method *conv_best(const struct conv *, enum conv_pass);

/* Whether so many threads are faster if they share out outputs, or of dx or dw,
 * rather than images. */
bool conv_by_outputs(const struct conv *, enum conv_pass,
                     const struct conv_method *, int threads);
/* Whether its share of a pass is nothing. */
bool conv_is_idle(const struct conv *, enum conv_pass,
                  const struct conv_method *);

/* How all later nets choose; NULL, or NULL from it: by the rule. Not
 * thread-safe.
 */
typedef const struct conv_method *conv_choose_fn(const struct conv *,
                                                 enum conv_pass);
void conv_choose(conv_choose_fn *);

/* Whether conv_best() may take conv_bf16, for all later nets; at first it may
 * not. Not thread-safe. */
void conv_allow_bf16(bool);
bool conv_bf16_allowed(void);

/* Between (N, C, H, W) and blocked. */
void conv_to_blocked(const float *plain, float *blocked, int n, int c, int h,
                     int w);
void conv_to_plain(const float *blocked, float *plain, int n, int c, int h,
                   int w);

#endif
