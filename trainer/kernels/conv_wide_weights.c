/* SPDX-License-Identifier: MIT */
/* The gradient of the weights with wide sums, whose one operand has 32
 * positions of an output behind one another, and the other pairs of positions.
 * Both are copied: rows of the input as wide as taps reach, and those of dy
 * with zeros up to there, so that whatever the tap a run of positions is one.
 * Of the input there are two copies, of pairs from even and from odd positions
 * on, and of strides one for each remainder (phase). Order of work: images,
 * bands of rows, chunks of input blocks, chunks of outputs, tiles, taps. */
#include <string.h>

#include "kernels/conv_bands.h"
#include "kernels/conv_direct.h"
#include "kernels/conv_pack.h"

enum {
    STEP = 32, /* positions, */
    SQUARE =
        CONV_BLOCK * CONV_BLOCK, /* and their pairs of a block, in floats */
    POSITIONS = 1024,            /* at once, at most */
    CHUNK = 1 << 18,             /* floats of either copy */
    AT_ONCE = 2,                 /* blocks of either, of a sum */
    PARITIES = 2,
};

struct runs {
    int rows, images;        /* at once */
    int width;               /* of a row */
    int reach;               /* rows that taps read beyond that of a position */
    int high, wide;          /* phases */
    bool joined;             /* images are one run */
    bool odd;                /* some tap is at an odd position */
    int x_blocks, dy_blocks; /* of a chunk */
    size_t x_block, dy_block; /* floats of their copies */
};

struct sums {
    const struct conv_isa *isa;
    const struct conv_view *view;
    struct runs runs;
    const float *x, *dy; /* of the first image */
    size_t x_image, dy_image;
    int images, first, rows; /* of the band */
    bool add;                /* to the sums of an earlier one */
    float *line, *x_copy, *dy_copy;
    float *dw; /* [block of outputs][of inputs][tap][16 outputs][16 inputs] */
};

/* --- how much at once -----------------------------------------------------
 */

/* Of an image's copy, or of all images' where they are joined. */
static int x_length(const struct runs *r, int rows, int images)
{
    return r->joined ? images * rows * r->width
                     : r->high * r->wide * (rows + r->reach) * r->width;
}

static int dy_length(const struct runs *r, const struct conv_view *v, int rows,
                     int images)
{
    return r->joined ? images * rows * r->width
                     : (rows - 1) * r->width + v->columns;
}

/* Of so many positions, in whole steps. */
static size_t floats_of(int positions)
{
    return (size_t)conv_up(positions, STEP) * SQUARE;
}

static int chunk_of(int blocks, size_t floats)
{
    const int room = (int)(CHUNK / floats) / AT_ONCE * AT_ONCE;
    return conv_least(blocks, room < AT_ONCE ? AT_ONCE : room);
}

/* From a position to what a tap reads, in positions. */
static int tap_at(const struct conv_view *v, const struct runs *r, int rows,
                  int t)
{
    const int row = v->tap[t].row, column = v->tap[t].column;
    const int phase = row % v->stride_h * r->wide + column % v->stride_w;
    return (phase * (rows + r->reach) + row / v->stride_h) * r->width
           + column / v->stride_w;
}

static struct runs runs_of(const struct conv_view *v, int outputs)
{
    int last_row = 0, last_column = 0;
    for (int t = 0; t < v->ntaps; t++) {
        last_row = conv_most(last_row, v->tap[t].row);
        last_column = conv_most(last_column, v->tap[t].column);
    }
    struct runs r = {
        .high = last_row ? v->stride_h : 1,
        .wide = last_column ? v->stride_w : 1,
        .reach = last_row / v->stride_h,
        .width = v->columns + last_column / v->stride_w,
        .joined = !last_row && !last_column,
        .odd = last_row || last_column,
        .images = 1,
    };
    r.rows = conv_even_parts(v->rows, conv_most(1, POSITIONS / r.width));
    if (r.rows == v->rows)
        r.images = conv_most(1, POSITIONS / (r.rows * r.width));
    const size_t sheets = r.joined ? 1 : (size_t)r.images;
    /* And what the last step reads beyond the end. */
    r.x_block = sheets * floats_of(x_length(&r, r.rows, r.images)) + SQUARE;
    r.dy_block = sheets * floats_of(dy_length(&r, v, r.rows, r.images));
    r.x_blocks = chunk_of(v->blocks, r.odd ? PARITIES * r.x_block : r.x_block);
    r.dy_blocks = chunk_of(conv_blocks(outputs), r.dy_block);
    return r;
}

