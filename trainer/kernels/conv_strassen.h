/* SPDX-License-Identifier: MIT */
/* What conv_strassen.c and its gradient of the weights have in common.
 *
 * Channels are cut in two, and so are the positions of each image, so that what
 * an image gives never depends on another one:
 *
 *     positions   0 .. half - 1   half .. 2 half - 1   the last, if they are
 * odd channels    Q11             Q12                  goes as it is defined
 *                 Q21             Q22
 */
#ifndef TRAINER_KERNELS_CONV_STRASSEN_H
#define TRAINER_KERNELS_CONV_STRASSEN_H

#include "kernels/conv_pack.h"
#include "kernels/quarters.h"

/* What a product reads or writes: floats to the next image's, and to the next
 * 16 channels. */
struct quarter {
    float *at;
    size_t image, block;
};

/* The quarters of a tensor with so many channels and positions. */
static inline void quarters_of(float *x, int channels, int positions,
                               struct quarter q[QUARTERS])
{
    const size_t block = (size_t)positions * CONV_BLOCK;
    const size_t blocks = (size_t)conv_blocks(channels);
    const size_t half = (size_t)(positions / 2) * CONV_BLOCK;
    for (size_t i = 0; i < QUARTERS; i++)
        q[i] = (struct quarter){x + i / 2 * (blocks / 2 * block) + i % 2 * half,
                                blocks * block, block};
}

/* Where strides leave positions out: those of so many images that they do not,
 * one after another. */
void strassen_gather(const struct conv_view *, const float *x, int images,
                     float *to);

/* Some floats or images or blocks further. */
static inline struct quarter quarter_from(struct quarter m, size_t floats)
{
    m.at += floats;
    return m;
}

typedef void strassen_sums_fn(const float *const from[QUARTERS],
                              float *const to[QUARTERS], size_t n);

/* Sums of n positions of so many images and blocks, one after another; `sums`
 * is set to where they are. */
void strassen_sums(strassen_sums_fn *, const struct quarter from[QUARTERS],
                   int images, int blocks, int n, float *to,
                   struct quarter sums[QUARTERS]);

static inline bool strassen_apart(const struct conv *c)
{
    return c->stride_h > 1 || c->stride_w > 1;
}

/* The gradient of the weights, and floats of scratch for it. */
void strassen_backward_weights(const struct conv *, const float *x,
                               const float *dy, float *dw, float *scratch);
size_t strassen_scratch_of_weights(const struct conv *);

#endif
