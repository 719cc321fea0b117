/* SPDX-License-Identifier: MIT */
#include "kernels/conv_view.h"

#include <string.h>

#include "kernels/spread.h"

static int largest_row(const struct conv_view *v)
{
    int most = 0;
    for (int t = 0; t < v->ntaps; t++)
        most = v->tap[t].row > most ? v->tap[t].row : most;
    return most;
}

static int largest_column(const struct conv_view *v)
{
    int most = 0;
    for (int t = 0; t < v->ntaps; t++)
        most = v->tap[t].column > most ? v->tap[t].column : most;
    return most;
}

/* Of so many positions those that read, of `width` columns from one on, none
 * outside; the first position begins at `column`. */
static struct conv_span inside(const struct conv_view *v, int column, int width,
                               int positions)
{
    const int right = v->w - width - column; /* and beyond none */
    const int from = column < 0 ? conv_up(-column, v->stride_w) : 0;
    const int to = right < 0 ? 0 : right / v->stride_w + 1;
    return (struct conv_span){from < positions ? from : positions,
                              to < positions ? to : positions};
}

/* The columns of positions at which a tap reads the tensor. */
static struct conv_span columns_inside(const struct conv_view *v, int t)
{
    if (v->spread)
        return (struct conv_span){0, v->columns};
    return inside(v, v->column0 + v->tap[t].column, 1, v->columns);
}

/* Whether all that is read, but padding that tiles leave out, lies in the
 * tensor 16 floats apart. */
static bool lies_there(const struct conv_view *v)
{
    for (int t = 0; t < v->ntaps; t++) {
        const struct conv_span in = v->inside[t];
        const int left = in.from, right = v->columns - in.to;
        if (left > TILE_EDGE || right > TILE_EDGE || (left && right))
            return false;
    }
    return !v->spread && v->stride_w == 1;
}

static void view_finish(struct conv_view *v)
{
    const int last_column = largest_column(v);
    for (int t = 0; t < v->ntaps; t++)
        v->inside[t] = columns_inside(v, t);
    if (!v->deep)
        v->deep = CONV_BLOCK;
    v->blocks = conv_up(v->channels, v->deep);
    v->copies = v->round || !lies_there(v);
    v->dense = largest_row(v) == 0;
    v->phases = v->spread || last_column == 0 ? 1 : v->stride_w;
    v->width = v->columns + last_column / v->stride_w;
    v->step = (size_t)v->place;
    if (!v->copies)
        v->width = v->w, v->phases = 1;
    v->row = (size_t)v->phases * (size_t)v->width * (size_t)v->place;
    for (int t = 0; t < v->ntaps; t++)
        v->at[t] = (int32_t)((size_t)v->tap[t].row * v->row)
                   + v->place
                         * (v->tap[t].column % v->stride_w * v->width
                            + v->tap[t].column / v->stride_w);
}

void view_spread(struct conv_view *v, const struct conv *c)
{
    *v = (struct conv_view){
        .h = c->h,
        .w = c->w,
        .channels = c->c / c->groups,
        .place = CONV_BLOCK,
        .rows = c->out_h,
        .columns = c->out_w,
        .stride_h = c->stride_h,
        .stride_w = c->stride_w,
        .row0 = -c->pad_h,
        .column0 = -c->pad_w,
    };
    if (c->plain) {
        v->spread = c->c;
        v->channels = c->c * c->kernel_w;
        v->dilation_w = c->dilation_w;
    }
    for (int i = 0; i < c->kernel_h; i++)
        for (int j = 0; j < (c->plain ? 1 : c->kernel_w); j++, v->ntaps++) {
            v->tap[v->ntaps].row = (int16_t)(i * c->dilation_h);
            v->tap[v->ntaps].column = (int16_t)(j * c->dilation_w);
            v->tap[v->ntaps].i = (int16_t)i;
            v->tap[v->ntaps].j = (int16_t)j;
        }
    view_finish(v);
}

/* A kernel of one block of columns, without gaps. */
static bool has_lines(const struct conv *c)
{
    return c->plain && c->dilation_w == 1 && c->kernel_w <= CONV_BLOCK
           && c->c * c->kernel_h <= CONV_TAPS;
}

