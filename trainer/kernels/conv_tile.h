/* SPDX-License-Identifier: MIT */
/* The two loops in which a convolution spends its time, in registers.
 *
 * A tile is some positions of a row by some blocks of 16 channels, or halves of
 * blocks; a wide one has positions of several rows. Both loops read the input
 * 16 floats a position apart (`apart` tiles read lines of plain images);
 * conv_direct.c copies it so where strides or padding are in the way.
 *
 * Those for bf16 read pairs of numbers where the others read floats: of input
 * channels in conv_tile, so that positions are 8 floats apart, and of images in
 * conv_sum. Sums are float. Those of struct conv_wide read 32 channels of bf16
 * at a position, and in conv_wide_sum pairs of positions.
 */
#ifndef TRAINER_KERNELS_CONV_TILE_H
#define TRAINER_KERNELS_CONV_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/conv.h"
#include "kernels/lanes.h"

enum {
    TILE_BLOCKS = 4,               /* of output channels, at most */
    TILE_HALVES = 2 * TILE_BLOCKS, /* of 8 channels */
    TILE_POSITIONS = 14,           /* at most */
    TILE_EDGE = 2, /* positions at a side that may read padding */
};

/* Of wide tiles and sums, at most; channels exactly. */
enum {
    WIDE_CHANNELS = 32,
    WIDE_POSITIONS = 16, /* of a group */
    WIDE_GROUPS = 3,
    WIDE_SHEETS = 3,
};

/* Kernels of 3x3, of 5x5, and of 3x3 with strides of 2. */
enum winograd_kind {
    WINOGRAD_3,
    WINOGRAD_5,
    WINOGRAD_3_STRIDE_2,
    WINOGRAD_KINDS
};

/* Positions of a row, from `from` to `to` - 1. */
struct conv_span {
    int from, to;
};

/* Of nq positions and nk blocks: y = bias + sum over input channels and taps of
 * x w, or y += that. Where a tile is of an odd number of halves, the last 8
 * channels become their bias, or stay as they are: none is theirs, so that is
 * 0. */
struct conv_tile {
    const float *x;     /* the first position, channel and tap */
    size_t x_step;      /* floats to the next position, for `apart`, */
    size_t x_block;     /* and to the next 16 input channels */
    const int32_t *tap; /* floats to what each tap reads */
    /* Columns at which each tap reads no padding, and the first position's;
     * NULL: all read. */
    const struct conv_span *inside;
    int column;
    ptrdiff_t ahead;    /* floats from x to what is to be read soon */
    int ntaps, nblocks; /* of 16 input channels; */
    int last;           /* but the last one has so many, or pairs of them */
    const float *w;     /* [block][tap][channel][nk][16]; there are more taps */
    int before, after;  /* than ntaps, so many before and after those */
    float *y;
    size_t y_block, y_step; /* floats to the next 16 outputs, and position */
    const float *bias;      /* [nk][16]; NULL: add to y */
    /* Of wide tiles, in place of x and y: groups of so many positions, of which
     * the first `count` are wanted; all are read. They go through lines of
     * `pitch` positions, of which the first `columns` are written. */
    int positions, groups;
    int columns, pitch;
    size_t y_line; /* floats to the next line */
    struct conv_group {
        const float *x;
        float *y;   /* where the first position is written, or would be */
        int column; /* of it in its line */
        int count;
    } group[WIDE_GROUPS];
    bool stream; /* y to memory, past the caches; with a bias */
    bool half;   /* y is bf16 */
    bool relu;   /* y = max(y, 0), of NaN 0 */
    /* NULL, or y becomes 0 where this is not above 0; it begins as dx does. */
    const float *gate;
    const float *dx;
};

/* Of nc input channels and nk blocks, for one tap: dw += sum over positions of
 * x dy. Of an odd number of halves the last 8 of dw stay as they are. */
struct conv_sum {
    const float *x, *dy;
    size_t x_image, x_row;
    size_t dy_image, dy_row, dy_block;
    int images, rows, columns;
    /* Of the first image, what is read soon: of each so many lines of 16 floats
     * are fetched for 16 positions. */
    const float *x_soon, *dy_soon;
    int x_lines, dy_lines;
    float *dw; /* [nc][nk][16] */
};

/* Of one or two blocks of outputs (nk) and up to three sheets (nx), each what a
 * tap reads of a block of inputs: dw = sum over positions of x dy, or += that.
 */
struct conv_wide_sum {
    const float *dy; /* [step][16 outputs][16 pairs of positions], of bf16, */
    /* and [step][16 pairs of positions][16 channels] */
    const float *x[WIDE_SHEETS];
    size_t dy_image, dy_block, x_image; /* floats to the next one */
    int images, steps;                  /* of 32 positions */
    int nk, nx;
    bool add;
    float *dw[WIDE_SHEETS]; /* [16 outputs][16 channels]; */
    size_t dw_output;       /* floats to the next block */
};

