/* SPDX-License-Identifier: MIT */
/* What wide sums read: copies of some rows of some images, of bf16. Rows of the
 * input are as wide as taps reach, and those of dy have zeros up to there, so
 * that whatever the tap a run of positions is one. Of the input there are two
 * copies, of pairs from even and from odd positions on, and of strides one for
 * each remainder (phase). */
#ifndef TRAINER_KERNELS_CONV_WIDE_COPY_H
#define TRAINER_KERNELS_CONV_WIDE_COPY_H

#include "kernels/conv_view.h"

enum {
    WIDE_STEP = 32, /* positions, */
    /* and their pairs of a block, in floats */
    WIDE_SQUARE = CONV_BLOCK * CONV_BLOCK,
    WIDE_AT_ONCE = 2, /* blocks of outputs, of a sum; chunks are even */
};

struct wide_runs {
    int rows, images;        /* at once */
    int width;               /* of a row */
    int reach;               /* rows that taps read beyond that of a position */
    int high, wide;          /* phases */
    bool joined;             /* images are one run */
    bool odd;                /* some tap is at an odd position */
    int x_blocks, dy_blocks; /* of a chunk */
    size_t x_block, dy_block; /* floats of their copies */
};

struct wide_band {
    const struct conv_isa *isa;
    const struct conv_view *view;
    struct wide_runs runs;
    const float *x, *dy; /* of the first image */
    size_t x_image, dy_image;
    bool half; /* dy is bf16; of x the view says it */
    int images, first, rows;
    float *line, *x_copy, *dy_copy; /* scratch */
};

struct wide_runs wide_runs_of(const struct conv_view *, int outputs);

/* Floats of the line and of both copies. */
size_t wide_scratch(const struct wide_runs *);

/* Sets where they are. */
void wide_place(struct wide_band *, float *scratch);

/* Positions of an image's copies, or of all images' where they are joined. */
int wide_x_length(const struct wide_band *);
int wide_dy_length(const struct wide_band *);

/* Of so many positions, in whole steps. */
size_t wide_floats(int positions);

/* Where a tap reads, from the copy of a block on: its first pair. */
size_t wide_tap_at(const struct wide_band *, int tap);

/* So many blocks from one on, each runs.x_block floats behind the last one:
 * [step][16 pairs of positions][16 channels] of each image. */
void wide_copy_x(const struct wide_band *, int block, int blocks);

/* The same, runs.dy_block floats: [step][16 outputs][16 pairs of positions]. */
void wide_copy_dy(const struct wide_band *, int block, int blocks);

#endif