void view_forward(struct conv_view *v, const struct conv *c)
{
    view_spread(v, c);
    if (!has_lines(c))
        return;
    v->spread = 0;
    v->lines = c->c;
    v->channels = c->kernel_w;
    v->blocks = 1;
    v->step = (size_t)c->stride_w;
    v->width = (c->out_w - 1) * c->stride_w + c->kernel_w;
    v->row = (size_t)v->width * (size_t)c->c;
    v->ntaps = 0;
    for (int i = 0; i < c->kernel_h; i++)
        for (int j = 0; j < c->c; j++, v->ntaps++) {
            v->tap[v->ntaps].row = (int16_t)(i * c->dilation_h);
            v->tap[v->ntaps].i = (int16_t)(j * c->kernel_h + i);
            v->tap[v->ntaps].column = v->tap[v->ntaps].j = 0;
            v->at[v->ntaps] =
                (int32_t)((size_t)(i * c->dilation_h) * v->row) + j * v->width;
            v->inside[v->ntaps] = (struct conv_span){0, v->columns};
        }
}

/* Along one side: of positions p of dx with (p + pad) mod stride = rest, the
 * first with its share of the padding, and how many there are. */
static int count_alike(int size, int pad, int stride, int rest, int *first)
{
    *first = conv_up(pad > rest ? pad - rest : 0, stride);
    const int p = *first * stride + rest - pad;
    return p < size ? conv_up(size - p, stride) : 0;
}

void view_backward(struct conv_view *v, const struct conv *c, int rest_h,
                   int rest_w)
{
    int first_row, first_column;
    *v = (struct conv_view){
        .h = c->out_h,
        .w = c->out_w,
        .channels = c->k / c->groups,
        .place = CONV_BLOCK,
        .rows = count_alike(c->h, c->pad_h, c->stride_h, rest_h, &first_row),
        .columns =
            count_alike(c->w, c->pad_w, c->stride_w, rest_w, &first_column),
        .stride_h = 1,
        .stride_w = 1,
    };
    for (int i = 0; i < c->kernel_h; i++)
        for (int j = 0; j < c->kernel_w; j++) {
            const int row = i * c->dilation_h - rest_h;
            const int column = j * c->dilation_w - rest_w;
            if (row < 0 || row % c->stride_h || column < 0
                || column % c->stride_w)
                continue;
            v->tap[v->ntaps].row = (int16_t)(row / c->stride_h);
            v->tap[v->ntaps].column = (int16_t)(column / c->stride_w);
            v->tap[v->ntaps].i = (int16_t)i;
            v->tap[v->ntaps++].j = (int16_t)j;
        }
    const int most_row = largest_row(v), most_column = largest_column(v);
    for (int t = 0; t < v->ntaps; t++) { /* they reach backwards */
        v->tap[t].row = (int16_t)(most_row - v->tap[t].row);
        v->tap[t].column = (int16_t)(most_column - v->tap[t].column);
    }
    v->row0 = first_row - most_row;
    v->column0 = first_column - most_column;
    view_finish(v);
}

void view_pair_channels(struct conv_view *v, const struct conv_round *round,
                        int deep)
{
    v->round = round;
    v->deep = deep;
    v->place = deep / 2;
    view_finish(v);
}

void view_pair_images(struct conv_view *v, const struct conv_round *round)
{
    v->round = round;
    view_finish(v);
}

static bool reads_inside(const struct conv_view *v, int row, int i)
{
    const int at = v->row0 + row * v->stride_h + v->tap[i].row;
    return at >= 0 && at < v->h;
}

int view_taps(const struct conv_view *v, int row, int *first)
{
    int end = v->ntaps;
    *first = 0;
    while (*first < end && !reads_inside(v, row, *first))
        ++*first;
    while (end > *first && !reads_inside(v, row, end - 1))
        end--;
    return end - *first;
}

void view_inside(const struct conv_view *v, int i, int first, int rows,
                 int *from, int *to)
{
    *from = 0;
    *to = rows;
    while (*from < *to && !reads_inside(v, first + *from, i))
        ++*from;
    while (*to > *from && !reads_inside(v, first + *to - 1, i))
        --*to;
}