/* Rounds to bf16, to nearest even; what is no number stays none. */
struct conv_round {
    /* n numbers, a multiple of 16. */
    void (*row)(const float *x, float *to, size_t n);
    /* Of n positions 16 of a and 16 of b; b may be NULL: zeros. */
    void (*join)(const float *a, const float *b, float *to, size_t n);
    /* n times 16 pairs, each of a position and the next one; and the same of
     * what is bf16 already. */
    void (*neighbours)(const float *x, float *to, size_t n);
    void (*half_neighbours)(const float *x, float *to, size_t n);
    /* 16 times 16 pairs, of a and of b, each time so many floats further. */
    void (*square)(const float *a, const float *b, size_t step, float *to);
    /* n pairs, of those of a and of b; b may be NULL: zeros. `to` may be a. */
    void (*pairs)(const float *a, const float *b, float *to, size_t n);
};

typedef void conv_tile_fn(const struct conv_tile *);
typedef void conv_sum_fn(const struct conv_sum *);

/* 16 rows of 16 floats to columns: to[i][j] = from[j][i], or += where to add.
 * Where to[i] is NULL it is left out. */
struct conv_turn {
    void (*turn)(const float *const from[CONV_BLOCK],
                 float *const to[CONV_BLOCK], bool add);
};

/* AMX's. */
struct conv_wide {
    void (*tile)(const struct conv_tile *, int nk); /* of one or two blocks */
    void (*sum)(const struct conv_wide_sum *);
    void (*end)(void); /* of a pass, by the thread that called the others */
};

struct conv_isa {
    const char *name;
    const struct conv_wide *wide; /* in place of tiles and sums, or NULL */
    const struct conv_turn *turn;
    const struct conv_transforms *transforms[WINOGRAD_KINDS];
    const struct lanes *lanes;
    const struct conv_round *round; /* tiles take pairs of bf16; NULL: floats */
    int most[TILE_HALVES + 1];      /* positions of tiles of so many halves of
                                       blocks; 0: none */
    int far_widest; /* blocks, where weights lie in the second cache */
    int near; /* blocks of inputs whose weights, of one tap for the widest tile,
                 take half of the first cache; 0: the second is fast enough */
    conv_tile_fn *tile[TILE_HALVES + 1][TILE_POSITIONS + 1];
    /* Those take any x_step, the others that of neighbours. */
    conv_tile_fn *apart[TILE_HALVES + 1][TILE_POSITIONS + 1];
    int sum_near;                  /* positions of a sum, at most */
    int sum_most[TILE_HALVES + 1]; /* channels; all up to it */
    conv_sum_fn *sum[TILE_HALVES + 1][CONV_BLOCK + 1];
};

/* A tile at an edge: of the inputs that it needs those from `top` to bottom - 1
 * and so on lie in the tensor, the others are zeros. It has so many outputs.
 */
struct conv_edge {
    int top, bottom, left, right;
    int rows, columns;
};

/* What is done to outputs when they are written, one of these at most: see
 * struct conv_tile; gate begins where y does. */
struct conv_end {
    bool relu;
    const float *gate;
};

enum { WINOGRAD_SIDE = 4 }; /* outputs of a row or column of a tile, at most */

/* Winograd's, of one tile and 16 channels; wide x wide places, `next` floats
 * apart. A tile with fewer outputs has fewer of them. */
struct conv_transforms {
    int wide, side, kernel; /* of what a tile reads, of its outputs, and of a
                               kernel */
    /* Which rows or columns of places so many outputs have, as bits; others are
     * neither read nor written. */
    unsigned has[WINOGRAD_SIDE + 1];
    /* Of the input, whose rows are so many floats apart; edge: NULL if all of
     * the tile lies inside, and likewise below. */
    void (*input)(float *x, size_t row, const struct conv_edge *edge, float *v,
                  size_t next);
    /* x += its transpose. */
    void (*input_back)(float *x, size_t row, const struct conv_edge *edge,
                       float *v, size_t next);
    /* So many rows and columns of its outputs, to which 16 are added; bias
     * NULL: what is there. */
    void (*output)(const float *m, size_t next, const float *bias, float *y,
                   size_t row, int rows, int columns,
                   const struct conv_end *end);
    /* The transpose. */
    void (*output_back)(const float *dy, size_t row, int rows, int columns,
                        float *v, size_t next);
    /* A kernel, for 16 outputs; its elements are at these floats. */
    void (*weights)(const float *g, const size_t *at, float *u, size_t next);
    /* The transpose. */
    void (*weights_back)(const float *u, size_t next, float *g,
                         const size_t *at);
};

#define ISA(name)                                                              \
    extern const struct conv_isa conv_isa_##name, conv_isa_bf16_##name;        \
    extern const struct conv_round conv_round_##name;                          \
    extern const struct conv_turn conv_turn_##name;                            \
    extern const struct conv_transforms conv_transforms_6_##name,              \
        conv_transforms_8_##name, conv_transforms_5_##name;
#include "kernels/isas.def"
#undef ISA

#endif
