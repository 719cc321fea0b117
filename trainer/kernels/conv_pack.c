/* SPDX-License-Identifier: MIT */
#include "kernels/conv_pack.h"

#include <string.h>

int conv_tile_blocks(const int *most, int widest, int left)
{
    int nk = conv_least(widest, left);
    while (!most[2 * nk])
        nk--;
    return nk;
}

int conv_tile_halves(const int *most, int nk, int outputs)
{
    const int halves = conv_up(outputs, CONV_BLOCK / 2);
    return halves < 2 * nk && most[halves] ? halves : 2 * nk;
}

int conv_widest(const int *most)
{
    return conv_tile_blocks(most, TILE_BLOCKS, TILE_BLOCKS);
}

int conv_widest_for(const int *most, int columns, int enough)
{
    int best = 1, best_used = 0;
    for (int nk = 1; nk <= TILE_BLOCKS; nk++) {
        if (!most[2 * nk])
            continue;
        const int tiles = conv_up(columns, most[2 * nk]);
        const int used = nk * conv_up(columns, tiles);
        if (used > best_used || (used == best_used && nk <= enough)) {
            best = nk;
            best_used = used;
        }
    }
    return best;
}

struct conv_span conv_share(const struct conv *c, int blocks)
{
    if (!c->shares)
        return (struct conv_span){0, blocks};
    return (struct conv_span){blocks * c->share / c->shares,
                              blocks * (c->share + 1) / c->shares};
}

void conv_clear(const struct conv *c, float *dx)
{
    const int blocks = conv_blocks(c->c / c->groups);
    const struct conv_span share = conv_share(c, blocks);
    const size_t block = conv_blocked(1, 1, c->h, c->w) >> c->half_x;
    for (int i = 0; i < c->n * c->groups; i++)
        memset(dx + (size_t)(i * blocks + share.from) * block, 0,
               (size_t)(share.to - share.from) * block * sizeof(float));
}

size_t conv_packed(const struct conv_view *v, int outputs)
{
    const int depth = v->deep > CONV_BLOCK ? v->blocks * v->place : v->channels;
    return (size_t)(conv_blocks(outputs) * CONV_BLOCK) * (size_t)depth
           * (size_t)v->ntaps;
}

/* What is moved: 16 outputs of a tile and a block of inputs, which are so many
 * lanes of each row of `packed`. back: that is added to the weights. 16 outputs
 * are few enough for the first cache, whose sets rows of weights like to share.
 */
struct move {
    const struct conv_view *view;
    const struct conv_weights *w;
    const struct conv_turn *turn;
    int place[CONV_TAPS]; /* the tap that is this element; -1: none */
    int elements, lanes;
    const float *end; /* of the weights */
    bool back;
};

size_t conv_weight_at(const struct conv_view *v, const struct conv_weights *w,
                      int input, int t)
{
    if (v->lines)
        return (size_t)(v->tap[t].i * w->kernel_w + input);
    const int channel = v->spread ? input / w->kernel_w : input;
    const int j = v->spread ? input % w->kernel_w : v->tap[t].j;
    return (size_t)channel * w->input + (size_t)(v->tap[t].i * w->kernel_w + j);
}

/* Of n outputs, whatever the order. */
static void move_lanes(const struct move *m, int n, int first, int nc,
                       float *weights, float *packed)
{
    for (int c = 0; c < nc; c++)
        for (int t = 0; t < m->view->ntaps; t++) {
            float *at = weights + conv_weight_at(m->view, m->w, first + c, t);
            float *row = packed + (t * nc + c) * m->lanes;
            for (int i = 0; i < n && m->back; i++)
                at[(size_t)i * m->w->output] += row[i];
            for (int i = 0; i < CONV_BLOCK && !m->back; i++)
                row[i] = i < n ? at[(size_t)i * m->w->output] : 0;
        }
}

/* Of 16 outputs and less than 16 elements. */
static void move_rows(const struct move *m, int n, float *const *rows,
                      float *weights)
{
    const size_t output = m->w->output;
    for (int i = 0; i < n; i++, weights++)
        if (rows[i] && m->back)
            for (int o = 0; o < CONV_BLOCK; o++)
                weights[(size_t)o * output] += rows[i][o];
        else if (rows[i])
            for (int o = 0; o < CONV_BLOCK; o++)
                rows[i][o] = weights[(size_t)o * output];
}

enum { FEW = 4 }; /* elements; more are turned at once */

/* Of 16 outputs and of inputs from c on so many that follow each other in
 * memory with all their elements. */