/* --- copies ---------------------------------------------------------------
 */

/* So many rows of 16 channels from a row and a column on, each `stride` further
 * in both; what lies outside is zero. */
static float *copy_rows(const struct conv_view *v, const float *block, int row,
                        int column, int rows, int width, float *to)
{
    for (; rows > 0; rows--, row += v->stride_h)
        for (int q = 0, n; q < width; q += n, to += n * CONV_BLOCK) {
            const int at = column + q * v->stride_w;
            const bool in = row >= 0 && row < v->h && at >= 0 && at < v->w;
            n = in && v->stride_w == 1 ? conv_least(width - q, v->w - at) : 1;
            const size_t size = (size_t)n * CONV_BLOCK * sizeof(float);
            if (in)
                memcpy(to,
                       block
                           + ((size_t)row * (size_t)v->w + (size_t)at)
                                 * CONV_BLOCK,
                       size);
            else
                memset(to, 0, size);
        }
    return to;
}

/* The same of a plain input that is spread out. */
static float *spread_rows(const struct conv_view *v, const float *x, int block,
                          int row, int rows, float *to)
{
    const size_t floats = (size_t)(v->columns * CONV_BLOCK);
    for (; rows > 0; rows--, row += v->stride_h, to += floats) {
        memset(to, 0, floats * sizeof(float));
        if (row >= 0 && row < v->h)
            view_spread_row(v, x, block, row, 0, v->columns, to);
    }
    return to;
}

/* What one image's block has for its copy. */
static float *gather(const struct sums *s, const float *x, int b, float *to)
{
    const struct conv_view *v = s->view;
    const struct runs *r = &s->runs;
    const int row = v->row0 + s->first * v->stride_h;
    const float *block =
        x + (size_t)b * (size_t)v->h * (size_t)v->w * CONV_BLOCK;
    for (int i = 0; i < r->high && v->spread; i++)
        to = spread_rows(v, x, b, row + i, s->rows + r->reach, to);
    if (v->spread)
        return to;
    for (int i = 0; i < r->high; i++)
        for (int j = 0; j < r->wide; j++)
            to = copy_rows(v, block, row + i, v->column0 + j,
                           s->rows + r->reach, r->width, to);
    return to;
}

/* n positions of 16 channels to pairs, and zeros to so many floats. */
static void pair_line(const struct sums *s, const float *line, int n, float *to,
                      size_t floats)
{
    const struct conv_round *round = s->isa->round;
    float *const end = to + floats;
    round->neighbours(line, to, (size_t)(n / 2));
    to += n / 2 * CONV_BLOCK;
    if (n % 2) {
        round->pairs(line + (n - 1) * CONV_BLOCK, NULL, to, CONV_BLOCK);
        to += CONV_BLOCK;
    }
    memset(to, 0, (size_t)(end - to) * sizeof(float));
}

