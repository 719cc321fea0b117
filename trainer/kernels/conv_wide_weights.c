/* SPDX-License-Identifier: MIT */
/* The gradient of the weights with wide sums, of copies that conv_wide_copy.c
 * makes. Order of work: images, bands of rows, chunks of input blocks, chunks
 * of outputs, two blocks of these, sheets. What the last band completes goes
 * where it belongs at once, while it is in a cache. */
#include <string.h>

#include "kernels/conv_bands.h"
#include "kernels/conv_direct.h"
#include "kernels/conv_pack.h"
#include "kernels/conv_wide_copy.h"

struct sums {
    struct wide_band band;
    struct conv_weights order;
    float *dw;  /* of the group, where it belongs */
    bool fresh; /* that is written, not added to */
    bool one_band;
    bool add;  /* to the sums of an earlier one */
    bool last; /* of the group's */
    float *sums;
};

/* The sums of two blocks of outputs and some of inputs: [block of outputs][of
 * inputs][tap][16 outputs][16 inputs]. */
struct part {
    int output, outputs, input, inputs;
    float *sums;
    size_t next; /* floats to the next block of outputs */
};

/* All have places of their own, where more is to come. */
static struct part part_of(const struct sums *s, int output, int outputs,
                           struct conv_span inputs)
{
    const struct conv_view *v = s->band.view;
    const size_t block = (size_t)v->ntaps * WIDE_SQUARE;
    const int n = inputs.to - inputs.from;
    struct part q = {output, outputs, inputs.from,
                     n,      s->sums, (size_t)n * block};
    if (s->one_band)
        return q;
    q.next = (size_t)v->blocks * block;
    q.sums += (size_t)output * q.next + (size_t)inputs.from * block;
    return q;
}

/* --- where they belong ----------------------------------------------------
 */

static void put_run(const struct sums *s, const float *from, int n, float *to)
{
    for (int i = 0; i < n; i++)
        to[i] = s->fresh ? from[i] : to[i] + from[i];
}

/* Of an output and 16 inputs: taps from t on, which lie side by side there.
 * Where all fit a row, whole rows are written as long as there is room: what
 * comes behind an input's taps the next one overwrites. */
static void unpack_taps(const struct sums *s, const float *from, int t, int n,
                        int inputs, float *dw)
{
    static const float none[CONV_BLOCK];
    const int taps = s->band.view->ntaps;
    float turned[CONV_BLOCK][CONV_BLOCK];
    const float *rows[CONV_BLOCK];
    float *to[CONV_BLOCK];
    for (int i = 0; i < CONV_BLOCK; i++) {
        rows[i] = i < n ? from + (t + i) * WIDE_SQUARE : none;
        to[i] = turned[i];
    }
    s->band.isa->turn->turn(rows, to, false);
    int i = 0;
    for (; s->fresh && n == taps && (inputs - i) * taps >= CONV_BLOCK; i++)
        memcpy(dw + i * taps, turned[i], sizeof(turned[i]));
    for (; i < inputs; i++)
        put_run(s, turned[i], n, dw + i * taps + t);
}

/* The same where the input was spread out. */
static void unpack_spread(const struct sums *s, const float *from, int b,
                          int inputs, float *dw)
{
    const struct conv_view *v = s->band.view;
    for (int t = 0; t < v->ntaps; t++, from += WIDE_SQUARE)
        for (int i = 0; i < inputs; i++)
            put_run(s, from + i, 1,
                    dw + conv_weight_at(v, &s->order, b * CONV_BLOCK + i, t));
}

/* Of an output; to: what it has of input block b. */
static void unpack_block(const struct sums *s, const float *from, int b,
                         float *output)
{
    const struct conv_view *v = s->band.view;
    const int taps = v->ntaps, channel = b * CONV_BLOCK;
    const int inputs = conv_least(CONV_BLOCK, v->channels - channel);
    if (v->spread) {
        unpack_spread(s, from, b, inputs, output);
        return;
    }
    float *to = output + (size_t)channel * s->order.input;
    if (taps == 1)
        put_run(s, from, inputs, to);
    for (int t = 0; t < taps && taps > 1; t += CONV_BLOCK)
        unpack_taps(s, from, t, conv_least(CONV_BLOCK, taps - t), inputs, to);
}

