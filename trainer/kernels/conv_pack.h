/* SPDX-License-Identifier: MIT */
/* Weights in the order in which tiles read them, and what tiles there are. */
#ifndef TRAINER_KERNELS_CONV_PACK_H
#define TRAINER_KERNELS_CONV_PACK_H

#include "kernels/conv_tile.h"
#include "kernels/conv_view.h"

/* Which conv_use() has set, else the best. */
const struct conv_isa *conv_isa(void);

/* The same for pairs of bf16. */
const struct conv_isa *conv_isa_bf16(void);

/* Blocks of 16 that so many channels take. */
static inline int conv_blocks(int channels)
{
    return (channels + CONV_BLOCK - 1) / CONV_BLOCK;
}

static inline int conv_most(int a, int b)
{
    return a > b ? a : b;
}

static inline int conv_least(int a, int b)
{
    return a < b ? a : b;
}

/* Of so many blocks of outputs, of a group, those that are to be computed. */
struct conv_span conv_share(const struct conv *, int blocks);

/* Sets those of dx to 0. */
void conv_clear(const struct conv *, float *dx);

/* Blocks of outputs of the next tile, where `left` remain and tiles have at
 * most `widest`; most: conv_isa.most or .sum_most. */
int conv_tile_blocks(const int *most, int widest, int left);

/* Halves of nk blocks that are to be worked out where so many outputs are left.
 */
int conv_tile_halves(const int *most, int nk, int outputs);

/* The widest tile of which there are any. */
int conv_widest(const int *most);

/* Of how many blocks tiles are to be, so that they use most registers; among
 * equals, no more than are enough. */
int conv_widest_for(const int *most, int columns, int enough);

/* Where weights of outputs, inputs and taps lie in memory, in floats. */
struct conv_weights {
    int outputs;
    size_t output, input; /* to the next one */
    int kernel_w;
};

/* Where an output's weight of an input of the view and of a tap lies. */
size_t conv_weight_at(const struct conv_view *, const struct conv_weights *,
                      int input, int tap);

/* Floats of packed weights: [tile][block][tap][channel][nk][16]. Of a view with
 * pairs of channels no more than that, but of one with blocks of 32. */
size_t conv_packed(const struct conv_view *, int outputs);

/* So many blocks of outputs, and of inputs, from a first on: what a tile reads
 * of a chunk of input blocks. */
struct conv_part {
    int output, outputs;
    int block, blocks;
};

/* Of one part, whose place is `to`; places without a weight become zero.
 * Rounded, and channels in pairs, where the view has them so: it writes beyond
 * the part then, as far as floats would take, and parts that are kept are
 * packed in the order of their places. */
void conv_pack_part(const struct conv_view *, const struct conv_weights *,
                    const struct conv_part *, const float *from, float *to);

/* The same where blocks have 32 channels, and taps 16 pairs of each. */
void conv_pack_wide(const struct conv_view *, const struct conv_weights *,
                    const struct conv_part *, const float *from, float *to);

/* Adds what is packed to where it belongs. */
void conv_unpack_part(const struct conv_view *, const struct conv_weights *,
                      const struct conv_part *, const float *from, float *to);

/* The same of some blocks of outputs; from: what the first of them has. */
void conv_unpack(const struct conv_view *, const struct conv_weights *,
                 const int *most, int widest, struct conv_span blocks,
                 const float *from, float *to);

/* Of what Winograd's algorithm can do. */
enum winograd_kind conv_winograd_kind(const struct conv *);

/* Of all images: tiles that Winograd's algorithm transforms, and their places.
 */
struct winograd_work {
    double tiles, places;
};
struct winograd_work conv_winograd_work(const struct conv *, enum conv_pass);

#endif
