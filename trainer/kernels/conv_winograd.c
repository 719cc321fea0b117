/* SPDX-License-Identifier: MIT */
/* Winograd's F(4x4, 3x3) and F(4x4, 5x5) for strides of 1: the same sums in 36
 * and 64 products where the definition takes 144 and 400; and 2x2 outputs of
 * 3x3 with strides of 2 in 25 instead of 36. By places, which are as many:
 *
 *     x ── input ──> V (places, C, tiles) ┐
 *     w ── weights ─> U (places, K, C) ───┴> M = U V ── output ──> y
 *                                           (places, K, tiles)
 *
 * Each of the products of matrices is done by the tiles of the direct
 * kernels, with one tap and tiles as positions. The gradient of the weights is
 * the sum over tiles of V and of the transformed dy.
 */
#include <string.h>

#include "kernels/conv_bands.h"
#include "kernels/conv_pack.h"

enum {
    NEAR = 3 << 15, /* floats of V and M that the second cache has beside U */
    FAR = 4 << 20,  /* and the last one */
    SOON = 4,       /* tiles from one to that which is asked for */
    NEW = 4,        /* rows and columns of a tile that those before have not */
    SHARE = 2,      /* of U; where it is large it is read for so many at once */
    CHUNK = TILE_BLOCKS, /* blocks of outputs whose U is made at once */
    APART = CONV_BLOCK,  /* so that places do not fall on the same lines */
};

static const char *cannot(const struct conv *c, enum conv_pass pass)
{
    if (c->kernel_h != c->kernel_w || (c->kernel_h != 3 && c->kernel_h != 5))
        return "the kernel is neither 3x3 nor 5x5";
    if (c->dilation_h != 1 || c->dilation_w != 1)
        return "dilation is not 1";
    if (c->stride_h != c->stride_w || c->stride_h > (c->kernel_h == 3 ? 2 : 1))
        return "strides are neither 1, nor 2 of a 3x3 kernel";
    if (c->plain)
        return "the input is plain";
    return conv_direct.cannot(c, pass);
}

enum winograd_kind conv_winograd_kind(const struct conv *c)
{
    return c->stride_h == 2   ? WINOGRAD_3_STRIDE_2
           : c->kernel_h == 5 ? WINOGRAD_5
                              : WINOGRAD_3;
}

/* For what reads and writes by one piece of code. */
static float *read_only(const float *x)
{
    return (float *)(uintptr_t)x;
}

/* --- tiles ----------------------------------------------------------------
 */

/* All tiles of all images, so many at a time. */
struct tiles {
    const struct conv_view *view;
    const struct conv_transforms *to;
    int stride;
    size_t places;
    int rows, columns; /* of tiles in an image */
    int all, at_once;
    bool add;                         /* outputs to what is there */
    bool from_last;                   /* done from the last to the first */
    size_t x_image, y_image, x_plane; /* floats of all groups */
};

/* Floats between the matrices of two places, of so many channels and tiles. */
static size_t matrix(const struct tiles *t, int channels)
{
    return (size_t)conv_blocks(channels) * CONV_BLOCK * (size_t)t->at_once
           + APART;
}

static struct tiles tiles_of(const struct conv_view *v, const struct conv *c,
                             int outputs)
{
    const size_t blocks_y =
        (size_t)(conv_blocks(outputs) * c->groups) * CONV_BLOCK;
    struct tiles t = {
        .view = v,
        .to = conv_isa()->transforms[conv_winograd_kind(c)],
        .stride = v->stride_h,
        .x_image = conv_blocked(1, v->channels * c->groups, v->h, v->w),
        .y_image = blocks_y * (size_t)v->rows * (size_t)v->columns,
        .x_plane = (size_t)v->h * (size_t)v->w * CONV_BLOCK,
    };
    t.rows = conv_up(v->rows, t.to->side);
    t.columns = conv_up(v->columns, t.to->side);
    t.all = c->n * t.rows * t.columns;
    const int blocks = v->blocks + conv_blocks(outputs);
    t.places = (size_t)(t.to->wide * t.to->wide);
    const double weights = (double)t.places * v->channels * conv_blocks(outputs)
                           * CONV_BLOCK / SHARE;
    const double room = weights < NEAR ? NEAR : weights > FAR ? FAR : weights;
    t.at_once = (int)(room / ((double)t.places * CONV_BLOCK * blocks))
                / TILE_POSITIONS * TILE_POSITIONS;
    if (t.at_once < TILE_POSITIONS)
        t.at_once = TILE_POSITIONS;
    if (t.all < 2 * t.at_once && weights * SHARE > FAR)
        t.at_once = t.all; /* rather than to read all of U for a few more */
    t.at_once = conv_least(t.at_once, t.all > 0 ? t.all : 1);
    return t;
}

