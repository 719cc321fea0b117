/* SPDX-License-Identifier: MIT */
/* Forward, and backward to the data. Order of work: images, bands of rows,
 * chunks of input blocks, blocks of outputs. */
#include "kernels/conv_direct.h"

#include <limits.h>
#include <string.h>

#include "kernels/conv_bands.h"
#include "kernels/conv_pack.h"
#include "kernels/conv_size.h"

enum {
    FEW = 784,       /* positions; of less, several images are done at once */
    PHASES = 1024,   /* of the gradient of the data, each a pass of its own */
    CACHE_LINE = 64, /* bytes */
#ifdef CONV_AMX_STAND_IN
    STREAM = 999,
#else
    STREAM =
        8 << 20, /* floats of an output; more are written past the caches */
#endif
    WIDE_LOADS = 41, /* what a group of a wide tile takes besides, where one
                        more position takes 1 */
    WEIGHTS = 18432, /* floats of a chunk for a block of outputs, at most: 144
                        KiB for a tile of two; of one tap see bands_of() */
};

static const char *cannot(const struct conv *c, enum conv_pass pass)
{
    if (c->groups > 1
        && (c->c / c->groups % CONV_BLOCK || c->k / c->groups % CONV_BLOCK))
        return "channels of a group are no multiple of 16";
    if (c->kernel_h * c->kernel_w > CONV_TAPS)
        return "the kernel has more than 256 elements";
    if ((c->kernel_h - 1.0) * c->dilation_h > INT16_MAX
        || (c->kernel_w - 1.0) * c->dilation_w > INT16_MAX)
        return "the kernel is longer than 32768 with its gaps";
    if ((double)c->stride_h * c->stride_w > PHASES)
        return "strides have more than 1024 phases";
    if (c->plain && (c->c >= CONV_BLOCK || c->groups > 1))
        return "16 channels or more, or groups, are to be blocked";
    if (c->plain && pass == CONV_BACKWARD_DATA)
        return "there is no gradient of a plain input";
    return NULL;
}

/* Of a group; where positions of some images are written. */
struct output {
    float *y;
    size_t image, block, row, step; /* floats */
    int channels;
    struct conv_span share; /* of their blocks */
    const float *bias;      /* padded; NULL: 0 */
    bool add;               /* to what is there */
    bool half;              /* y is bf16 */
    bool stream;            /* all of it is too much for any cache */
    bool relu;              /* see struct conv_tile */
    const float *gate, *dx; /* likewise */
};

struct pass {
    const struct conv_isa *isa;
    const struct conv_view *view;
    struct conv_bands bands;
    int widest;
    const struct conv_weights *order;
    const float *w; /* of the group, and how it is packed */
    float *packed;
    bool once; /* all that reads a part does so before the next is packed */
    size_t x_image;
    float *band;
};

/* Of one tap a tile reads its weights for its few positions only, which the
 * second cache may not keep up with. What is rounded at the end has no chunks
 * of inputs. */
static struct conv_bands bands_of(const struct conv_isa *isa,
                                  const struct conv_view *v, int n, bool half)
{
    const int near = isa->near * CONV_BLOCK * CONV_BLOCK;
    return conv_bands_of(v,
                         half                    ? INT_MAX
                         : v->ntaps == 1 && near ? near
                                                 : WEIGHTS,
                         conv_images_at_once(v, n, FEW));
}

static struct pass pass_of(const struct conv_isa *isa,
                           const struct conv_view *v,
                           const struct conv_weights *order, int n, bool half)
{
    struct pass p = {
        .isa = isa,
        .view = v,
        .widest = conv_widest_for(isa->most, v->columns,
                                  v->ntaps > 1 && !v->lines ? isa->far_widest
                                                            : TILE_BLOCKS),
        .order = order,
        .bands = bands_of(isa, v, n, half),
    };
    p.once = p.bands.images >= n && p.bands.rows == v->rows;
    return p;
}

