/* SPDX-License-Identifier: MIT */
/* The gradient of the weights. Order of work: images, bands of rows, chunks of
 * input blocks, blocks of outputs, positions that are near each other. */
#include <string.h>

#include "kernels/conv_bands.h"
#include "kernels/conv_direct.h"
#include "kernels/conv_pack.h"

enum {
    FEW = 196,       /* positions; of less, several images are done at once */
    WEIGHTS = 73728, /* floats of one chunk and tile, at most */
};

/* All outputs are summed over so much of the input that the second cache holds.
 * Of as many images as there may be at once, so that a short batch needs no
 * more scratch than a full one. */
static struct conv_bands sum_bands_of(const struct conv_isa *isa,
                                      const struct conv_view *v)
{
    const int images = conv_up(FEW, v->rows * v->columns);
    struct conv_bands b =
        conv_bands_of(v, WEIGHTS / conv_widest(isa->sum_most), images);
    if (!v->copies && v->ntaps == 1) {
        const int rows = isa->sum_near / (v->columns * images);
        b.rows = rows < 1 ? 1 : conv_least(rows, v->rows);
    }
    const size_t block = (size_t)view_rows(v, b.rows) * v->row * (size_t)images;
    const int most = BAND / block < 1 ? 1 : (int)(BAND / block);
    if (b.blocks > most)
        b.blocks = conv_even_parts(v->blocks, most);
    b.image = b.block * (size_t)b.blocks;
    return b;
}

/* Pairs are always copied: no more rows than are summed over at once, and all
 * the blocks that there is room for. */
static struct conv_bands bands_of_pairs(const struct conv_view *v)
{
    struct conv_bands b = {.images = conv_up(FEW, v->rows * v->columns)};
    b.rows = conv_even_parts(v->rows, conv_up(FEW, v->columns * b.images));
    b.block = (size_t)view_rows(v, b.rows) * v->row;
    const int room = (int)(BAND / (b.block * (size_t)b.images));
    b.blocks = conv_even_parts(v->blocks, room < 1 ? 1 : room);
    b.image = b.block * (size_t)b.blocks;
    return b;
}

static struct conv_bands view_sums(const struct conv_isa *isa,
                                   const struct conv *c, struct conv_view *v)
{
    view_spread(v, c);
    if (!isa->round)
        return sum_bands_of(isa, v);
    view_pair_images(v, isa->round);
    return bands_of_pairs(v);
}

/* Images of a group whose sums are gathered at once. */
struct sums {
    const struct conv_isa *isa;
    const struct conv_view *view;
    struct conv_bands bands;
    const float *x;  /* of the first image */
    const float *dy; /* and of the band's first row, or their copy as pairs */
    size_t x_image, dy_image, dy_row, dy_block;
    /* Floats from what a band reads to what the next one does; 0: that is known
     * to be near, or there is none. */
    ptrdiff_t x_next, dy_next;
    int images;
    int outputs;
    struct conv_span share; /* of their blocks */
    int sheets;             /* as many as images, or pairs of them */
    float *band, *dw;
};

/* Which blocks of inputs and outputs of a band have their turn. */
struct turn {
    int input, inputs, output, outputs;
};

/* What the next band reads comes to the second cache while this one is summed:
 * each call of a tile has a share of it. Call i of n. */
static void share_x(const struct sums *s, struct conv_sum *t, const float *x,
                    int i, int n)
{
    if (!s->x_next)
        return;
    const size_t positions = (size_t)(t->rows * t->columns);
    t->x_soon = x + s->x_next + positions * (size_t)i / (size_t)n * CONV_BLOCK;
    t->x_lines = conv_up(CONV_BLOCK, n);
}

static void share_dy(const struct sums *s, struct conv_sum *t, const float *dy,
                     int nk, int i, int n)
{
    if (!s->dy_next)
        return;
    const size_t positions = (size_t)(t->rows * t->columns);
    const int block = i * nk / n, at = i * nk % n;
    t->dy_soon = dy + s->dy_next + (size_t)block * t->dy_block
                 + positions * (size_t)at / (size_t)n * CONV_BLOCK;
    t->dy_lines = conv_up(CONV_BLOCK * nk, n);
}

/* One tile's row of taps and channels of a block, over positions of so many
 * rows from `first` on. */