static void copy_x(const struct sums *s, int b0, int nblocks)
{
    const struct conv_view *v = s->view;
    const struct runs *r = &s->runs;
    const size_t row = (size_t)v->columns * CONV_BLOCK;
    const size_t plane = (size_t)v->h * (size_t)v->w * CONV_BLOCK;
    const int n = x_length(r, s->rows, s->images);
    const bool whole = r->joined && s->images == 1 && v->stride_h == 1
                       && v->w == v->columns && !v->row0 && !v->column0
                       && !v->spread;
    for (int b = b0; b < b0 + nblocks; b++) {
        float *to = s->x_copy + (size_t)(b - b0) * r->x_block, *line = s->line;
        for (int i = 0; i < s->images; i++) {
            const float *x = s->x + (size_t)i * s->x_image;
            const bool end = i + 1 == s->images;
            if (!whole)
                line = gather(s, x, b, line);
            if (r->joined && !end)
                continue;
            const float *from =
                whole ? x + (size_t)b * plane + (size_t)s->first * row
                      : s->line;
            const size_t floats = floats_of(n) + (end ? SQUARE : 0);
            pair_line(s, from, n, to, floats);
            if (r->odd)
                pair_line(s, from + CONV_BLOCK, n - 1,
                          to + (size_t)r->x_blocks * r->x_block, floats);
            to += floats;
            line = s->line;
        }
    }
}

/* n positions of 16 outputs to steps, the last one with zeros. */
static void turn_line(const struct sums *s, const float *line, int n, float *to)
{
    float pairs[CONV_BLOCK][CONV_BLOCK], last[STEP][CONV_BLOCK];
    const float *from[CONV_BLOCK];
    float *rows[CONV_BLOCK];
    for (int i = 0; i < CONV_BLOCK; i++)
        from[i] = pairs[i];
    for (; n > 0; n -= STEP, line += STEP * CONV_BLOCK) {
        if (n < STEP) {
            memset(last, 0, sizeof(last));
            memcpy(last, line, (size_t)n * CONV_BLOCK * sizeof(float));
            line = last[0];
        }
        s->isa->round->neighbours(line, pairs[0], CONV_BLOCK);
        for (int i = 0; i < CONV_BLOCK; i++, to += CONV_BLOCK)
            rows[i] = to;
        s->isa->turn->turn(from, rows, false);
    }
}

/* A row of dy, and zeros up to the next one. */
static float *add_rows(const struct sums *s, const float *block, float *to)
{
    const int columns = s->view->columns, gap = s->runs.width - columns;
    const size_t row = (size_t)columns * CONV_BLOCK;
    for (int i = 0; i < s->rows; i++) {
        memcpy(to, block + (size_t)i * row, row * sizeof(float));
        to += row;
        memset(to, 0, (size_t)(gap * CONV_BLOCK) * sizeof(float));
        to += gap * CONV_BLOCK;
    }
    return to;
}

static void copy_dy(const struct sums *s, int k0, int nblocks)
{
    const struct conv_view *v = s->view;
    const struct runs *r = &s->runs;
    const size_t row = (size_t)v->columns * CONV_BLOCK;
    const size_t plane = (size_t)v->rows * row;
    const int n = dy_length(r, v, s->rows, s->images);
    const bool whole = r->width == v->columns && (!r->joined || s->images == 1);
    for (int k = 0; k < nblocks; k++) {
        float *to = s->dy_copy + (size_t)k * r->dy_block, *line = s->line;
        const float *block =
            s->dy + (size_t)(k0 + k) * plane + (size_t)s->first * row;
        for (int i = 0; i < s->images; i++, block += s->dy_image) {
            if (!whole)
                line = add_rows(s, block, line);
            if (r->joined && i + 1 < s->images)
                continue;
            turn_line(s, whole ? block : s->line, n, to);
            to += floats_of(n);
            line = s->line;
        }
    }
}

/* --- sums -----------------------------------------------------------------
 */