/* What the next tile reads, or of more taps the next row. */
static ptrdiff_t ahead(const struct conv_view *v, int nq)
{
    if (v->ntaps <= 1)
        return nq * (ptrdiff_t)v->step;
    if (v->copies)
        return 0;
    const int last = v->at[v->ntaps - 1] > v->at[0] ? v->ntaps - 1 : 0;
    return v->at[last] + v->stride_h * (ptrdiff_t)v->row;
}

/* Rows of one tap lie behind one another in a copy, and may so in the output:
 * then they are one, without short tiles at each end. */
static bool are_one(const struct conv_view *v, const struct output *out,
                    int first, int rows)
{
    const size_t columns = (size_t)v->columns;
    int from, to;
    if (!v->copies || v->lines || !v->dense || v->ntaps != 1
        || v->row != columns * v->step || out->row != columns * out->step)
        return false;
    view_inside(v, 0, first, rows, &from, &to);
    return to - from == rows;
}

/* Sets what reads and writes row r of those from `first` on; returns where its
 * first position reads. */
static const float *begin_row(const struct conv_view *v, struct conv_tile *t,
                              const float *from, int first, int r)
{
    t->ntaps = view_taps(v, first + r, &t->before);
    t->after = v->ntaps - t->before - t->ntaps;
    t->tap = v->at + t->before;
    return from
           + (v->copies ? (ptrdiff_t)view_row(v, r)
                        : view_direct(v, first + r));
}

/* One image's rows of positions, by the tiles of the same outputs. */
static void run_rows(const struct pass *p, const struct output *out,
                     struct conv_tile *t, const float *from, float *to,
                     int halves, int first, int rows)
{
    const struct conv_view *v = p->view;
    const bool one = are_one(v, out, first, rows);
    const int columns = one ? rows * v->columns : v->columns;
    const int tiles = conv_up(columns, p->isa->most[halves]);
    for (int r = 0; r < (one ? 1 : rows); r++) {
        const float *line = begin_row(v, t, from, first, r);
        float *y = to + (size_t)(first + r) * out->row;
        t->inside = v->lines || one ? NULL : v->inside + t->before;
        for (int i = 0, q = 0, nq; i < tiles; i++, q += nq) {
            nq = (columns - q) / (tiles - i);
            t->column = q;
            t->ahead = ahead(v, nq);
            t->x = line + (size_t)q * v->step;
            t->y = y + (size_t)q * out->step;
            (v->lines ? p->isa->apart : p->isa->tile)[halves][nq](t);
        }
    }
}

/* Those taps that read the tensor from any of so many rows from r on. To the
 * others they bring zeros, which change no sum of finite weights but the sign
 * of a zero. */
static void begin_rows(const struct conv_view *v, struct conv_tile *t, int r,
                       int rows)
{
    int end = 0;
    t->before = v->ntaps;
    for (int i = r; i < r + rows; i++) {
        int from;
        const int n = view_taps(v, i, &from);
        if (!n)
            continue;
        t->before = conv_least(t->before, from);
        end = conv_most(end, from + n);
    }
    t->before = conv_least(t->before, end);
    t->ntaps = end - t->before;
    t->after = v->ntaps - end;
    t->tap = v->at + t->before;
}

/* What wide tiles go through at once: rows of so many images, of `total`
 * positions each. */
struct lines {
    int rows, images, total;
    int columns, pitch; /* see struct conv_tile */
    size_t y_line;
    bool down; /* lines are rows */
};

/* About how long tiles take. */
static int price(int total)
{
    const int groups = conv_up(total, WIDE_POSITIONS);
    return groups * (WIDE_LOADS + conv_up(total, groups));
}

/* Rows of a copy lie behind one another, with what lies beside them: where they
 * are short, tiles that go through all of them as one and leave out what they
 * read beside them are fewer, by a tenth at least, as then few of them can
 * leave out taps that read no row. Those of one tap have nothing beside them.
 */
