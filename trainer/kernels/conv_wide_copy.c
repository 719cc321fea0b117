/* SPDX-License-Identifier: MIT */
#include "kernels/conv_wide_copy.h"

#include <string.h>

#include "kernels/conv_bands.h"
#include "kernels/conv_pack.h"

enum {
    POSITIONS = 1024, /* at once, at most */
    CHUNK = 1 << 18,  /* floats of a chunk's copies, of either operand */
    PARITIES = 2,
};

/* --- how much at once -----------------------------------------------------
 */

/* Of an image's copy, or of all images' where they are joined. */
static int x_length(const struct wide_runs *r, int rows, int images)
{
    return r->joined ? images * rows * r->width
                     : r->high * r->wide * (rows + r->reach) * r->width;
}

static int dy_length(const struct wide_runs *r, const struct conv_view *v,
                     int rows, int images)
{
    return r->joined ? images * rows * r->width
                     : (rows - 1) * r->width + v->columns;
}

size_t wide_floats(int positions)
{
    return (size_t)conv_up(positions, WIDE_STEP) * WIDE_SQUARE;
}

static int chunk_of(int blocks, size_t floats)
{
    const int room = (int)(CHUNK / floats) / WIDE_AT_ONCE * WIDE_AT_ONCE;
    return conv_least(blocks, room < WIDE_AT_ONCE ? WIDE_AT_ONCE : room);
}

struct wide_runs wide_runs_of(const struct conv_view *v, int outputs)
{
    int last_row = 0, last_column = 0;
    for (int t = 0; t < v->ntaps; t++) {
        last_row = conv_most(last_row, v->tap[t].row);
        last_column = conv_most(last_column, v->tap[t].column);
    }
    struct wide_runs r = {
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
    r.x_block =
        sheets * wide_floats(x_length(&r, r.rows, r.images)) + WIDE_SQUARE;
    r.dy_block = sheets * wide_floats(dy_length(&r, v, r.rows, r.images));
    r.x_blocks = chunk_of(v->blocks, r.odd ? PARITIES * r.x_block : r.x_block);
    r.dy_blocks = chunk_of(conv_blocks(outputs), r.dy_block);
    return r;
}

int wide_x_length(const struct wide_band *s)
{
    return x_length(&s->runs, s->rows, s->images);
}

int wide_dy_length(const struct wide_band *s)
{
    return dy_length(&s->runs, s->view, s->rows, s->images);
}

/* Of one copy of the input. */
static size_t copy_floats(const struct wide_runs *r)
{
    return (size_t)r->x_blocks * r->x_block;
}

size_t wide_tap_at(const struct wide_band *s, int t)
{
    const struct conv_view *v = s->view;
    const struct wide_runs *r = &s->runs;
    const int row = v->tap[t].row, column = v->tap[t].column;
    const int phase = row % v->stride_h * r->wide + column % v->stride_w;
    const int at = (phase * (s->rows + r->reach) + row / v->stride_h) * r->width
                   + column / v->stride_w;
    return (size_t)(at / 2 * CONV_BLOCK) + (at % 2 ? copy_floats(r) : 0);
}

static size_t line_floats(const struct wide_runs *r)
{
    return (size_t)x_length(r, r->rows, r->images) * CONV_BLOCK;
}

static size_t x_floats(const struct wide_runs *r)
{
    return (r->odd ? PARITIES : 1) * copy_floats(r);
}

size_t wide_scratch(const struct wide_runs *r)
{
    return line_floats(r) + x_floats(r) + (size_t)r->dy_blocks * r->dy_block;
}

void wide_place(struct wide_band *s, float *scratch)
{
    s->line = scratch;
    s->x_copy = s->line + line_floats(&s->runs);
    s->dy_copy = s->x_copy + x_floats(&s->runs);
}

/* --- copies ---------------------------------------------------------------
 */

/* So many rows of 16 channels from a row and a column on, each `stride` further
 * in both; what lies outside is zero. */
static float *copy_rows(const struct conv_view *v, const float *block, int row,
                        int column, int rows, int width, float *to)
{
    const size_t place = (size_t)view_place(v);
    for (; rows > 0; rows--, row += v->stride_h)
        for (int q = 0, n; q < width; q += n, to += (size_t)n * place) {
            const int at = column + q * v->stride_w;
            const bool in = row >= 0 && row < v->h && at >= 0 && at < v->w;
            n = in ? conv_least(width - q, conv_up(v->w - at, v->stride_w)) : 1;
            if (in)
                view_copy_places(
                    block + ((size_t)row * (size_t)v->w + (size_t)at) * place,
                    v->stride_w, n, view_place(v), to);
            else
                memset(to, 0, place * sizeof(float));
        }
    return to;
}

/* The same of a plain input that is spread out. */
static float *spread_rows(const struct conv_view *v, const float *x, int block,
                          int row, int rows, float *to)
{
    const size_t floats = (size_t)(v->columns * CONV_BLOCK);
    for (; rows > 0; rows--, row += v->stride_h, to += floats)
        if (row >= 0 && row < v->h)
            view_spread_row(v, x, block, row, 0, v->columns, to);
        else
            memset(to, 0, floats * sizeof(float));
    return to;
}

/* What one image's block has for its copy. */
static float *gather(const struct wide_band *s, const float *x, int b,
                     float *to)
{
    const struct conv_view *v = s->view;
    const struct wide_runs *r = &s->runs;
    const int row = v->row0 + s->first * v->stride_h;
    const float *block =
        x + (size_t)b * (size_t)v->h * (size_t)(v->w * view_place(v));
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
static void pair_line(const struct wide_band *s, const float *line, int n,
                      float *to, size_t floats)
{
    const bool half = s->view->half;
    const size_t place = (size_t)view_place(s->view);
    float last[2 * CONV_BLOCK] = {0}, *const end = to + floats;
    void (*const neighbours)(const float *, float *, size_t) =
        half ? s->isa->round->half_neighbours : s->isa->round->neighbours;
    neighbours(line, to, (size_t)(n / 2));
    to += n / 2 * CONV_BLOCK;
    if (n % 2) {
        memcpy(last, line + (size_t)(n - 1) * place, place * sizeof(float));
        neighbours(last, to, 1);
        to += CONV_BLOCK;
    }
    memset(to, 0, (size_t)(end - to) * sizeof(float));
}

void wide_copy_x(const struct wide_band *s, int b0, int nblocks)
{
    const struct conv_view *v = s->view;
    const struct wide_runs *r = &s->runs;
    const size_t place = (size_t)view_place(v);
    const size_t row = (size_t)v->columns * place;
    const size_t plane = (size_t)v->h * (size_t)v->w * place;
    const int n = wide_x_length(s);
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
            const size_t floats = wide_floats(n) + (end ? WIDE_SQUARE : 0);
            pair_line(s, from, n, to, floats);
            if (r->odd)
                pair_line(s, from + place, n - 1, to + copy_floats(r), floats);
            to += floats;
            line = s->line;
        }
    }
}

