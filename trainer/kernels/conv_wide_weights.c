/* SPDX-License-Identifier: MIT */
/* The gradient of the weights with wide sums, of copies that conv_wide_copy.c
 * makes. Order of work: images, bands of rows, chunks of input blocks, chunks
 * of outputs, tiles, taps. */
#include <string.h>

#include "kernels/conv_bands.h"
#include "kernels/conv_direct.h"
#include "kernels/conv_pack.h"
#include "kernels/conv_wide_copy.h"

struct sums {
    struct wide_band band;
    bool add;  /* to the sums of an earlier one */
    float *dw; /* [block of outputs][of inputs][tap][16 outputs][16 inputs] */
};

/* Two blocks of inputs from b on, of a chunk from b0 on, and nk of outputs. */
static void sum_taps(const struct sums *s, const float *x, int b,
                     const float *dy, int kb, int nk)
{
    const struct conv_view *v = s->band.view;
    const struct wide_runs *r = &s->band.runs;
    const int positions = wide_dy_length(&s->band);
    const size_t taps = (size_t)v->ntaps * WIDE_SQUARE;
    struct conv_wide_sum sum = {
        .dy = dy,
        .dy_image = wide_floats(positions),
        .dy_block = r->dy_block,
        .x_image = wide_floats(wide_x_length(&s->band)),
        .x_block = r->x_block,
        .images = r->joined ? 1 : s->band.images,
        .steps = conv_up(positions, WIDE_STEP),
        .nk = nk,
        .nc = conv_least(WIDE_AT_ONCE, v->blocks - b),
        .add = s->add,
        .dw = s->dw + (size_t)(kb * v->blocks + b) * taps,
        .dw_output = (size_t)v->blocks * taps,
        .dw_input = taps,
    };
    for (int t = 0; t < v->ntaps; t++, sum.dw += WIDE_SQUARE) {
        sum.x = x + wide_tap_at(&s->band, t);
        s->band.isa->wide->sum(&sum);
    }
}

static void sum_chunks(const struct sums *s, struct conv_span inputs,
                       struct conv_span outputs)
{
    const struct wide_band *band = &s->band;
    for (int kb = outputs.from, nk; kb < outputs.to; kb += nk) {
        const float *dy =
            band->dy_copy + (size_t)(kb - outputs.from) * band->runs.dy_block;
        nk = conv_least(WIDE_AT_ONCE, outputs.to - kb);
        for (int b = inputs.from; b < inputs.to; b += WIDE_AT_ONCE)
            sum_taps(s,
                     band->x_copy
                         + (size_t)(b - inputs.from) * band->runs.x_block,
                     b, dy, kb, nk);
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

/* --- where they belong ----------------------------------------------------
 */

/* Of an output and 16 inputs: taps from t on, which lie side by side there. */
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
    for (int i = 0; i < inputs; i++)
        for (int j = 0; j < n; j++)
            dw[i * taps + t + j] += turned[i][j];
}

/* The same where the input was spread out. */
static void unpack_spread(const struct sums *s, const struct conv_weights *w,
                          const float *from, int b, int inputs, float *dw)
{
    const struct conv_view *v = s->band.view;
    for (int t = 0; t < v->ntaps; t++, from += WIDE_SQUARE)
        for (int i = 0; i < inputs; i++)
            dw[conv_weight_at(v, w, b * CONV_BLOCK + i, t)] += from[i];
}

static void unpack(const struct sums *s, const struct conv_weights *w,
                   struct conv_span share, float *dw)
{
    const struct conv_view *v = s->band.view;
    const int taps = v->ntaps, outputs = w->outputs;
    const float *from =
        s->dw + (size_t)(share.from * v->blocks * taps) * WIDE_SQUARE;
    for (int kb = share.from; kb < share.to; kb++)
        for (int b = 0; b < v->blocks; b++, from += taps * WIDE_SQUARE) {
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

static size_t dw_floats(const struct conv_view *v, int outputs)
{
    return (size_t)(conv_blocks(outputs) * v->blocks) * (size_t)v->ntaps
           * WIDE_SQUARE;
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
    v.half = c->half_x;
    struct sums s = {
        .dw = scratch,
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
    wide_place(band, scratch + dw_floats(&v, k));
    const int rows = band->runs.rows;
    const int at_once = c->n ? conv_even_parts(c->n, band->runs.images) : 1;
    for (int g = 0; g < c->groups && c->n; g++) {
        s.add = false;
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
    const struct wide_runs r = wide_runs_of(&v, k);
    return dw_floats(&v, k) + wide_scratch(&r);
}