static struct lines lines_of(const struct pass *p, const struct output *out,
                             int images, int first, int rows)
{
    const struct conv_view *v = p->view;
    const int pitch = (int)(view_row(v, 1) / v->step);
    struct lines l = {.rows = rows,
                      .images = images,
                      .total = v->columns,
                      .columns = v->columns,
                      .pitch = v->columns};
    const int all = (rows - 1) * pitch + v->columns;
    if (are_one(v, out, first, rows)) {
        l.total = l.columns = l.pitch = rows * v->columns;
        l.rows = 1;
        if (p->bands.joined) {
            l.total *= images;
            l.images = 1;
            l.y_line = out->image;
        }
    } else if (price(all) * 10 < rows * price(v->columns) * 9) {
        l.rows = 1;
        l.down = true;
        l.total = all;
        l.pitch = pitch;
        l.y_line = out->row;
    }
    return l;
}

/* All images' rows by wide tiles: groups of positions, in the order row, image,
 * position, so that those of a tile may be of several. */
static void run_wide(const struct pass *p, const struct output *out,
                     struct conv_tile *t, const float *from, float *to, int nk,
                     int images, int first, int rows)
{
    const struct conv_view *v = p->view;
    const struct lines l = lines_of(p, out, images, first, rows);
    const int each = conv_even_parts(l.total, WIDE_POSITIONS);
    const int all = conv_up(l.total, each) * l.images * l.rows;
    const int tiles = conv_up(all, WIDE_GROUPS);
    struct {
        int row, image, position; /* and where this is: */
        int line, column;
    } at = {0};
    t->positions = each;
    t->columns = l.columns;
    t->pitch = l.pitch;
    t->y_line = l.y_line;
    for (int i = 0, done = 0; i < tiles; i++, done += t->groups) {
        struct conv_span read = {rows, 0};
        t->groups = (all - done) / (tiles - i);
        for (int g = 0; g < t->groups; g++) {
            const size_t image = (size_t)at.image;
            const int row = at.row + (l.down ? at.line : 0);
            t->group[g] = (struct conv_group){
                .x = from + image * p->bands.image + view_row(v, at.row)
                     + (size_t)at.position * v->step,
                .y = to + image * out->image
                     + (size_t)(first + at.row) * out->row
                     + (size_t)at.line * l.y_line
                     + (size_t)at.column * out->step,
                .column = at.column,
                .count = conv_least(each, l.total - at.position),
            };
            at.position += each;
            for (at.column += each; at.column >= l.pitch; at.column -= l.pitch)
                at.line++;
            read.from = conv_least(read.from, row);
            read.to = conv_most(
                read.to, at.row + 1 + (l.down ? at.line - !at.column : 0));
            if (at.position < l.total)
                continue;
            at.position = at.line = at.column = 0;
            if (++at.image < l.images)
                continue;
            at.image = 0;
            at.row++;
        }
        read.to = conv_least(read.to, rows);
        begin_rows(v, t, first + read.from, read.to - read.from);
        p->isa->wide->tile(t, nk);
    }
}

/* Of the images' blocks from b0 on what positions read. */
static void copy_band(const struct pass *p, const float *x, int images,
                      int first, int rows, int b0, int nblocks)
{
    const struct conv_view *v = p->view;
    const size_t plane = (size_t)v->h * (size_t)(v->w * view_place(v));
    const int all = conv_blocks(v->channels);
    for (int i = 0; i < images; i++, x += p->x_image)
        for (int b = b0; b < b0 + nblocks; b++)
            view_copy(v, x,
                      v->deep > CONV_BLOCK && !v->spread && 2 * b + 1 < all
                          ? x + plane
                          : NULL,
                      b, first, rows,
                      p->band + (size_t)i * p->bands.image
                          + (size_t)(b - b0) * p->bands.block);
}