/* Floats of a position of dy. */
static size_t dy_place(const struct wide_band *s)
{
    return s->half ? CONV_BLOCK / 2 : CONV_BLOCK;
}

/* n positions of 16 outputs to steps, the last one with zeros. */
static void turn_line(const struct wide_band *s, const float *line, int n,
                      float *to)
{
    float pairs[CONV_BLOCK][CONV_BLOCK], last[WIDE_STEP][CONV_BLOCK];
    const float *from[CONV_BLOCK];
    float *rows[CONV_BLOCK];
    const struct conv_round *round = s->isa->round;
    for (int i = 0; i < CONV_BLOCK; i++)
        from[i] = pairs[i];
    for (; n > 0; n -= WIDE_STEP, line += WIDE_STEP * dy_place(s)) {
        if (n < WIDE_STEP) {
            memset(last, 0, sizeof(last));
            memcpy(last, line, (size_t)n * dy_place(s) * sizeof(float));
            line = last[0];
        }
        (s->half ? round->half_neighbours : round->neighbours)(line, pairs[0],
                                                               CONV_BLOCK);
        for (int i = 0; i < CONV_BLOCK; i++, to += CONV_BLOCK)
            rows[i] = to;
        s->isa->turn->turn(from, rows, false);
    }
}

/* A row of dy, and zeros up to the next one. */
static float *add_rows(const struct wide_band *s, const float *block, float *to)
{
    const int columns = s->view->columns;
    const size_t row = (size_t)columns * dy_place(s);
    const size_t gap = (size_t)(s->runs.width - columns) * dy_place(s);
    for (int i = 0; i < s->rows; i++) {
        memcpy(to, block + (size_t)i * row, row * sizeof(float));
        to += row;
        memset(to, 0, gap * sizeof(float));
        to += gap;
    }
    return to;
}

void wide_copy_dy(const struct wide_band *s, int k0, int nblocks)
{
    const struct conv_view *v = s->view;
    const struct wide_runs *r = &s->runs;
    const size_t row = (size_t)v->columns * dy_place(s);
    const size_t plane = (size_t)v->rows * row;
    const int n = wide_dy_length(s);
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
            to += wide_floats(n);
            line = s->line;
        }
    }
}