static void move_run(const struct move *m, int c, int inputs, int nc,
                     float *weights, float *packed)
{
    const size_t output = m->w->output;
    const int count = inputs * m->elements;
    for (int done = 0, e = 0, n; done < count; done += n, weights += n) {
        float *rows[CONV_BLOCK], *outputs[CONV_BLOCK];
        int used = 0;
        n = conv_least(CONV_BLOCK, count - done);
        for (int i = 0; i < n; i++) {
            rows[i] = m->place[e] < 0
                          ? NULL
                          : packed + (m->place[e] * nc + c) * m->lanes;
            used += m->place[e] >= 0;
            if (++e == m->elements)
                e = 0, c++;
        }
        for (int o = 0; o < CONV_BLOCK; o++) {
            outputs[o] = weights + (size_t)o * output;
            /* The next block's, to the second cache. */
            __builtin_prefetch(outputs[o] + CONV_BLOCK * m->elements, 0, 2);
        }
        for (int i = n; i < CONV_BLOCK; i++)
            rows[i] = NULL;
        if (n < CONV_BLOCK
            && (m->back || used <= FEW
                || m->end - outputs[CONV_BLOCK - 1] < CONV_BLOCK))
            move_rows(m, n, rows, weights);
        else if (m->back)
            m->turn->turn((const float **)rows, outputs, true);
        else
            m->turn->turn((const float **)outputs, rows, false);
    }
}

static void move_block(const struct move *m, int output, int first, int nc,
                       float *weights, float *packed)
{
    const struct conv_weights *w = m->w;
    const int n = conv_least(CONV_BLOCK, w->outputs - output);
    weights += (size_t)output * w->output;
    if (n < CONV_BLOCK || m->view->spread || m->view->lines) {
        move_lanes(m, n, first, nc, weights, packed);
        return;
    }
    weights += (size_t)first * w->input;
    if (w->input == (size_t)m->elements)
        move_run(m, 0, nc, nc, weights, packed);
    else if (w->output == 1 && !m->back)
        for (int c = 0; c < nc; c++)
            memcpy(packed + c * m->lanes, weights + (size_t)c * w->input,
                   CONV_BLOCK * sizeof(float));
    else
        for (int c = 0; c < nc; c++)
            move_run(m, c, 1, nc, weights + (size_t)c * w->input, packed);
}

/* A block of a tile that has just been packed: pairs of its rows. */
static void round_block(const struct conv_view *v, int nc, int lanes,
                        float *packed)
{
    const float *from = packed;
    for (int t = 0; t < v->ntaps; t++)
        for (int c = 0; c < nc; c += 2, packed += lanes) {
            const bool both = c + 1 < nc;
            v->round->pairs(from, both ? from + lanes : NULL, packed,
                            (size_t)lanes);
            from += both ? 2 * lanes : lanes;
        }
}

static struct move move_of(const struct conv_view *v,
                           const struct conv_weights *w, const float *weights,
                           bool back)
{
    struct move m = {.view = v, .w = w, .turn = conv_isa()->turn, .back = back};
    /* Of one output and input; the next ones follow in one direction. */
    m.elements = (int)(w->output < w->input ? w->output : w->input);
    const size_t a = (size_t)w->outputs * w->output;
    const size_t b = (size_t)v->channels * w->input;
    m.end = weights + (a > b ? a : b);
    for (int e = 0; e < m.elements; e++)
        m.place[e] = -1;
    for (int t = 0; t < v->ntaps && !v->lines; t++)
        m.place[v->tap[t].i * w->kernel_w + v->tap[t].j] = t;
    return m;
}

/* Returns the next place in `packed`. */
static float *move_part(struct move *m, const struct conv_part *p,
                        float *weights, float *packed)
{
    const struct conv_view *v = m->view;
    m->lanes = p->outputs * CONV_BLOCK;
    for (int b = p->block; b < p->block + p->blocks; b++) {
        const int c = b * CONV_BLOCK;
        const int nc = conv_least(CONV_BLOCK, v->channels - c);
        for (int lane = 0; lane < m->lanes; lane += CONV_BLOCK)
            move_block(m, p->output * CONV_BLOCK + lane, c, nc, weights,
                       packed + lane);
        if (v->round && !m->back)
            round_block(v, nc, m->lanes, packed);
        packed += v->ntaps * (m->back ? nc : view_depth(v, nc)) * m->lanes;
    }
    return packed;
}

void conv_pack_part(const struct conv_view *v, const struct conv_weights *w,
                    const struct conv_part *p, const float *from, float *to)
{
    if (v->deep > CONV_BLOCK) {
        conv_pack_wide(v, w, p, from, to);
        return;
    }
    struct move m = move_of(v, w, from, false);
    move_part(&m, p, (float *)(uintptr_t)from, to);
}

void conv_unpack_part(const struct conv_view *v, const struct conv_weights *w,
                      const struct conv_part *p, const float *from, float *to)
{
    struct move m = move_of(v, w, to, true);
    move_part(&m, p, to, (float *)(uintptr_t)from);
}

void conv_unpack(const struct conv_view *v, const struct conv_weights *w,
                 const int *most, int widest, struct conv_span blocks,
                 const float *from, float *to)
{
    struct move m = move_of(v, w, to, true);
    float *packed = (float *)(uintptr_t)from;
    struct conv_part p = {.output = blocks.from, .blocks = v->blocks};
    for (; p.output < blocks.to; p.output += p.outputs) {
        p.outputs = conv_tile_blocks(most, widest, blocks.to - p.output);
        packed = move_part(&m, &p, to, packed);
    }
}
