/* SPDX-License-Identifier: MIT */
#include "kernels/conv_pack.h"

int conv_tile_blocks(const int *most, int widest, int left)
{
    int nk = conv_least(widest, left);
    while (!most[nk])
        nk--;
    return nk;
}

int conv_widest(const int *most)
{
    return conv_tile_blocks(most, TILE_BLOCKS, TILE_BLOCKS);
}

int conv_widest_for(int columns)
{
    const int *most = conv_isa()->most;
    int best = 1, best_used = 0;
    for (int nk = 1; nk <= TILE_BLOCKS; nk++) {
        if (!most[nk])
            continue;
        const int tiles = (columns + most[nk] - 1) / most[nk];
        const int used = nk * ((columns + tiles - 1) / tiles);
        if (used >= best_used) {
            best = nk;
            best_used = used;
        }
    }
    return best;
}

size_t conv_packed(const struct conv_view *v, int outputs)
{
    return (size_t)conv_blocks(outputs) * CONV_BLOCK * (size_t)v->channels
           * (size_t)v->ntaps;
}

static size_t index_of(const struct conv_view *v, const struct conv_weights *w,
                       int output, int input, int t)
{
    const int channel = v->spread ? input / w->kernel_w : input;
    const int j = v->spread ? input % w->kernel_w : v->tap[t].j;
    return (size_t)output * w->output + (size_t)channel * w->input
           + (size_t)(v->tap[t].i * w->kernel_w + j);
}

/* 16 outputs of a tile and a block of inputs, which are so many lanes of each
 * row of `packed`; back: adds these to the weights. 16 outputs are few enough
 * for the first cache, whose sets rows of weights like to share. */
static void move_lanes(const struct conv_view *v, const struct conv_weights *w,
                       int output, int first, int nc, int lanes, float *weights,
                       float *packed, bool back)
{
    const int n = conv_least(CONV_BLOCK, w->outputs - output);
    for (int c = 0; c < nc; c++)
        for (int t = 0; t < v->ntaps; t++) {
            float *at = weights + index_of(v, w, output, first + c, t);
            float *row = packed + (t * nc + c) * lanes;
            for (int i = 0; i < n && back; i++)
                at[(size_t)i * w->output] += row[i];
            for (int i = 0; i < CONV_BLOCK && !back; i++)
                row[i] = i < n ? at[(size_t)i * w->output] : 0;
        }
}

static void move_all(const struct conv_view *v, const struct conv_weights *w,
                     const int *most, int widest, float *weights, float *packed,
                     bool back)
{
    const int blocks = conv_blocks(w->outputs);
    for (int kb = 0, nk; kb < blocks; kb += nk) {
        nk = conv_tile_blocks(most, widest, blocks - kb);
        const int lanes = nk * CONV_BLOCK;
        for (int c = 0; c < v->channels; c += CONV_BLOCK) {
            const int nc = conv_least(CONV_BLOCK, v->channels - c);
            for (int lane = 0; lane < lanes; lane += CONV_BLOCK)
                move_lanes(v, w, kb * CONV_BLOCK + lane, c, nc, lanes, weights,
                           packed + lane, back);
            packed += v->ntaps * nc * lanes;
        }
    }
}

void conv_pack(const struct conv_view *v, const struct conv_weights *w,
               const int *most, int widest, const float *from, float *to)
{
    move_all(v, w, most, widest, (float *)(uintptr_t)from, to, false);
}

void conv_unpack(const struct conv_view *v, const struct conv_weights *w,
                 const int *most, int widest, const float *from, float *to)
{
    move_all(v, w, most, widest, to, (float *)(uintptr_t)from, true);
}
