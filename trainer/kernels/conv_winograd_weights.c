/* SPDX-License-Identifier: MIT */
/* U: kernels to places, and their gradients back. */
#include "kernels/conv_winograd.h"

/* Calls the transform of each 16 weights of a packed part, or of their
 * gradient. at: where a kernel's elements are, by their row and column. */
static void each_weight(const struct winograd_tiles *t,
                        const struct conv_view *v, int nk, float *packed,
                        float *u, size_t next, bool back)
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

void winograd_weights(const struct winograd_tiles *t, const struct conv_view *v,
                      const struct conv_weights *order,
                      const struct winograd_chunk *k, float *w, float *packed,
                      float *u, bool back)
{
    const int end = k->first + k->blocks;
    for (int kb = k->first, nk; kb < end; kb += nk) {
        nk = conv_tile_blocks(k->most, k->widest, end - kb);
        const struct conv_part part = {kb, nk, 0, v->blocks};
        if (!back)
            conv_pack_part(v, order, &part, w, packed);
        each_weight(t, v, nk, packed, u, winograd_place_floats(v, k->blocks),
                    back);
        if (back)
            conv_unpack_part(v, order, &part, packed, w);
        u += nk * CONV_BLOCK * v->channels;
    }
}

struct winograd_chunk winograd_chunk_of(const struct winograd_tiles *t,
                                        const int *most, int widest)
{
    const int blocks = t->share.to - t->share.from;
    return (struct winograd_chunk){
        .first = t->share.from,
        .end = t->share.to,
        .blocks =
            t->at_once < t->all ? blocks : conv_least(blocks, WINOGRAD_CHUNK),
        .widest = widest,
        .most = most,
    };
}

bool winograd_next_chunk(struct winograd_chunk *k)
{
    k->first += k->blocks;
    k->blocks = conv_least(k->blocks, k->end - k->first);
    return k->blocks > 0;
}