static void run_band(const struct pass *p, const float *x,
                     const struct output *out, int images, int first, int rows,
                     int b0, bool pack)
{
    static const float zeros[TILE_BLOCKS * CONV_BLOCK];
    const struct conv_view *v = p->view;
    const int nblocks = conv_least(p->bands.blocks, v->blocks - b0);
    const int last_block = v->blocks == b0 + nblocks;
    const int depth = view_depth(v, v->channels);
    const int rows_of_chunk =
        last_block ? depth - b0 * v->place : nblocks * v->place;
    const int blocks = conv_blocks(out->channels);
    const size_t plane = (size_t)v->h * (size_t)v->w * CONV_BLOCK;
    const float *from = v->copies ? p->band : x + (size_t)b0 * plane;
    const size_t image = v->copies ? p->bands.image : p->x_image;
    if (v->copies && v->ntaps)
        copy_band(p, x, images, first, rows, b0, nblocks);
    for (int kb = out->share.from, nk; kb < out->share.to; kb += nk) {
        nk = conv_tile_blocks(p->isa->most, p->widest, out->share.to - kb);
        const int halves =
            conv_tile_halves(p->isa->most, nk, out->channels - kb * CONV_BLOCK);
        const struct conv_part part = {kb, nk, b0, nblocks};
        float *w = p->packed;
        if (!p->once) /* one after the other, as they are packed */
            w += (size_t)v->ntaps * CONV_BLOCK
                 * (size_t)(b0 * v->place * blocks + kb * rows_of_chunk);
        if (pack)
            conv_pack_part(v, p->order, &part, p->w, w);
        struct conv_tile t = {
            .x_step = v->step,
            .x_block = v->copies ? p->bands.block : plane,
            .nblocks = nblocks,
            .last = last_block ? depth - (v->blocks - 1) * v->place : v->place,
            .w = w,
            .y_block = out->block,
            .y_step = out->step,
            .bias = b0 || out->add ? NULL
                    : out->bias    ? out->bias + kb * CONV_BLOCK
                                   : zeros,
        };
        float *to = out->y + (size_t)kb * out->block;
        t.stream = out->stream && last_block && t.bias;
        t.half = out->half;
        t.relu = last_block && out->relu;
        t.gate = last_block ? out->gate : NULL;
        t.dx = out->dx;
        if (p->isa->wide)
            run_wide(p, out, &t, from, to, nk, images, first, rows);
        for (int i = 0; i < images && !p->isa->wide; i++)
            run_rows(p, out, &t, from + (size_t)i * image,
                     to + (size_t)i * out->image, halves, first, rows);
    }
}

/* All images of a group, or from the last to the first. */
static void run(const struct pass *p, int n, const float *x,
                const struct output *out, bool from_last)
{
    const struct conv_view *v = p->view;
    const struct conv_bands *b = &p->bands;
    const int at_once = n ? conv_even_parts(n, b->images) : 0;
    for (int done = 0, images; done < n; done += images) {
        images = conv_least(at_once, n - done);
        const size_t at = (size_t)(from_last ? n - done - images : done);
        struct output to = *out;
        to.y += at * out->image;
        to.stream = out->stream && (uintptr_t)out->y % CACHE_LINE == 0;
        for (int first = 0; first < v->rows; first += b->rows)
            for (int b0 = 0; b0 < v->blocks; b0 += b->blocks)
                run_band(p, x + at * p->x_image, &to, images, first,
                         conv_least(b->rows, v->rows - first), b0,
                         done == 0 && first == 0);
    }
    if (p->isa->wide)
        p->isa->wide->end();
}

/* Lines of plain images want positions as far apart as the stride says. */
static void begin_forward(const struct conv_isa *isa, struct conv_view *v,
                          const struct conv *c)
{
    (isa->wide ? view_spread : view_forward)(v, c);
}

static void pair_channels(const struct conv_isa *isa, struct conv_view *v)
{
    view_pair_channels(v, isa->round, isa->wide ? WIDE_CHANNELS : CONV_BLOCK);
}