static void sum_block(const struct sums *s, struct conv_sum *t, const float *x,
                      int first, int rows, int halves, int nc, struct turn turn)
{
    const int nk = (halves + 1) / 2;
    const struct conv_view *v = s->view;
    const float *dy = t->dy;
    const int most = s->isa->sum_most[halves];
    const int calls = v->ntaps * conv_up(nc, most);
    int call = 0;
    for (int i = 0; i < v->ntaps; i++) {
        int from, to;
        view_inside(v, i, first, rows, &from, &to);
        const struct conv_span in = v->inside[i];
        t->rows = to - from;
        t->columns = in.to > in.from ? in.to - in.from : 0;
        t->dy = dy + (size_t)from * t->dy_row + (size_t)in.from * CONV_BLOCK;
        if (t->columns == v->columns && t->x_row == t->dy_row
            && t->dy_row == (size_t)v->columns * CONV_BLOCK) {
            t->columns *= t->rows;
            t->rows = 1;
        }
        for (int c = 0, n; c < nc; c += n, call++) {
            n = nc < CONV_BLOCK ? conv_even_parts(nc - c, most)
                                : conv_least(nc - c, most);
            share_x(s, t, x, turn.output * calls + call, turn.outputs * calls);
            share_dy(s, t, dy, nk, turn.input * calls + call,
                     turn.inputs * calls);
            t->x = x + v->at[i] + c + in.from * CONV_BLOCK
                   + (size_t)from * t->x_row;
            s->isa->sum[halves][n](t);
            t->dw += n * nk * CONV_BLOCK;
        }
    }
}

static const float *image_of(const struct sums *s, const float *first,
                             size_t image, int sheet)
{
    return first + (size_t)(s->isa->round ? 2 * sheet : sheet) * image;
}

static const float *other_of(const struct sums *s, const float *first,
                             size_t image, int sheet)
{
    return s->isa->round && 2 * sheet + 1 < s->images
               ? image_of(s, first, image, sheet) + image
               : NULL;
}

static void copy_band(const struct sums *s, int first, int rows, int b0,
                      int nblocks)
{
    for (int i = 0; i < s->sheets; i++)
        for (int b = 0; b < nblocks; b++)
            view_copy(s->view, image_of(s, s->x, s->x_image, i),
                      other_of(s, s->x, s->x_image, i), b0 + b, first, rows,
                      s->band + (size_t)i * s->bands.image
                          + (size_t)b * s->bands.block);
}

/* Of rows from `first` on; returns the copy. */
static const float *pair_dy(const struct sums *s, const float *dy,
                            size_t dy_image, int first, int rows)
{
    const struct conv_view *v = s->view;
    const size_t plane = (size_t)v->rows * (size_t)v->columns * CONV_BLOCK;
    const size_t at = (size_t)first * s->dy_row;
    float *to = s->band + conv_band_floats(&s->bands);
    for (int i = 0; i < s->sheets; i++)
        for (int b = s->share.from; b < s->share.to; b++) {
            const float *one = image_of(s, dy, dy_image, i);
            const float *other = other_of(s, dy, dy_image, i);
            const size_t from = (size_t)b * plane + at;
            s->isa->round->pairs(one + from, other ? other + from : NULL,
                                 to + (size_t)i * s->dy_image
                                     + (size_t)b * s->dy_block,
                                 (size_t)rows * s->dy_row);
        }
    return to;
}

static void sum_band(const struct sums *s, int first, int rows, int b0)
{
    const struct conv_view *v = s->view;
    const int nblocks = conv_least(s->bands.blocks, v->blocks - b0);
    const struct conv_span all = s->share;
    const size_t plane = (size_t)v->h * (size_t)v->w * CONV_BLOCK;
    const int *most = s->isa->sum_most;
    if (v->copies)
        copy_band(s, first, rows, b0, nblocks);
    for (int kb = all.from, nk; kb < all.to; kb += nk) {
        nk = conv_tile_blocks(most, conv_widest(most), all.to - kb);
        const int halves =
            conv_tile_halves(most, nk, s->outputs - kb * CONV_BLOCK);
        int near = s->isa->sum_near / (v->columns * s->sheets);
        near = near < 1 ? 1 : near;
        for (int r = 0; r < rows; r += near)
            for (int b = 0; b < nblocks; b++) {
                const int at = b0 + b;
                const float *x =
                    v->copies
                        ? s->band + (size_t)b * s->bands.block + view_row(v, r)
                        : s->x + (size_t)at * plane + view_direct(v, first + r);
                struct conv_sum t = {
                    .dy = s->dy + (size_t)kb * s->dy_block
                          + (size_t)r * s->dy_row,
                    .x_image = v->copies ? s->bands.image : s->x_image,
                    .x_row = view_row(v, 1),
                    .dy_image = s->dy_image,
                    .dy_row = s->dy_row,
                    .dy_block = s->dy_block,
                    .images = s->sheets,
                    .columns = v->columns,
                    .dw = s->dw
                          + (size_t)v->ntaps * CONV_BLOCK
                                * ((size_t)kb * (size_t)v->channels
                                   + (size_t)at * (size_t)nk * CONV_BLOCK),
                };
                sum_block(s, &t, x, first + r, conv_least(near, rows - r),
                          halves,
                          conv_least(CONV_BLOCK, v->channels - at * CONV_BLOCK),
                          (struct turn){b, nblocks, (kb - all.from) / nk,
                                        conv_up(all.to - all.from, nk)});
            }
    }
}