/* Where a tile is: its image, and the first row and column of its outputs. */
struct place {
    int image, row, column;
};

static struct place place_of(const struct tiles *t, int i)
{
    const int in_image = t->rows * t->columns, side = t->to->side;
    return (struct place){i / in_image, i % in_image / t->columns * side,
                          i % t->columns * side};
}

static void advance(const struct tiles *t, struct place *at)
{
    const int side = t->to->side;
    at->column += side;
    if (at->column < t->columns * side)
        return;
    at->column = 0;
    at->row += side;
    if (at->row < t->rows * side)
        return;
    at->row = 0;
    at->image++;
}

/* What of `size` rows and columns from these on lies in h x w; false if all. */
static bool leaves(int row, int column, int size, int h, int w,
                   struct conv_inside *in)
{
    *in = (struct conv_inside){
        .top = row < 0 ? -row : 0,
        .bottom = conv_least(size, h - row),
        .left = column < 0 ? -column : 0,
        .right = conv_least(size, w - column),
    };
    return in->top || in->left || in->bottom < size || in->right < size;
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

/* V: [place][block][tile][16]; back: adds what the transpose makes of V to x.
 */
static void transform_input(const struct tiles *t, float *x, int first, int n,
                            float *v, bool back)
{
    const struct conv_view *view = t->view;
    const size_t next = matrix(t, view->channels);
    const size_t line = (size_t)view->w * CONV_BLOCK;
    /* Of the rows that a tile reads the first are in a cache since those above
     * it. */
    const float *newest =
        x + (ptrdiff_t)(view->row0 + t->to->wide - NEW) * (ptrdiff_t)line;
    struct conv_inside in;
    for (int b = 0; b < view->blocks; b++) {
        struct place at = place_of(t, first), soon = place_of(t, first + SOON);
        for (int i = 0; i < n; i++, advance(t, &at), advance(t, &soon)) {
            const int row = view->row0 + t->stride * at.row;
            const int column = view->column0 + t->stride * at.column;
            const bool edge =
                leaves(row, column, t->to->wide, view->h, view->w, &in);
            float *here = x + (size_t)at.image * t->x_image
                          + (size_t)b * t->x_plane
                          + ((ptrdiff_t)row * view->w + column) * CONV_BLOCK;
            prefetch(&soon, newest + (size_t)b * t->x_plane, t->x_image, line,
                     t->stride, NEW);
            (back ? t->to->input_back : t->to->input)(
                here, line, edge ? &in : NULL,
                v + ((size_t)b * (size_t)t->at_once + (size_t)i) * CONV_BLOCK,
                next);
        }
    }
}

/* --- weights --------------------------------------------------------------
 */

/* Blocks of outputs whose U is there: all, or some at a time. */
struct chunk {
    int first, blocks, widest; /* of tiles */
    const int *most;
};

/* Floats between the matrices of two places: [tile][block][channel][nk][16], as
 * for one tap. */
static size_t place_floats(const struct conv_view *v, int blocks)
{
    return (size_t)blocks * CONV_BLOCK * (size_t)v->channels + APART;
}

/* Calls the transform of each 16 weights of a packed part, or of their
 * gradient. at: where a kernel's elements are, by their row and column. */
static void each_weight(const struct tiles *t, const struct conv_view *v,
                        int nk, float *packed, float *u, size_t next, bool back)
{
    const int kernel = t->to->kernel;
    for (int c = 0; c < v->channels; c += CONV_BLOCK) {
        const int nc = conv_least(CONV_BLOCK, v->channels - c);
        const int tap = nc * nk * CONV_BLOCK;
        size_t at[25];
        for (int i = 0; i < v->ntaps; i++)
            at[kernel * v->tap[i].row + v->tap[i].column] = (size_t)(i * tap);
        for (int i = 0; i < tap; i += CONV_BLOCK)
            if (back)
                t->to->weights_back(u + i, next, packed + i, at);
            else
                t->to->weights(packed + i, at, u + i, next);
        packed += v->ntaps * tap;
        u += tap;
    }
}

/* What a tile of outputs has, packed. */
static size_t packed_floats(const struct conv_view *v, int outputs)
{
    return conv_packed(v, conv_least(outputs, TILE_BLOCKS * CONV_BLOCK));
}

/* U of w, or, back, what U says of the gradient added to w. */
static void transform_weights(const struct tiles *t, const struct conv_view *v,
                              const struct conv_weights *order,
                              const struct chunk *k, float *w, float *packed,
                              float *u, bool back)
{
    const int end = k->first + k->blocks;
    for (int kb = k->first, nk; kb < end; kb += nk) {
        nk = conv_tile_blocks(k->most, k->widest, end - kb);
        const struct conv_part part = {kb, nk, 0, v->blocks};
        if (!back)
            conv_pack_part(v, order, &part, w, packed);
        each_weight(t, v, nk, packed, u, place_floats(v, k->blocks), back);
        if (back)
            conv_unpack_part(v, order, &part, packed, w);
        u += nk * CONV_BLOCK * v->channels;
    }
}

/* Where all tiles are done at once, each part of U is there only for as long as
 * it takes, in a cache. The first chunk. */
static struct chunk chunk_of(const struct tiles *t, int outputs,
                             const int *most, int widest)
{
    const int blocks = conv_blocks(outputs);
    return (struct chunk){
        .blocks = t->at_once < t->all ? blocks : conv_least(blocks, CHUNK),
        .widest = widest,
        .most = most,
    };
}

/* The next one; false: there is none. Only the last may be shorter. */
static bool next_chunk(struct chunk *k, int outputs)
{
    k->first += k->blocks;
    k->blocks = conv_least(k->blocks, conv_blocks(outputs) - k->first);
    return k->blocks > 0;
}

/* --- forward, and backward to the data ------------------------------------
 */

/* M = U V for so many tiles; view: has the channels of V. */
static void multiply(const struct tiles *t, const struct conv_view *view,
                     int outputs, const struct chunk *k, int n, const float *u,
                     const float *v, float *m)
{
    static const float zeros[TILE_BLOCKS * CONV_BLOCK];
    static const int32_t tap[1];
    const struct conv_isa *isa = conv_isa();
    const size_t plane = (size_t)t->at_once * CONV_BLOCK;
    for (size_t e = 0; e < t->places; e++)
        for (int kb = 0, nk; kb < k->blocks; kb += nk) {
            nk = conv_tile_blocks(k->most, k->widest, k->blocks - kb);
            const int count = (n + isa->most[nk] - 1) / isa->most[nk];
            struct conv_tile tile = {
                .x_block = plane,
                .tap = tap,
                .ntaps = 1,
                .nblocks = view->blocks,
                .last = view->channels - (view->blocks - 1) * CONV_BLOCK,
                .w = u + e * place_floats(view, k->blocks)
                     + (size_t)kb * CONV_BLOCK * (size_t)view->channels,
                .y_block = plane,
                .y_step = CONV_BLOCK,
                .bias = zeros,
            };
            for (int i = 0, q = 0, nq; i < count; i++, q += nq) {
                nq = (n - q) / (count - i);
                tile.x =
                    v + e * matrix(t, view->channels) + (size_t)q * CONV_BLOCK;
                tile.y = m + e * matrix(t, outputs)
                         + (size_t)(k->first + kb) * plane
                         + (size_t)q * CONV_BLOCK;
                isa->tile[nk][nq](&tile);
            }
        }
}

static void transform_output(const struct tiles *t, int outputs, int first,
                             int n, const float *m, const float *bias, float *y)
{
    const struct conv_view *view = t->view;
    const int blocks = conv_blocks(outputs);
    const size_t row = (size_t)view->columns * CONV_BLOCK;
    const size_t plane = row * (size_t)view->rows;
    for (int b = 0; b < blocks; b++) {
        float more[CONV_BLOCK] = {0};
        const int lanes = conv_least(CONV_BLOCK, outputs - b * CONV_BLOCK);
        if (bias)
            memcpy(more, bias + b * CONV_BLOCK, (size_t)lanes * sizeof(float));
        struct place at = place_of(t, first), soon = place_of(t, first + SOON);
        for (int i = 0; i < n; i++, advance(t, &at), advance(t, &soon)) {
            prefetch(&soon, y + (size_t)b * plane, t->y_image, row, 1,
                     t->to->side);
            t->to->output(
                m + ((size_t)b * (size_t)t->at_once + (size_t)i) * CONV_BLOCK,
                matrix(t, outputs), t->add ? NULL : more,
                y + (size_t)at.image * t->y_image + (size_t)b * plane
                    + (size_t)at.row * row + (size_t)at.column * CONV_BLOCK,
                row, conv_least(t->to->side, view->rows - at.row),
                conv_least(t->to->side, view->columns - at.column));
        }
    }
}

/* Of a group's weights; back: with inputs as outputs. */
static struct conv_weights order_of(const struct conv *c, int outputs,
                                    bool back)
{
    const size_t taps = (size_t)(c->kernel_h * c->kernel_w);
    const size_t far = (size_t)(c->c / c->groups) * taps;
    return (struct conv_weights){outputs, back ? taps : far, back ? far : taps,
                                 c->kernel_w};
}

/* Buffers in the scratch. */
struct room {
    float *u, *packed, *v, *m;
};

static struct room room_of(const struct tiles *t, const struct conv_view *v,
                           int outputs, float *scratch)
{
    const struct chunk k = chunk_of(t, outputs, NULL, 0);
    struct room r = {.u = scratch};
    r.packed = r.u + t->places * place_floats(v, k.blocks);
    r.v = r.packed + packed_floats(v, outputs);
    r.m = r.v + t->places * matrix(t, v->channels);
    return r;
}

/* M of so many tiles of which V is there, the first ones or others. */
static void multiply_all(const struct tiles *t, const struct conv_view *v,
                         const struct conv_weights *order, bool first, int n,
                         const float *w, const struct room *r)
{
    const int *most = conv_isa()->most;
    struct chunk k = chunk_of(t, order->outputs, most,
                              conv_widest_for(most, TILE_POSITIONS));
    do {
        if (first)
            transform_weights(t, v, order, &k, read_only(w), r->packed, r->u,
                              false);
        multiply(t, v, order->outputs, &k, n, r->u, r->v, r->m);
    } while (next_chunk(&k, order->outputs));
}

/* Of one group. */
static void run(const struct conv_view *v, const struct tiles *t,
                const struct conv_weights *order, float *x, const float *w,
                const float *bias, float *y, float *scratch)
{
    const struct room r = room_of(t, v, order->outputs, scratch);
    for (int done = 0, count; done < t->all; done += count) {
        count = conv_least(t->at_once, t->all - done);
        const int first = t->from_last ? t->all - done - count : done;
        transform_input(t, x, first, count, r.v, false);
        multiply_all(t, v, order, done == 0, count, w, &r);
        transform_output(t, order->outputs, first, count, r.m, bias, y);
    }
}

static void forward(const struct conv *c, const float *x, const float *w,
                    const float *bias, float *y, float *scratch)
{
    const int in = c->c / c->groups, k = c->k / c->groups;
    const struct conv_weights order = order_of(c, k, false);
    struct conv_view v;
    view_forward(&v, c);
    const struct tiles t = tiles_of(&v, c, k);
    for (int g = 0; g < c->groups; g++)
        run(&v, &t, &order,
            read_only(x) + (size_t)(g * in) * (size_t)(c->h * c->w),
            w + (size_t)(g * k) * order.output, bias ? bias + g * k : NULL,
            y + (size_t)(g * k) * (size_t)(c->out_h * c->out_w), scratch);
}

/* The transformed dy: [place][block][tile][16]. */
static void transform_dy(const struct tiles *t, int outputs, const float *dy,
                         int first, int n, float *m)
{
    const int h = t->view->rows, w = t->view->columns;
    const int blocks = conv_blocks(outputs);
    const size_t plane = (size_t)h * (size_t)w * CONV_BLOCK;
    struct conv_inside in;
    for (int b = 0; b < blocks; b++) {
        struct place at = place_of(t, first), soon = place_of(t, first + SOON);
        for (int i = 0; i < n; i++, advance(t, &at), advance(t, &soon)) {
            const bool edge = leaves(at.row, at.column, t->to->side, h, w, &in);
            prefetch(&soon, dy + (size_t)b * plane, t->y_image,
                     (size_t)w * CONV_BLOCK, 1, t->to->side);
            t->to->output_back(
                dy + (size_t)at.image * t->y_image + (size_t)b * plane
                    + ((size_t)at.row * (size_t)w + (size_t)at.column)
                          * CONV_BLOCK,
                (size_t)w * CONV_BLOCK, edge ? &in : NULL,
                m + ((size_t)b * (size_t)t->at_once + (size_t)i) * CONV_BLOCK,
                matrix(t, outputs));
        }
    }
}

/* The transpose of forward instead, by tiles of dy: what they add to dx
 * overlaps, but without padding, and with strides, there are fewer of them. */
static struct tiles turned(const struct conv *c, struct conv_view *straight,
                           struct conv_view *v)
{
    view_forward(straight, c);
    *v = *straight;
    v->channels = c->k / c->groups;
    v->blocks = conv_blocks(v->channels);
    return tiles_of(straight, c, v->channels);
}

static double tiles_over(const struct conv *c, int h, int w)
{
    const int side = conv_isa()->transforms[conv_winograd_kind(c)]->side;
    return (double)conv_up(h, side) * conv_up(w, side);
}

static bool turns(const struct conv *c)
{
    return c->stride_h > 1
           || tiles_over(c, c->out_h, c->out_w)
                  < 0.8 * tiles_over(c, c->h, c->w);
}

double conv_winograd_tiles(const struct conv *c, enum conv_pass pass)
{
    return c->n
           * (pass == CONV_BACKWARD_DATA && !turns(c)
                  ? tiles_over(c, c->h, c->w)
                  : tiles_over(c, c->out_h, c->out_w));
}

static void run_turned(const struct conv *c, const struct conv_weights *order,
                       const float *dy, const float *w, float *dx,
                       float *scratch)
{
    struct conv_view straight, v;
    const struct tiles t = turned(c, &straight, &v);
    const struct room r = room_of(&t, &v, order->outputs, scratch);
    for (int first = 0; first < t.all; first += t.at_once) {
        const int count = conv_least(t.at_once, t.all - first);
        transform_dy(&t, v.channels, dy, first, count, r.v);
        multiply_all(&t, &v, order, first == 0, count, w, &r);
        transform_input(&t, dx, first, count, r.m, true);
    }
}

static void backward_data(const struct conv *c, const float *dy, const float *w,
                          float *dx, float *scratch)
{
    const int in = c->c / c->groups, k = c->k / c->groups;
    const struct conv_weights order = order_of(c, in, true);
    struct conv_view v;
    view_backward(&v, c, 0, 0);
    struct tiles t = tiles_of(&v, c, in);
    t.add = c->add;
    t.from_last = true; /* see conv_direct.c */
    if (turns(c) && !c->add)
        memset(dx, 0, conv_blocked(c->n, c->c, c->h, c->w) * sizeof(float));
    for (int g = 0; g < c->groups; g++) {
        const float *from =
            dy + (size_t)(g * k) * (size_t)(c->out_h * c->out_w);
        float *to = dx + (size_t)(g * in) * (size_t)(c->h * c->w);
        const float *weights = w + (size_t)(g * k) * order.input;
        if (turns(c))
            run_turned(c, &order, from, weights, to, scratch);
        else
            run(&v, &t, &order, read_only(from), weights, NULL, to, scratch);
    }
}

/* --- backward to the weights ----------------------------------------------
 */

/* U += V times the transformed dy, over so many tiles. */
static void sum_up(const struct tiles *t, int outputs, const struct chunk *k,
                   int n, const float *v, const float *m, float *u)
{
    const struct conv_view *view = t->view;
    const struct conv_isa *isa = conv_isa();
    const size_t plane = (size_t)t->at_once * CONV_BLOCK;
    for (size_t e = 0; e < t->places; e++)
        for (int kb = 0, nk; kb < k->blocks; kb += nk) {
            nk = conv_tile_blocks(k->most, k->widest, k->blocks - kb);
            struct conv_sum s = {
                .dy = m + e * matrix(t, outputs)
                      + (size_t)(k->first + kb) * plane,
                .dy_block = plane,
                .images = 1,
                .rows = 1,
                .columns = n,
                .dw = u + e * place_floats(view, k->blocks)
                      + (size_t)kb * CONV_BLOCK * (size_t)view->channels,
            };
            for (int c = 0, nc; c < view->channels; c += nc) {
                const int left =
                    conv_least(CONV_BLOCK - c % CONV_BLOCK, view->channels - c);
                nc = conv_even_parts(left, isa->sum_most[nk]);
                s.x = v + e * matrix(t, view->channels)
                      + (size_t)(c / CONV_BLOCK) * plane + c % CONV_BLOCK;
                isa->sum[nk][nc](&s);
                s.dw += nc * nk * CONV_BLOCK;
            }
        }
}

static void backward_weights(const struct conv *c, const float *x,
                             const float *dy, float *dw, float *scratch)
{
    const int *most = conv_isa()->sum_most;
    const int channels = c->c / c->groups, outputs = c->k / c->groups;
    const struct conv_weights order = order_of(c, outputs, false);
    struct conv_view v;
    view_forward(&v, c);
    const struct tiles t = tiles_of(&v, c, outputs);
    const struct room r = room_of(&t, &v, outputs, scratch);
    for (int g = 0; g < c->groups; g++) {
        float *from =
            read_only(x) + (size_t)(g * channels) * (size_t)(c->h * c->w);
        const float *back =
            dy + (size_t)(g * outputs) * (size_t)(c->out_h * c->out_w);
        float *to = dw + (size_t)(g * outputs) * order.output;
        for (int first = 0; first < t.all; first += t.at_once) {
            const int count = conv_least(t.at_once, t.all - first);
            transform_input(&t, from, first, count, r.v, false);
            transform_dy(&t, outputs, back, first, count, r.m);
            struct chunk k = chunk_of(&t, outputs, most, conv_widest(most));
            do {
                if (first == 0)
                    memset(r.u, 0,
                           t.places * place_floats(&v, k.blocks)
                               * sizeof(float));
                sum_up(&t, outputs, &k, count, r.v, r.m, r.u);
                if (first + count == t.all)
                    transform_weights(&t, &v, &order, &k, to, r.packed, r.u,
                                      true);
            } while (next_chunk(&k, outputs));
        }
    }
}

static size_t scratch_of(const struct conv *c, enum conv_pass pass)
{
    const int outputs = (pass == CONV_BACKWARD_DATA ? c->c : c->k) / c->groups;
    struct conv_view straight, v;
    struct tiles t;
    if (pass == CONV_BACKWARD_DATA && turns(c)) {
        t = turned(c, &straight, &v);
    } else {
        if (pass == CONV_BACKWARD_DATA)
            view_backward(&v, c, 0, 0);
        else
            view_forward(&v, c);
        t = tiles_of(&v, c, outputs);
    }
    return t.places
               * (place_floats(&v, chunk_of(&t, outputs, NULL, 0).blocks)
                  + matrix(&t, v.channels) + matrix(&t, outputs))
           + packed_floats(&v, outputs);
}

const struct conv_method conv_winograd = {
    .name = "winograd",
    .adds = true,
    .cannot = cannot,
    .scratch = scratch_of,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
};