/* What is written next, of an output: far from what has been. */
static void ask_for_output(const struct sums *s, const struct part *q,
                           const float *output)
{
    const size_t block = CONV_BLOCK * s->order.input;
    const float *from = output + (size_t)q->input * block;
    for (size_t i = 0; i < (size_t)q->inputs * block; i += CONV_BLOCK)
        __builtin_prefetch(from + i, 1);
}

static void unpack(const struct sums *s, const struct part *q)
{
    const size_t block = (size_t)s->band.view->ntaps * WIDE_SQUARE;
    const int first = q->output * CONV_BLOCK;
    const int n = conv_least(s->order.outputs - first, q->outputs * CONV_BLOCK);
    for (int k = 0; k < n; k++) {
        const float *from = q->sums + (size_t)(k / CONV_BLOCK) * q->next
                            + k % CONV_BLOCK * CONV_BLOCK;
        float *to = s->dw + (size_t)(first + k) * s->order.output;
        if (k + 1 < n)
            ask_for_output(s, q, to + s->order.output);
        for (int b = 0; b < q->inputs; b++, from += block)
            unpack_block(s, from, q->input + b, to);
    }
}

/* --- sums -----------------------------------------------------------------
 */

/* Sheets, each a tap of a block, in the order block, column of the kernel, row
 * of it: rows of a column read the same lines, one soon after the other. */
static void sum_sheets(const struct sums *s, const struct part *q,
                       const float *dy)
{
    const struct conv_view *v = s->band.view;
    const struct wide_runs *r = &s->band.runs;
    const int positions = wide_dy_length(&s->band), taps = v->ntaps;
    const int across = v->tap[taps - 1].j + 1, high = taps / across;
    const int all = q->inputs * taps, parts = conv_up(all, WIDE_SHEETS);
    struct conv_wide_sum sum = {
        .dy = dy,
        .dy_image = wide_floats(positions),
        .dy_block = r->dy_block,
        .x_image = wide_floats(wide_x_length(&s->band)),
        .images = r->joined ? 1 : s->band.images,
        .steps = conv_up(positions, WIDE_STEP),
        .nk = q->outputs,
        .add = s->add,
        .dw_output = q->next,
    };
    for (int i = 0, done = 0; i < parts; i++, done += sum.nx) {
        sum.nx = (all - done) / (parts - i);
        for (int g = 0; g < sum.nx; g++) {
            const int b = (done + g) / taps, n = (done + g) % taps;
            const int t = n % high * across + n / high;
            sum.x[g] = s->band.x_copy + (size_t)b * r->x_block
                       + wide_tap_at(&s->band, t);
            sum.dw[g] = q->sums + (size_t)(b * taps + t) * WIDE_SQUARE;
        }
        s->band.isa->wide->sum(&sum);
    }
}

static void sum_chunks(const struct sums *s, struct conv_span inputs,
                       struct conv_span outputs)
{
    const struct wide_band *band = &s->band;
    for (int kb = outputs.from, nk; kb < outputs.to; kb += nk) {
        nk = conv_least(WIDE_AT_ONCE, outputs.to - kb);
        const struct part q = part_of(s, kb, nk, inputs);
        sum_sheets(s, &q,
                   band->dy_copy
                       + (size_t)(kb - outputs.from) * band->runs.dy_block);
        if (s->last)
            unpack(s, &q);
    }
}

