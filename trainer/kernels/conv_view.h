/* SPDX-License-Identifier: MIT */
/* What a pass reads at each position, such that neighbours are equally far
 * apart: 16 floats, but for lines of a plain input.
 *
 * Forward, position (r, q) reads rows row0 + r stride + i dilation. Backward,
 * the positions of dx that are alike modulo the stride read dy with stride 1;
 * taps are those of the kernel that meet them.
 *
 * Of a plain input lines are copied, with their padding: the kernel's columns
 * become the channels, taps are its rows of each channel, and positions are as
 * far apart as the stride says. Or it is spread out: the kernel's row of the
 * first channel, of the second and so on become the channels, and taps are its
 * rows.
 *
 * A copy may have its numbers rounded to bf16, of which a float's place holds
 * two: neighbours are then 8 floats apart, or the copy is one of two images, or
 * its blocks have 32 channels.
 */
#ifndef TRAINER_KERNELS_CONV_VIEW_H
#define TRAINER_KERNELS_CONV_VIEW_H

#include <stdint.h>

#include "kernels/conv_tile.h"

enum { CONV_TAPS = 256 }; /* at most, R x S */

/* a / b, rounded up. */
static inline int conv_up(int a, int b)
{
    return (a + b - 1) / b;
}

struct conv_view {
    int h, w;                       /* of the tensor that is read */
    int channels, blocks;           /* and its channels, in blocks */
    const struct conv_round *round; /* of the copy; NULL: it has floats */
    int deep;          /* channels of a block of the copy: 16, or 32 */
    int place;         /* floats of a block at a position: 16, or 8 */
    bool half;         /* the tensor is bf16; with blocks of 32 */
    int spread;        /* plain channels that are spread out, or 0 */
    int lines;         /* plain channels of which lines are copied, or 0 */
    int dilation_w;    /* of what is spread */
    int rows, columns; /* of positions */
    int stride_h, stride_w;
    int row0, column0; /* that position 0 reads by a tap at (0, 0) */
    int ntaps;
    struct {
        int16_t row, column; /* from there */
        int16_t i, j; /* of the kernel; of lines i counts all channels' */
    } tap[CONV_TAPS];
    /* Set by view_finish(). */
    bool copies;       /* else read where it lies */
    size_t step;       /* floats from a position to the next */
    bool dense;        /* only the rows that positions begin at are copied */
    int phases, width; /* of a row: columns by their remainder, and how many */
    size_t row;        /* floats of a row of the copy, or of the tensor */
    int32_t at[CONV_TAPS]; /* floats from a position's first to each tap's */
    /* Columns of positions at which each tap reads no padding. */
    struct conv_span inside[CONV_TAPS];
};

void view_forward(struct conv_view *, const struct conv *);

/* The same, 16 floats a position; a plain input is spread out. */
void view_spread(struct conv_view *, const struct conv *);

/* Of the positions of dx whose row and column, with padding, leave these
 * remainders. rows or columns may be 0, and so may ntaps. */
void view_backward(struct conv_view *, const struct conv *, int rest_h,
                   int rest_w);

/* Of what view_forward() or view_backward() has set: the copy is to have pairs
 * of channels, in blocks of so many, or of images. */
void view_pair_channels(struct conv_view *, const struct conv_round *,
                        int deep);
void view_pair_images(struct conv_view *, const struct conv_round *);

/* Floats of a position of the tensor's block. */
static inline int view_place(const struct conv_view *v)
{
    return v->half ? CONV_BLOCK / 2 : CONV_BLOCK;
}

/* Rows that a tile has of the weights of so many channels: these, or pairs, of
 * which blocks of 32 channels have 16. */
static inline int view_depth(const struct conv_view *v, int channels)
{
    return v->deep > CONV_BLOCK     ? conv_up(channels, v->deep) * v->place
           : v->place == CONV_BLOCK ? channels
                                    : (channels + 1) / 2;
}

/* The taps that read the tensor, not padding, at this row of positions: from
 * *first on, as many as are returned. */
int view_taps(const struct conv_view *, int row, int *first);

/* The other way round: of so many rows from `first` on those at which tap i
 * reads the tensor, as *from to *to - 1, counted from `first`. */
void view_inside(const struct conv_view *, int i, int first, int rows,
                 int *from, int *to);

/* Rows of the copy for so many rows of positions. */
int view_rows(const struct conv_view *, int rows);

/* n positions of so many floats, 16 or 8, each so many places further. */
void view_copy_places(const float *from, int stride, int n, int place,
                      float *to);

/* Copies what positions of rows from `first` on read of a block; also: of the
 * other image of a pair, or what follows x by 16 channels, NULL: zeros. */
void view_copy(const struct conv_view *, const float *x, const float *also,
               int block, int first, int rows, float *to);

/* Of a plain input that is spread out: of the kernel's row at each of so many
 * positions what this block of 16 channels sees, those of a plain channel
 * behind one another, and zeros. */
void view_spread_row(const struct conv_view *, const float *x, int block,
                     int row, int first, int count, float *to);

/* Where position (row, 0) reads by a tap at (0, 0), without a copy; may be
 * padding. */
ptrdiff_t view_direct(const struct conv_view *, int row);

/* Where it reads in a copy whose first row is that of position 0. */
static inline size_t view_row(const struct conv_view *v, int row)
{
    return v->row * (size_t)(v->copies && v->dense ? row : row * v->stride_h);
}

#endif
