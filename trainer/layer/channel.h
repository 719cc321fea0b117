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

/* What layers with one parameter a channel have in common: its name in files,
 * and where it starts from. */
const char *channel_parse(struct layer *, int nwords, char **words);
void channel_describe(const struct layer *, const char *name,
                      struct layer_param *to, int most);
void channel_fill(struct layer *, float value);

#endif