/* Two blocks of inputs from b on, of a chunk from b0 on, and nk of outputs. */
static void sum_taps(const struct sums *s, const float *x, int b,
                     const float *dy, int kb, int nk)
{
    const struct conv_view *v = s->view;
    const struct runs *r = &s->runs;
    const int dy_positions = dy_length(r, v, s->rows, s->images);
    const size_t taps = (size_t)v->ntaps * SQUARE;
    struct conv_wide_sum sum = {
        .dy = dy,
        .dy_image = floats_of(dy_positions),
        .dy_block = r->dy_block,
        .x_image = floats_of(x_length(r, s->rows, s->images)),
        .x_block = r->x_block,
        .images = r->joined ? 1 : s->images,
        .steps = conv_up(dy_positions, STEP),
        .nk = nk,
        .nc = conv_least(AT_ONCE, v->blocks - b),
        .add = s->add,
        .dw = s->dw + (size_t)(kb * v->blocks + b) * taps,
        .dw_output = (size_t)v->blocks * taps,
        .dw_input = taps,
    };
    for (int t = 0; t < v->ntaps; t++, sum.dw += SQUARE) {
        const int at = tap_at(v, r, s->rows, t);
        sum.x = x + at / 2 * CONV_BLOCK
                + (at % 2 ? (size_t)r->x_blocks * r->x_block : 0);
        s->isa->wide->sum(&sum);
    }
}

static void sum_chunks(const struct sums *s, struct conv_span inputs,
                       struct conv_span outputs)
{
    for (int kb = outputs.from, nk; kb < outputs.to; kb += nk) {
        const float *dy =
            s->dy_copy + (size_t)(kb - outputs.from) * s->runs.dy_block;
        nk = conv_least(AT_ONCE, outputs.to - kb);
        for (int b = inputs.from; b < inputs.to; b += AT_ONCE)
            sum_taps(s, s->x_copy + (size_t)(b - inputs.from) * s->runs.x_block,
                     b, dy, kb, nk);
    }
}

static void sum_band(const struct sums *s, struct conv_span share)
{
    const int blocks = s->view->blocks;
    const struct runs *r = &s->runs;
    for (int b = 0; b < blocks; b += r->x_blocks) {
        const struct conv_span in = {b, conv_least(blocks, b + r->x_blocks)};
        copy_x(s, in.from, in.to - in.from);
        for (int k = share.from; k < share.to; k += r->dy_blocks) {
            const struct conv_span out = {
                k, conv_least(share.to, k + r->dy_blocks)};
            if (b == 0 || share.to - share.from > r->dy_blocks)
                copy_dy(s, out.from, out.to - out.from);
            sum_chunks(s, in, out);
        }
    }
}

/* --- where they belong ----------------------------------------------------
 */

/* Of an output and 16 inputs: taps from t on, which lie side by side there. */
static void unpack_taps(const struct sums *s, const float *from, int t, int n,
                        int inputs, float *dw)
{
    static const float none[CONV_BLOCK];
    const int taps = s->view->ntaps;
    float turned[CONV_BLOCK][CONV_BLOCK];
    const float *rows[CONV_BLOCK];
    float *to[CONV_BLOCK];
    for (int i = 0; i < CONV_BLOCK; i++) {
        rows[i] = i < n ? from + (t + i) * SQUARE : none;
        to[i] = turned[i];
    }
    s->isa->turn->turn(rows, to, false);
    for (int i = 0; i < inputs; i++)
        for (int j = 0; j < n; j++)
            dw[i * taps + t + j] += turned[i][j];
}

/* The same where the input was spread out. */
static void unpack_spread(const struct sums *s, const struct conv_weights *w,
                          const float *from, int b, int inputs, float *dw)
{
    const struct conv_view *v = s->view;
    for (int t = 0; t < v->ntaps; t++, from += SQUARE)
        for (int i = 0; i < inputs; i++)
            dw[conv_weight_at(v, w, b * CONV_BLOCK + i, t)] += from[i];
}