int view_rows(const struct conv_view *v, int rows)
{
    return v->dense ? rows : (rows - 1) * v->stride_h + largest_row(v) + 1;
}

ptrdiff_t view_direct(const struct conv_view *v, int row)
{
    return ((ptrdiff_t)(v->row0 + row * v->stride_h) * v->w + v->column0)
           * CONV_BLOCK;
}

/* The kernel's row of a plain channel, or an element of it, as a block sees it:
 * position 0 reads `count` columns of a line from one on. */
struct piece {
    const float *line;
    int column, channel, count;
};

static int pieces_of(const struct conv_view *v, const float *x, int block,
                     int row, int first, struct piece *to)
{
    const size_t plane = (size_t)v->h * (size_t)v->w;
    const int side = v->channels / v->spread; /* of the kernel */
    const int left = v->channels - block * CONV_BLOCK;
    const int end = left < CONV_BLOCK ? left : CONV_BLOCK;
    int count = 0;
    for (int s = 0; s < end; s += to[count++].count) {
        const int channel = block * CONV_BLOCK + s, j = channel % side;
        const int most = v->dilation_w == 1 ? side - j : 1;
        to[count] = (struct piece){
            .line = x + (size_t)(channel / side) * plane
                    + (size_t)row * (size_t)v->w,
            .column = v->column0 + j * v->dilation_w + first * v->stride_w,
            .channel = s,
            .count = most < end - s ? most : end - s,
        };
    }
    return count;
}

/* Of positions at which some of them may lie outside. */
static void spread_edge(const struct conv_view *v, const struct piece *p,
                        int npieces, int first, int end, float *to)
{
    for (int q = first; q < end; q++) {
        float *at = to + q * CONV_BLOCK;
        memset(at, 0, CONV_BLOCK * sizeof(float));
        for (int k = 0; k < npieces; k++)
            for (int i = 0; i < p[k].count; i++) {
                const int column = p[k].column + q * v->stride_w + i;
                if (column >= 0 && column < v->w)
                    at[p[k].channel + i] = p[k].line[column];
            }
    }
}

void view_spread_row(const struct conv_view *v, const float *x, int block,
                     int row, int first, int count, float *to)
{
    struct piece pieces[CONV_BLOCK];
    struct spread_run runs[CONV_BLOCK];
    struct conv_span all = {0, count};
    const int n = pieces_of(v, x, block, row, first, pieces);
    for (int i = 0; i < n; i++) {
        const struct conv_span in =
            inside(v, pieces[i].column, pieces[i].count, count);
        all.from = in.from > all.from ? in.from : all.from;
        all.to = in.to < all.to ? in.to : all.to;
    }
    if (all.to <= all.from) {
        spread_edge(v, pieces, n, 0, count, to);
        return;
    }
    for (int i = 0; i < n; i++) {
        const struct piece *p = &pieces[i];
        runs[i].from = p->line + p->column + all.from * v->stride_w;
        runs[i].channel = p->channel;
        runs[i].count = p->count;
    }
    spread_edge(v, pieces, n, 0, all.from, to);
    lanes()->spread->spread(runs, n, v->stride_w, all.to - all.from,
                            to + all.from * CONV_BLOCK);
    spread_edge(v, pieces, n, all.to, count, to);
}

/* The same of two blocks, rounded. */
static void spread_wide(const struct conv_view *v, const float *x, int block,
                        int row, float *to)
{
    enum { AT_ONCE = 64 };
    float both[2][AT_ONCE * CONV_BLOCK];
    const bool other = (block + 1) * CONV_BLOCK < v->channels;
    for (int q = 0, n; q < v->columns; q += n, to += n * v->place) {
        n = v->columns - q < AT_ONCE ? v->columns - q : AT_ONCE;
        for (int i = 0; i <= other; i++)
            view_spread_row(v, x, block + i, row, q, n, both[i]);
        v->round->join(both[0], other ? both[1] : NULL, to, (size_t)n);
    }
}

