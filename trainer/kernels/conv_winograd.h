/* SPDX-License-Identifier: MIT */
/* What the files of Winograd's algorithm have in common: tiles on their way to
 * places and back, and kernels likewise. */
#ifndef TRAINER_KERNELS_CONV_WINOGRAD_H
#define TRAINER_KERNELS_CONV_WINOGRAD_H

#include "kernels/conv_pack.h"

/* Floats between matrices, so that places do not fall on the same lines. */
enum { WINOGRAD_APART = CONV_BLOCK };

/* Tiles by what they have at the bottom and at the right. In this order those
 * that have a place follow one another, whichever it is. */
enum { TILE_SHORT, TILE_WHOLE, TILE_NARROW, TILE_CORNER, WINOGRAD_SORTS };

/* All tiles of all images, so many at a time: TILE_SHORT ones of all images,
 * TILE_WHOLE ones, and so on. */
struct winograd_tiles {
    const struct conv_view *view;
    const struct conv_transforms *to;
    size_t places;
    int images, end[WINOGRAD_SORTS];
    int all, at_once;
    struct conv_span share;           /* of the blocks of outputs */
    bool add;                         /* outputs to what is there */
    bool relu;                        /* see struct conv_tile */
    const float *gate, *dx;           /* likewise */
    bool from_last;                   /* done from the last to the first */
    size_t x_image, y_image, x_plane; /* floats of all groups */
};

/* Floats between the matrices of two places, of so many channels and tiles. */
static inline size_t winograd_matrix(const struct winograd_tiles *t,
                                     int channels)
{
    return (size_t)conv_blocks(channels) * CONV_BLOCK * (size_t)t->at_once
           + WINOGRAD_APART;
}

/* Which of n tiles from `first` on have place e: those from *from to the
 * returned one - 1. */
int winograd_having(const struct winograd_tiles *, size_t e, int first, int n,
                    int *from);

/* Of so many outputs of a group. */
struct winograd_tiles winograd_tiles_of(const struct conv_view *,
                                        const struct conv *, int outputs);

/* What follows does n tiles from `first` on, and these blocks of channels. V:
 * [place][block][tile][16]; back: adds what the transpose makes of V to x. */
void winograd_input(const struct winograd_tiles *, struct conv_span blocks,
                    float *x, int first, int n, float *v, bool back);

/* y from M, which is as V; outputs: their channels. */
void winograd_output(const struct winograd_tiles *, int outputs, int first,
                     int n, const float *m, const float *bias, float *y);

/* Its transpose: M from dy. */
void winograd_dy(const struct winograd_tiles *, struct conv_span blocks,
                 int outputs, const float *dy, int first, int n, float *m);

/* Blocks of outputs whose U is there: all, or so many at a time. */
enum { WINOGRAD_CHUNK = TILE_BLOCKS };
struct winograd_chunk {
    int first, blocks, end, widest; /* of tiles */
    const int *most;
};

/* Floats between the matrices of two places: [tile][block][channel][nk][16], as
 * for one tap. */
static inline size_t winograd_place_floats(const struct conv_view *v,
                                           int blocks)
{
    return (size_t)blocks * CONV_BLOCK * (size_t)v->channels + WINOGRAD_APART;
}

/* What a tile of outputs has, packed. */
static inline size_t winograd_packed_floats(const struct conv_view *v,
                                            int outputs)
{
    return conv_packed(v, conv_least(outputs, TILE_BLOCKS * CONV_BLOCK));
}

/* The first chunk. Where all tiles are done at once, each part of U is there
 * only for as long as it takes, in a cache. */
struct winograd_chunk winograd_chunk_of(const struct winograd_tiles *,
                                        const int *most, int widest);

/* The next one; false: there is none. Only the last may be shorter. */
bool winograd_next_chunk(struct winograd_chunk *);

/* U of w, or, back, what U says of the gradient added to w. */
void winograd_weights(const struct winograd_tiles *, const struct conv_view *,
                      const struct conv_weights *order,
                      const struct winograd_chunk *, float *w, float *packed,
                      float *u, bool back);

#endif