/* After the band of rows from `first` on and input blocks from b0 on; `more`
 * images may follow. */
static void set_next(struct sums *s, bool more, int at_once, int first, int b0)
{
    const struct conv_view *v = s->view;
    const ptrdiff_t plane = (ptrdiff_t)v->h * v->w * CONV_BLOCK;
    const int rows = s->bands.rows, blocks = s->bands.blocks;
    s->x_next = s->dy_next = 0;
    if (s->isa->round || (v->copies && !v->spread)
        || v->rows * v->columns <= FEW)
        return;
    if (b0 + blocks < v->blocks) {
        s->x_next = blocks * plane;
    } else if (first + 2 * rows <= v->rows) {
        s->x_next = (ptrdiff_t)view_row(v, rows) - b0 * plane;
        s->dy_next = rows * (ptrdiff_t)s->dy_row;
    } else if (first + rows >= v->rows && more) {
        s->x_next = at_once * (ptrdiff_t)s->x_image
                    - (ptrdiff_t)view_row(v, first) - b0 * plane;
        s->dy_next =
            at_once * (ptrdiff_t)s->dy_image - first * (ptrdiff_t)s->dy_row;
    }
    if (v->copies)
        s->x_next = 0;
}

void direct_backward_weights(const struct conv_isa *isa, const struct conv *c,
                             const float *x, const float *dy, float *dw,
                             float *scratch)
{
    const int in = c->c / c->groups, k = c->k / c->groups;
    const size_t taps = (size_t)c->kernel_h * (size_t)c->kernel_w;
    const size_t dy_image = conv_blocked(1, c->k, c->out_h, c->out_w);
    const struct conv_weights order = {k, (size_t)in * taps, taps, c->kernel_w};
    struct conv_view v;
    const struct conv_bands bands = view_sums(isa, c, &v);
    const int pair = isa->round ? 2 : 1;
    const int at_once =
        pair * conv_images_at_once(&v, conv_up(c->n, pair), FEW);
    const int dy_rows = isa->round ? bands.rows : v.rows;
    struct sums s = {
        .isa = isa,
        .view = &v,
        .bands = bands,
        .x_image = c->plain ? (size_t)c->c * (size_t)c->h * (size_t)c->w
                            : conv_blocked(1, c->c, c->h, c->w),
        .dy_image =
            isa->round ? conv_blocked(1, k, dy_rows, c->out_w) : dy_image,
        .dy_row = (size_t)c->out_w * CONV_BLOCK,
        .dy_block = (size_t)dy_rows * (size_t)c->out_w * CONV_BLOCK,
        .outputs = k,
        .share = conv_share(c, conv_blocks(k)),
        .band = scratch + conv_packed(&v, k),
        .dw = scratch,
    };
    float *const sums = scratch + conv_packed(&v, s.share.from * CONV_BLOCK);
    for (int g = 0; g < c->groups; g++) {
        memset(sums, 0,
               conv_packed(&v, (s.share.to - s.share.from) * CONV_BLOCK)
                   * sizeof(float));
        for (int i = 0; i < c->n; i += at_once) {
            const float *from =
                dy + (size_t)i * dy_image
                + (size_t)(g * k) * (size_t)c->out_h * (size_t)c->out_w;
            s.images = conv_least(at_once, c->n - i);
            s.sheets = conv_up(s.images, pair);
            s.x = x + (size_t)i * s.x_image
                  + (size_t)(g * in) * (size_t)c->h * (size_t)c->w;
            for (int r = 0; r < v.rows; r += bands.rows) {
                const int rows = conv_least(bands.rows, v.rows - r);
                s.dy = isa->round ? pair_dy(&s, from, dy_image, r, rows)
                                  : from + (size_t)r * s.dy_row;
                for (int b = 0; b < v.blocks; b += bands.blocks) {
                    set_next(&s, c->n - i - at_once >= at_once, at_once, r, b);
                    sum_band(&s, r, rows, b);
                }
            }
        }
        conv_unpack(&v, &order, isa->sum_most, conv_widest(isa->sum_most),
                    s.share, sums, dw + (size_t)(g * k) * order.output);
    }
}

size_t direct_scratch_of_weights(const struct conv_isa *isa,
                                 const struct conv *c)
{
    const int k = c->k / c->groups;
    struct conv_view v;
    const struct conv_bands b = view_sums(isa, c, &v);
    const size_t dy = conv_blocked(b.images, k, b.rows, v.columns);
    return conv_packed(&v, k) + conv_band_floats(&b) + (isa->round ? dy : 0);
}