/* Of each plain channel, with what lies outside. */
static void copy_lines(const struct conv_view *v, const float *x, int row,
                       float *to)
{
    const size_t plane = (size_t)v->h * (size_t)v->w;
    const int left = -v->column0 < v->width ? -v->column0 : v->width;
    const int most = v->width - left;
    const int inside = most < v->w ? most : v->w;
    x += (size_t)row * (size_t)v->w;
    for (int i = 0; i < v->lines; i++, x += plane, to += v->width) {
        memset(to, 0, (size_t)left * sizeof(float));
        memcpy(to + left, x, (size_t)inside * sizeof(float));
        memset(to + left + inside, 0, (size_t)(most - inside) * sizeof(float));
    }
}

void view_copy_places(const float *from, int stride, int n, int place,
                      float *to)
{
    enum { HALF = CONV_BLOCK / 2 };
    if (stride == 1)
        memcpy(to, from, (size_t)(n * place) * sizeof(float));
    else if (place == HALF)
        for (int i = 0; i < n; i++, from += stride * HALF, to += HALF)
            memcpy(to, from, HALF * sizeof(float));
    else
        for (int i = 0; i < n; i++, from += stride * CONV_BLOCK)
            memcpy(to + i * CONV_BLOCK, from, CONV_BLOCK * sizeof(float));
}

/* Of n positions, every one or one in so many, 16 of a and 16 of b, which are
 * bf16; b may be NULL: zeros. */
static void join_halves(const float *a, const float *b, int stride, float *to,
                        int n)
{
    enum { HALF = CONV_BLOCK / 2, BYTES = HALF * sizeof(float) };
    for (int i = 0; i < n; i++, to += CONV_BLOCK) {
        memcpy(to, a + i * stride * HALF, BYTES);
        if (b)
            memcpy(to + HALF, b + i * stride * HALF, BYTES);
        else
            memset(to + HALF, 0, BYTES);
    }
}

/* n positions of a block; one where floats that are rounded have strides. */
static void copy_places(const struct conv_view *v, const float *from,
                        const float *also, int n, float *to)
{
    const size_t count = (size_t)n * CONV_BLOCK;
    if (!v->round)
        view_copy_places(from, v->stride_w, n, CONV_BLOCK, to);
    else if (v->half)
        join_halves(from, also, v->stride_w, to, n);
    else if (v->deep > CONV_BLOCK)
        v->round->join(from, also, to, (size_t)n);
    else if (v->place == CONV_BLOCK)
        v->round->pairs(from, also, to, count);
    else
        v->round->row(from, to, count);
}

static void copy_row(const struct conv_view *v, const float *line,
                     const float *also, float *to)
{
    for (int phase = 0; phase < v->phases; phase++)
        for (int j = 0; j < v->width;) {
            const int column = v->column0 + phase + j * v->stride_w;
            int n = 1;
            if (column < 0 || column >= v->w) {
                memset(to, 0, (size_t)v->place * sizeof(float));
            } else {
                const size_t at = (size_t)(column * view_place(v));
                if (v->stride_w == 1 || !v->round || v->half) {
                    n = conv_up(v->w - column, v->stride_w);
                    n = n < v->width - j ? n : v->width - j;
                }
                copy_places(v, line + at, also ? also + at : NULL, n, to);
            }
            to += n * v->place;
            j += n;
        }
}

void view_copy(const struct conv_view *v, const float *x, const float *also,
               int block, int first, int rows, float *to)
{
    const int n = view_rows(v, rows), step = v->dense ? v->stride_h : 1;
    const size_t line = (size_t)(v->w * view_place(v));
    const size_t plane = (size_t)v->h * line;
    for (int u = 0; u < n; u++, to += v->row) {
        const int row = v->row0 + first * v->stride_h + u * step;
        if (row < 0 || row >= v->h)
            memset(to, 0, v->row * sizeof(float));
        else if (v->spread && v->deep > CONV_BLOCK)
            spread_wide(v, x, block * (v->deep / CONV_BLOCK), row, to);
        else if (v->spread)
            view_spread_row(v, x, block, row, 0, v->columns, to);
        else if (v->lines)
            copy_lines(v, x, row, to);
        else {
            const size_t at = (size_t)(block * (v->deep / CONV_BLOCK)) * plane
                              + (size_t)row * line;
            copy_row(v, x + at, also ? also + at : NULL, to);
        }
    }
}