static void sum_band(const struct sums *s, struct conv_span share)
{
    const int blocks = s->band.view->blocks;
    const struct wide_runs *r = &s->band.runs;
    for (int b = 0; b < blocks; b += r->x_blocks) {
        const struct conv_span in = {b, conv_least(blocks, b + r->x_blocks)};
        wide_copy_x(&s->band, in.from, in.to - in.from);
        for (int k = share.from; k < share.to; k += r->dy_blocks) {
            const struct conv_span out = {
                k, conv_least(share.to, k + r->dy_blocks)};
            if (b == 0 || share.to - share.from > r->dy_blocks)
                wide_copy_dy(&s->band, out.from, out.to - out.from);
            sum_chunks(s, in, out);
        }
    }
}

static size_t sums_floats(const struct conv_view *v, int outputs)
{
    return (size_t)(conv_blocks(outputs) * v->blocks) * (size_t)v->ntaps
           * WIDE_SQUARE;
}

/* The gradient of no image. */
static void clear_share(const struct sums *s, int groups,
                        struct conv_span share, float *dw)
{
    const int outputs = s->order.outputs, from = share.from * CONV_BLOCK;
    const int to = conv_least(share.to * CONV_BLOCK, outputs);
    for (int g = 0; g < groups && from < to; g++)
        memset(dw + (size_t)(g * outputs + from) * s->order.output, 0,
               (size_t)(to - from) * s->order.output * sizeof(float));
}

void wide_backward_weights(const struct conv_isa *isa, const struct conv *c,
                           const float *x, const float *dy, float *dw,
                           float *scratch)
{
    const int in = c->c / c->groups, k = c->k / c->groups;
    const size_t taps = (size_t)c->kernel_h * (size_t)c->kernel_w;
    const struct conv_span share = conv_share(c, conv_blocks(k));
    struct conv_view v;
    view_spread(&v, c);
    v.half = c->half_x;
    struct sums s = {
        .order = {k,                (size_t)in * taps, taps, c->kernel_w  },
        .fresh = c->fresh,
        .sums = scratch,
        .band =
            {
                  .isa = isa,
                  .view = &v,
                  .runs = wide_runs_of(&v, k),
                  .x_image = c->plain
                               ? (size_t)c->c * (size_t)c->h * (size_t)c->w
                               : conv_blocked(1, c->c, c->h, c->w) >> c->half_x,
                  .dy_image =
                    conv_blocked(1, c->k, c->out_h, c->out_w) >> c->half_y,
                  .half = c->half_y,
                  },
    };
    struct wide_band *band = &s.band;
    wide_place(band, scratch + sums_floats(&v, k));
    const int rows = band->runs.rows;
    const int at_once = c->n ? conv_even_parts(c->n, band->runs.images) : 1;
    s.one_band = rows >= v.rows && at_once >= c->n;
    if (!c->n && c->fresh)
        clear_share(&s, c->groups, share, dw);
    for (int g = 0; g < c->groups && c->n; g++) {
        s.add = false;
        s.dw = dw + (size_t)(g * k) * s.order.output;
        for (int i = 0; i < c->n; i += at_once) {
            band->images = conv_least(at_once, c->n - i);
            band->x =
                x + (size_t)i * band->x_image
                + ((size_t)(g * in) * (size_t)c->h * (size_t)c->w >> c->half_x);
            band->dy = dy + (size_t)i * band->dy_image
                       + ((size_t)(g * k) * (size_t)c->out_h * (size_t)c->out_w
                          >> c->half_y);
            for (band->first = 0; band->first < v.rows; band->first += rows) {
                band->rows = conv_least(rows, v.rows - band->first);
                s.last = i + band->images >= c->n
                         && band->first + band->rows >= v.rows;
                sum_band(&s, share);
                s.add = true;
            }
        }
    }
    isa->wide->end();
}

size_t wide_scratch_of_weights(const struct conv *c)
{
    const int k = c->k / c->groups;
    struct conv_view v;
    view_spread(&v, c);
    const struct wide_runs r = wide_runs_of(&v, k);
    return sums_floats(&v, k) + wide_scratch(&r);
}