static void unpack(const struct sums *s, const struct conv_weights *w,
                   struct conv_span share, float *dw)
{
    const struct conv_view *v = s->view;
    const int taps = v->ntaps, outputs = w->outputs;
    const float *from =
        s->dw + (size_t)(share.from * v->blocks * taps) * SQUARE;
    for (int kb = share.from; kb < share.to; kb++)
        for (int b = 0; b < v->blocks; b++, from += taps * SQUARE) {
            const int inputs =
                conv_least(CONV_BLOCK, v->channels - b * CONV_BLOCK);
            const int last = conv_least(outputs, (kb + 1) * CONV_BLOCK);
            for (int k = kb * CONV_BLOCK; k < last; k++) {
                const float *row = from + k % CONV_BLOCK * CONV_BLOCK;
                float *to = dw + (size_t)k * w->output;
                if (v->spread) {
                    unpack_spread(s, w, row, b, inputs, to);
                    continue;
                }
                to += (size_t)(b * CONV_BLOCK) * w->input;
                for (int i = 0; i < inputs && taps == 1; i++)
                    to[i] += row[i];
                for (int t = 0; t < taps && taps > 1; t += CONV_BLOCK)
                    unpack_taps(s, row, t, conv_least(CONV_BLOCK, taps - t),
                                inputs, to);
            }
        }
}

static size_t line_floats(const struct runs *r)
{
    return (size_t)x_length(r, r->rows, r->images) * CONV_BLOCK;
}

static size_t x_floats(const struct runs *r)
{
    return (r->odd ? PARITIES : 1) * (size_t)r->x_blocks * r->x_block;
}

static size_t dw_floats(const struct conv_view *v, int outputs)
{
    return (size_t)(conv_blocks(outputs) * v->blocks) * (size_t)v->ntaps
           * SQUARE;
}

void wide_backward_weights(const struct conv_isa *isa, const struct conv *c,
                           const float *x, const float *dy, float *dw,
                           float *scratch)
{
    const int in = c->c / c->groups, k = c->k / c->groups;
    const size_t taps = (size_t)c->kernel_h * (size_t)c->kernel_w;
    const struct conv_weights order = {k, (size_t)in * taps, taps, c->kernel_w};
    const struct conv_span share = conv_share(c, conv_blocks(k));
    struct conv_view v;
    view_spread(&v, c);
    struct sums s = {
        .isa = isa,
        .view = &v,
        .runs = runs_of(&v, k),
        .x_image = c->plain ? (size_t)c->c * (size_t)c->h * (size_t)c->w
                            : conv_blocked(1, c->c, c->h, c->w),
        .dy_image = conv_blocked(1, c->k, c->out_h, c->out_w),
        .dw = scratch,
        .line = scratch + dw_floats(&v, k),
    };
    const struct runs *r = &s.runs;
    s.x_copy = s.line + line_floats(r);
    s.dy_copy = s.x_copy + x_floats(r);
    const int at_once = c->n ? conv_even_parts(c->n, r->images) : 1;
    for (int g = 0; g < c->groups && c->n; g++) {
        s.add = false;
        for (int i = 0; i < c->n; i += at_once) {
            s.images = conv_least(at_once, c->n - i);
            s.x = x + (size_t)i * s.x_image
                  + (size_t)(g * in) * (size_t)c->h * (size_t)c->w;
            s.dy = dy + (size_t)i * s.dy_image
                   + (size_t)(g * k) * (size_t)c->out_h * (size_t)c->out_w;
            for (s.first = 0; s.first < v.rows; s.first += r->rows) {
                s.rows = conv_least(r->rows, v.rows - s.first);
                sum_band(&s, share);
                s.add = true;
            }
        }
        unpack(&s, &order, share, dw + (size_t)(g * k) * order.output);
    }
    isa->wide->end();
}

size_t wide_scratch_of_weights(const struct conv *c)
{
    const int k = c->k / c->groups;
    struct conv_view v;
    view_spread(&v, c);
    const struct runs r = runs_of(&v, k);
    return dw_floats(&v, k) + line_floats(&r) + x_floats(&r)
           + (size_t)r.dy_blocks * r.dy_block;
}
