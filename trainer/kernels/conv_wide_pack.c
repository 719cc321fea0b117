/* SPDX-License-Identifier: MIT */
/* Weights for wide tiles: [tile][block of 32 channels][tap][pair][nk][16], of
 * bf16. 16 outputs and two channels are rounded to pairs in the order in which
 * their taps lie in memory, and then turned. */
#include <string.h>

#include "kernels/conv_pack.h"

enum { AHEAD = 8 }; /* channels that are asked for before they are packed */

struct wide {
    const struct conv_view *view;
    const struct conv_weights *w;
    const struct conv_turn *turn;
    int elements; /* of an output and a channel, which lie side by side, */
    int place[CONV_TAPS]; /* and the tap that each is; -1: none */
    const float *end;     /* of the weights */
    size_t row, tap;      /* floats of a pair's row, and of a tap */
};

/* What is packed soon: rows of the weights lie far apart, whichever way. */
static void ask_for_pair(const struct wide *p, const float *a)
{
    const size_t output = p->w->output, input = p->w->input;
    if (output > input) {
        for (size_t i = 0; i < CONV_BLOCK; i++)
            __builtin_prefetch(a + AHEAD * input + i * output);
        return;
    }
    for (size_t i = 0; i < CONV_BLOCK * output; i += CONV_BLOCK) {
        __builtin_prefetch(a + 2 * input + i);
        __builtin_prefetch(a + 3 * input + i);
    }
}

/* 16 outputs from `a` on, and of n of them that there are so many elements
 * each. */
static void pair_outputs(const struct wide *p, const float *a, bool both, int n,
                         int elements, float pairs[][CONV_BLOCK])
{
    const size_t output = p->w->output, input = p->w->input;
    const float *last = a + (size_t)(n - 1) * output + input;
    if (both && n == CONV_BLOCK && last + CONV_BLOCK <= p->end) {
        p->view->round->square(a, a + input, output, pairs[0]);
        return;
    }
    float x[2][CONV_BLOCK][CONV_BLOCK] = {0};
    for (int i = 0; i < n; i++, a += output)
        for (int e = 0; e < elements; e++) {
            x[0][i][e] = a[e];
            x[1][i][e] = both ? a[input + (size_t)e] : 0;
        }
    p->view->round->square(x[0][0], x[1][0], CONV_BLOCK, pairs[0]);
}

/* Two channels of 16 outputs, of which there are n. */
static void pack_pair(const struct wide *p, const float *weights, bool both,
                      int n, float *to)
{
    float pairs[CONV_BLOCK][CONV_BLOCK];
    const float *from[CONV_BLOCK];
    float *rows[CONV_BLOCK];
    for (int i = 0; i < CONV_BLOCK; i++)
        from[i] = pairs[i];
    ask_for_pair(p, weights);
    for (int e = 0; e < p->elements; e += CONV_BLOCK) {
        const int elements = conv_least(CONV_BLOCK, p->elements - e);
        pair_outputs(p, weights + e, both, n, elements, pairs);
        for (int i = 0; i < CONV_BLOCK; i++)
            rows[i] = i < elements && p->place[e + i] >= 0
                          ? to + (size_t)p->place[e + i] * p->tap
                          : NULL;
        p->turn->turn(from, rows, false);
    }
}

/* One tap, whose channels lie side by side: 32 of 16 outputs. */
static void pack_channels(const struct wide *p, const float *weights, float *to)
{
    float pairs[CONV_BLOCK][CONV_BLOCK];
    const float *from[CONV_BLOCK];
    float *rows[CONV_BLOCK];
    for (int i = 0; i < CONV_BLOCK; i++, weights += p->w->output) {
        p->view->round->row(weights, pairs[i], WIDE_CHANNELS);
        from[i] = pairs[i];
        rows[i] = to + (size_t)i * p->row;
    }
    p->turn->turn(from, rows, false);
}

/* Of an input that is spread out, whose weights are few. */
static void pack_spread(const struct wide *p, int output, int channel,
                        const float *from, float *to)
{
    const struct conv_view *v = p->view;
    const int n = conv_least(CONV_BLOCK, p->w->outputs - output);
    for (int c = 0; c < WIDE_CHANNELS; c += 2, to += p->row)
        for (int t = 0; t < v->ntaps; t++) {
            float of[2][CONV_BLOCK] = {0};
            for (int i = 0; i < 2 && channel + c + i < v->channels; i++) {
                const float *at =
                    from + conv_weight_at(v, p->w, channel + c + i, t);
                for (int k = 0; k < n; k++)
                    of[i][k] = at[(size_t)(output + k) * p->w->output];
            }
            v->round->pairs(of[0], of[1], to + (size_t)t * p->tap, CONV_BLOCK);
        }
}

/* One block of both. */
static void pack_block(const struct wide *p, int output, int channel,
                       const float *from, float *to)
{
    const struct conv_view *v = p->view;
    const struct conv_weights *w = p->w;
    const int n = conv_least(CONV_BLOCK, w->outputs - output);
    const int nc = conv_least(WIDE_CHANNELS, v->channels - channel);
    if (v->spread) {
        pack_spread(p, output, channel, from, to);
        return;
    }
    from += (size_t)output * w->output + (size_t)channel * w->input;
    if (w->input == 1 && n == CONV_BLOCK && nc == WIDE_CHANNELS) {
        pack_channels(p, from, to);
        return;
    }
    for (int c = 0; c < WIDE_CHANNELS; c += 2, to += p->row) {
        const float *at = from + (size_t)c * w->input;
        if (c >= nc)
            for (int t = 0; t < v->ntaps; t++)
                memset(to + (size_t)t * p->tap, 0, CONV_BLOCK * sizeof(float));
        else if (w->output == 1 && n == CONV_BLOCK)
            v->round->pairs(at, c + 1 < nc ? at + w->input : NULL, to,
                            CONV_BLOCK);
        else
            pack_pair(p, at, c + 1 < nc, n, to);
    }
}

void conv_pack_wide(const struct conv_view *v, const struct conv_weights *w,
                    const struct conv_part *part, const float *from, float *to)
{
    struct wide p = {
        .view = v,
        .w = w,
        .turn = conv_isa()->turn,
        .elements = (int)(w->output < w->input ? w->output : w->input),
        .row = (size_t)(part->outputs * CONV_BLOCK),
        .tap = (size_t)(part->outputs * CONV_BLOCK * WIDE_CHANNELS / 2),
    };
    const size_t a = (size_t)w->outputs * w->output;
    const size_t b = (size_t)v->channels * w->input;
    p.end = from + (a > b ? a : b);
    for (int e = 0; e < p.elements; e++)
        p.place[e] = -1;
    for (int t = 0; t < v->ntaps && !v->spread; t++)
        p.place[v->tap[t].i * w->kernel_w + v->tap[t].j] = t;
    for (int i = part->block; i < part->block + part->blocks; i++) {
        for (int k = 0; k < part->outputs; k++)
            pack_block(&p, (part->output + k) * CONV_BLOCK, i * WIDE_CHANNELS,
                       from, to + k * CONV_BLOCK);
        to += (size_t)v->ntaps * p.tap;
    }
}