/* Where there is one tap, and all is read where it lies, rows are one. What is
 * rounded is copied. */
static void finish(const struct conv_isa *isa, struct conv_view *v,
                   struct output *out)
{
    if (isa->round) {
        pair_channels(isa, v);
        return;
    }
    if (v->copies || v->ntaps != 1 || v->columns != v->w || v->stride_h != 1
        || v->row0 || v->rows != v->h
        || out->row != out->step * (size_t)v->columns)
        return;
    v->columns = v->w = v->inside[0].to = v->rows * v->columns;
    v->rows = v->h = 1;
    v->row = (size_t)v->w * CONV_BLOCK;
}

static struct output output_of(const struct conv *c, int channels, int h, int w,
                               bool half)
{
    const size_t step = half ? CONV_BLOCK / 2 : CONV_BLOCK;
    const size_t block = (size_t)h * (size_t)w * step;
    const size_t image = (size_t)conv_blocks(channels * c->groups) * block;
    return (struct output){
        .stream = (size_t)c->n * image > STREAM,
        .share = conv_share(c, conv_blocks(channels)),
        .image = image,
        .block = block,
        .row = (size_t)w * step,
        .step = step,
        .channels = channels,
        .half = half,
    };
}

static size_t pass_floats(const struct conv_isa *isa, struct conv_view *v,
                          int n, int outputs, bool half)
{
    if (isa->round)
        pair_channels(isa, v);
    const struct conv_bands b = bands_of(isa, v, n, half);
    /* What the last group of a row reads behind it. */
    const size_t beyond = isa->wide ? WIDE_POSITIONS * CONV_BLOCK : 0;
    return conv_packed(v, outputs) + conv_band_floats(&b) + beyond;
}

void direct_forward(const struct conv_isa *isa, const struct conv *c,
                    const float *x, const float *w, const float *bias, float *y,
                    float *scratch)
{
    const int in = c->c / c->groups, k = c->k / c->groups;
    struct conv_view v;
    struct output out = output_of(c, k, c->out_h, c->out_w, c->half_y);
    const size_t taps = (size_t)c->kernel_h * (size_t)c->kernel_w;
    const struct conv_weights s = {k, (size_t)in * taps, taps, c->kernel_w};
    begin_forward(isa, &v, c);
    out.relu = c->relu;
    v.half = c->half_x;
    finish(isa, &v, &out);
    float *padded = scratch + conv_packed(&v, k);
    struct pass p = pass_of(isa, &v, &s, c->n, c->half_y);
    p.packed = scratch;
    p.x_image = c->plain ? (size_t)c->c * (size_t)c->h * (size_t)c->w
                         : conv_blocked(1, c->c, c->h, c->w) >> c->half_x;
    p.band = padded + conv_blocks(k) * CONV_BLOCK;
    for (int g = 0; g < c->groups; g++) {
        p.w = w + (size_t)(g * k) * s.output;
        memset(padded, 0, sizeof(float) * CONV_BLOCK * (size_t)conv_blocks(k));
        if (bias)
            memcpy(padded, bias + (size_t)(g * k), sizeof(float) * (size_t)k);
        out.bias = padded;
        out.y = y + (size_t)(g * k / CONV_BLOCK) * out.block;
        run(&p, c->n,
            x + ((size_t)(g * in) * (size_t)c->h * (size_t)c->w >> c->half_x),
            &out, false);
    }
}

/* Positions of dx that are alike, all images and groups. From the last image
 * on: the gradient of the weights has just read dy, and what reads dx begins
 * with the first. */
