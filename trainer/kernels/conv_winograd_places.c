/* SPDX-License-Identifier: MIT */
/* Tiles of inputs to places, of places to outputs, and the transposes of both.
 */
#include <string.h>

#include "kernels/conv_winograd.h"

enum {
    NEAR = 3 << 15, /* floats of V and M that the second cache has beside U */
    FAR = 4 << 20,  /* and the last one */
    SOON = 4,       /* tiles from one to that which is asked for */
    NEW = 4,        /* rows and columns of a tile that those before have not */
    SHARE = 2,      /* of U; where it is large it is read for so many at once */
};

/* The tiles of an image that are of a sort: the first one's outputs, and how
 * many there are. */
struct part {
    int row, column, rows, columns;
};

static struct part part_of(const struct winograd_tiles *t, int sort)
{
    const int side = t->to->side, h = t->view->rows, w = t->view->columns;
    const bool low = sort == TILE_SHORT || sort == TILE_CORNER;
    const bool right = sort == TILE_NARROW || sort == TILE_CORNER;
    return (struct part){
        .row = low ? h / side * side : 0,
        .column = right ? w / side * side : 0,
        .rows = low ? h % side > 0 : h / side,
        .columns = right ? w % side > 0 : w / side,
    };
}

int winograd_having(const struct winograd_tiles *t, size_t e, int first, int n,
                    int *from)
{
    const int wide = t->to->wide, side = t->to->side;
    const unsigned row = 1U << e / (size_t)wide,
                   column = 1U << e % (size_t)wide;
    const bool low = t->to->has[t->view->rows % side] & row;
    const bool right = t->to->has[t->view->columns % side] & column;
    const int begin = low ? 0 : t->end[TILE_SHORT];
    const int end =
        t->end[right ? low ? TILE_CORNER : TILE_NARROW : TILE_WHOLE];
    *from = conv_most(0, begin - first);
    return conv_least(n, end - first);
}

struct winograd_tiles winograd_tiles_of(const struct conv_view *v,
                                        const struct conv *c, int outputs)
{
    const size_t blocks_y =
        (size_t)(conv_blocks(outputs) * c->groups) * CONV_BLOCK;
    struct winograd_tiles t = {
        .view = v,
        .to = conv_isa()->transforms[conv_winograd_kind(c)],
        .x_image = conv_blocked(1, v->channels * c->groups, v->h, v->w),
        .y_image = blocks_y * (size_t)v->rows * (size_t)v->columns,
        .x_plane = (size_t)v->h * (size_t)v->w * CONV_BLOCK,
    };
    t.images = c->n;
    t.share = conv_share(c, conv_blocks(outputs));
    for (int sort = 0; sort < WINOGRAD_SORTS; sort++) {
        const struct part p = part_of(&t, sort);
        t.all += c->n * p.rows * p.columns;
        t.end[sort] = t.all;
    }
    const int blocks = v->blocks + conv_blocks(outputs);
    t.places = (size_t)(t.to->wide * t.to->wide);
    const double weights = (double)t.places * v->channels * conv_blocks(outputs)
                           * CONV_BLOCK / SHARE;
    const double room = weights < NEAR ? NEAR : weights > FAR ? FAR : weights;
    t.at_once = (int)(room / ((double)t.places * CONV_BLOCK * blocks))
                / TILE_POSITIONS * TILE_POSITIONS;
    if (t.at_once < TILE_POSITIONS)
        t.at_once = TILE_POSITIONS;
    /* Rather than to read all of U for a few more; where what chunks save of U
     * is more than this takes, so that no part of a batch needs more scratch
     * than all of it. */
    if (t.all < 2 * t.at_once && weights * SHARE > FAR
        && conv_least(v->blocks, conv_blocks(outputs)) >= 2 * WINOGRAD_CHUNK)
        t.at_once = t.all;
    t.at_once = conv_least(t.at_once, t.all > 0 ? t.all : 1);
    return t;
}

/* Where a tile is: its image, and the first row and column of its outputs. */
struct place {
    int image, row, column, sort;
    struct part part;
};

/* The first tile of a sort, or of the next one that has any. */
static void begin(const struct winograd_tiles *t, struct place *at, int sort)
{
    while (sort < TILE_CORNER && t->end[sort] == (sort ? t->end[sort - 1] : 0))
        sort++;
    const struct part p = part_of(t, sort);
    *at = (struct place){0, p.row, p.column, sort, p};
}

static struct place place_of(const struct winograd_tiles *t, int i)
{
    struct place at;
    int sort = 0;
    while (sort < TILE_CORNER && i >= t->end[sort])
        sort++;
    begin(t, &at, sort);
    i -= at.sort ? t->end[at.sort - 1] : 0;
    const int columns = conv_most(at.part.columns, 1);
    const int in_image = conv_most(at.part.rows, 1) * columns;
    at.image = i / in_image;
    at.row += i % in_image / columns * t->to->side;
    at.column += i % columns * t->to->side;
    return at;
}

static void advance(const struct winograd_tiles *t, struct place *at)
{
    const struct part *p = &at->part;
    const int side = t->to->side;
    at->column += side;
    if (at->column < p->column + p->columns * side)
        return;
    at->column = p->column;
    at->row += side;
    if (at->row < p->row + p->rows * side)
        return;
    at->row = p->row;
    if (++at->image == t->images && at->sort < TILE_CORNER)
        begin(t, at, at->sort + 1);
}

/* Outputs of a tile, and which of its inputs lie inside; false if all do, and
 * it has all outputs. */
