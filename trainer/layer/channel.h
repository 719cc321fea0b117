/* SPDX-License-Identifier: MIT */
/* What layers share that treat each channel by itself: walks over the positions
 * of 16 channels, in all images. */
#ifndef TRAINER_LAYER_CHANNEL_H
#define TRAINER_LAYER_CHANNEL_H

#include "layer/layer.h"

/* Of these positions, 16 channels each. */
struct channel_run {
    size_t first; /* float of the tensor */
    size_t count; /* of positions */
};

/* Positions of block b in image i. */
static inline struct channel_run channel_run(struct shape s, int i, int b)
{
    const size_t plane = shape_plane(s);
    return (struct channel_run){
        ((size_t)i * (size_t)shape_blocks(s) + (size_t)b) * plane * BLOCK,
        plane};
}

/* Up to 16 of an array with one number a channel; the rest are `rest`. */
static inline void channel_load(struct shape s, const float *from, int b,
                                float rest, float *to)
{
    for (int k = 0; k < BLOCK; k++)
        to[k] = b * BLOCK + k < s.c ? from[b * BLOCK + k] : rest;
}

/* Adds up to 16 sums to such an array. */
static inline void channel_add(struct shape s, const double *sums, int b,
                               float *to)
{
    for (int k = 0; k < BLOCK && b * BLOCK + k < s.c; k++)
        to[b * BLOCK + k] += (float)sums[k];
}

/* sums[k] += what x has in channel k, times z - shift[k] unless z is NULL.
 * Short sums are float, long ones double. */
static inline void channel_sum(const float *x, const float *z,
                               const float *shift, size_t count, double *sums)
{
    enum { SHORT = 64 };
    while (count) {
        const size_t n = count < SHORT ? count : SHORT;
        float part[BLOCK] = {0};
        for (size_t p = 0; p < n; p++)
            for (int k = 0; k < BLOCK; k++)
                part[k] += z ? x[p * BLOCK + k] * (z[p * BLOCK + k] - shift[k])
                             : x[p * BLOCK + k];
        for (int k = 0; k < BLOCK; k++)
            sums[k] += (double)part[k];
        x += n * BLOCK;
        z = z ? z + n * BLOCK : NULL;
        count -= n;
    }
}

#endif