static void backward_alike(const struct conv_isa *isa, const struct conv *c,
                           const float *dy, const float *w, float *dx,
                           float *scratch, int rest_h, int rest_w)
{
    const int in = c->c / c->groups, k = c->k / c->groups;
    const size_t taps = (size_t)c->kernel_h * (size_t)c->kernel_w;
    const struct conv_weights s = {in, taps, (size_t)in * taps, c->kernel_w};
    struct conv_view v;
    struct output out = output_of(c, in, c->h, c->w, c->half_x);
    view_backward(&v, c, rest_h, rest_w);
    if (v.rows == 0 || v.columns == 0 || v.ntaps == 0)
        return;
    const int row =
        (rest_h - c->pad_h % c->stride_h + c->stride_h) % c->stride_h;
    const int column =
        (rest_w - c->pad_w % c->stride_w + c->stride_w) % c->stride_w;
    const size_t start = (size_t)row * out.row + (size_t)column * out.step;
    out.add = c->add;
    out.gate = c->gate;
    out.dx = dx;
    out.row *= (size_t)c->stride_h;
    out.step *= (size_t)c->stride_w;
    v.half = c->half_y;
    finish(isa, &v, &out);
    struct pass p = pass_of(isa, &v, &s, c->n, c->half_x);
    p.packed = scratch;
    p.x_image = conv_blocked(1, c->k, c->out_h, c->out_w) >> c->half_y;
    p.band = scratch + conv_packed(&v, in);
    for (int g = 0; g < c->groups; g++) {
        p.w = w + (size_t)(g * k) * s.input;
        out.y = dx + start + (size_t)(g * in / CONV_BLOCK) * out.block;
        run(&p, c->n,
            dy
                + ((size_t)(g * k) * (size_t)c->out_h * (size_t)c->out_w
                   >> c->half_y),
            &out, true);
    }
}

void direct_backward_data(const struct conv_isa *isa, const struct conv *c,
                          const float *dy, const float *w, float *dx,
                          float *scratch)
{
    if (!c->add && !conv_reaches_all(c))
        conv_clear(c, dx);
    for (int rest_h = 0; rest_h < c->stride_h; rest_h++)
        for (int rest_w = 0; rest_w < c->stride_w; rest_w++)
            backward_alike(isa, c, dy, w, dx, scratch, rest_h, rest_w);
}

size_t direct_scratch(const struct conv_isa *isa, const struct conv *c,
                      enum conv_pass pass)
{
    const int in = c->c / c->groups, k = c->k / c->groups;
    struct conv_view v;
    size_t most = 0;
    if (pass == CONV_BACKWARD_WEIGHTS)
        return isa->wide ? wide_scratch_of_weights(c)
                         : direct_scratch_of_weights(isa, c);
    if (pass == CONV_FORWARD) {
        begin_forward(isa, &v, c);
        return pass_floats(isa, &v, c->n, k, c->half_y)
               + (size_t)conv_blocks(k) * CONV_BLOCK;
    }
    for (int h = 0; h < c->stride_h; h++)
        for (int w = 0; w < c->stride_w; w++) {
            view_backward(&v, c, h, w);
            if (v.rows == 0 || v.columns == 0)
                continue;
            const size_t floats = pass_floats(isa, &v, c->n, in, c->half_x);
            most = floats > most ? floats : most;
        }
    return most;
}

/* --- with floats ----------------------------------------------------------
 */

static size_t scratch_of(const struct conv *c, enum conv_pass pass)
{
    return direct_scratch(conv_isa(), c, pass);
}

static void forward(const struct conv *c, const float *x, const float *w,
                    const float *bias, float *y, float *scratch)
{
    direct_forward(conv_isa(), c, x, w, bias, y, scratch);
}

static void backward_data(const struct conv *c, const float *dy, const float *w,
                          float *dx, float *scratch)
{
    direct_backward_data(conv_isa(), c, dy, w, dx, scratch);
}

static void backward_weights(const struct conv *c, const float *x,
                             const float *dy, float *dw, float *scratch)
{
    direct_backward_weights(conv_isa(), c, x, dy, dw, scratch);
}

const struct conv_method conv_direct = {
    .name = "direct",
    .adds = true,
    .shares = true,
    .relus = true,
    .gates = conv_reaches_all,
    .cannot = cannot,
    .scratch = scratch_of,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
};