static bool at_edge(const struct winograd_tiles *t, const struct place *at,
                    int row, int column, struct conv_edge *e)
{
    const struct conv_view *v = t->view;
    const int side = t->to->side, wide = t->to->wide;
    e->rows = conv_least(side, v->rows - at->row);
    e->columns = conv_least(side, v->columns - at->column);
    const int high = wide - v->stride_h * (side - e->rows);
    const int broad = wide - v->stride_h * (side - e->columns);
    e->top = row < 0 ? -row : 0;
    e->bottom = conv_least(high, v->h - row);
    e->left = column < 0 ? -column : 0;
    e->right = conv_least(broad, v->w - column);
    return e->top || e->left || e->bottom < wide || e->right < wide;
}

/* Asks for the lines of a tile that is to be read or written soon: those of its
 * outputs, or as many of its inputs. The processor does not foresee them, as
 * tiles are short pieces of several rows. Inline, as gcc takes calls of what
 * only prefetches for calls without effect. */
static inline __attribute__((always_inline)) void
prefetch(const struct place *soon, const float *x, size_t image, size_t row,
         int stride, int size)
{
    x += (size_t)soon->image * image
         + (size_t)stride
               * ((size_t)soon->row * row + (size_t)soon->column * CONV_BLOCK);
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++)
            __builtin_prefetch(x + (size_t)i * row + j * CONV_BLOCK);
}

void winograd_input(const struct winograd_tiles *t, struct conv_span blocks,
                    float *x, int first, int n, float *v, bool back)
{
    const struct conv_view *view = t->view;
    const size_t next = winograd_matrix(t, view->channels);
    const size_t line = (size_t)view->w * CONV_BLOCK;
    /* Of the rows that a tile reads the first are mostly in a cache since those
     * above it. */
    const float *newest =
        x + (ptrdiff_t)(view->row0 + t->to->wide - NEW) * (ptrdiff_t)line;
    struct conv_edge edge;
    for (int b = blocks.from; b < blocks.to; b++) {
        struct place at = place_of(t, first), soon = place_of(t, first + SOON);
        for (int i = 0; i < n; i++, advance(t, &at), advance(t, &soon)) {
            const int row = view->row0 + view->stride_h * at.row;
            const int column = view->column0 + view->stride_h * at.column;
            const bool is = at_edge(t, &at, row, column, &edge);
            float *here = x + (size_t)at.image * t->x_image
                          + (size_t)b * t->x_plane
                          + ((ptrdiff_t)row * view->w + column) * CONV_BLOCK;
            prefetch(&soon, newest + (size_t)b * t->x_plane, t->x_image, line,
                     view->stride_h, NEW);
            (back ? t->to->input_back : t->to->input)(
                here, line, is ? &edge : NULL,
                v + ((size_t)b * (size_t)t->at_once + (size_t)i) * CONV_BLOCK,
                next);
        }
    }
}

void winograd_output(const struct winograd_tiles *t, int outputs, int first,
                     int n, const float *m, const float *bias, float *y)
{
    const struct conv_view *view = t->view;
    const size_t row = (size_t)view->columns * CONV_BLOCK;
    const size_t plane = row * (size_t)view->rows;
    const float *gate = t->gate ? t->gate + (y - t->dx) : NULL;
    for (int b = t->share.from; b < t->share.to; b++) {
        float more[CONV_BLOCK] = {0};
        const size_t start = (size_t)b * plane;
        const int lanes = conv_least(CONV_BLOCK, outputs - b * CONV_BLOCK);
        if (bias)
            memcpy(more, bias + b * CONV_BLOCK, (size_t)lanes * sizeof(float));
        struct place at = place_of(t, first), soon = place_of(t, first + SOON);
        for (int i = 0; i < n; i++, advance(t, &at), advance(t, &soon)) {
            const size_t here = start + (size_t)at.image * t->y_image
                                + (size_t)at.row * row
                                + (size_t)at.column * CONV_BLOCK;
            const struct conv_end end = {t->relu, gate ? gate + here : NULL};
            prefetch(&soon, y + start, t->y_image, row, 1, t->to->side);
            if (gate)
                prefetch(&soon, gate + start, t->y_image, row, 1, t->to->side);
            t->to->output(
                m + ((size_t)b * (size_t)t->at_once + (size_t)i) * CONV_BLOCK,
                winograd_matrix(t, outputs), t->add ? NULL : more, y + here,
                row, conv_least(t->to->side, view->rows - at.row),
                conv_least(t->to->side, view->columns - at.column), &end);
        }
    }
}

void winograd_dy(const struct winograd_tiles *t, struct conv_span blocks,
                 int outputs, const float *dy, int first, int n, float *m)
{
    const int h = t->view->rows, w = t->view->columns;
    const size_t plane = (size_t)h * (size_t)w * CONV_BLOCK;
    for (int b = blocks.from; b < blocks.to; b++) {
        struct place at = place_of(t, first), soon = place_of(t, first + SOON);
        for (int i = 0; i < n; i++, advance(t, &at), advance(t, &soon)) {
            prefetch(&soon, dy + (size_t)b * plane, t->y_image,
                     (size_t)w * CONV_BLOCK, 1, t->to->side);
            t->to->output_back(
                dy + (size_t)at.image * t->y_image + (size_t)b * plane
                    + ((size_t)at.row * (size_t)w + (size_t)at.column)
                          * CONV_BLOCK,
                (size_t)w * CONV_BLOCK, conv_least(t->to->side, h - at.row),
                conv_least(t->to->side, w - at.column),
                m + ((size_t)b * (size_t)t->at_once + (size_t)i) * CONV_BLOCK,
                winograd_matrix(t, outputs));
        }
    }
}
