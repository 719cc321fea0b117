/* SPDX-License-Identifier: MIT */
#include "kernels/conv_pack.h"

#include <string.h>

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

/* What is moved: 16 outputs of a tile and a block of inputs, which are so many
 * lanes of each row of `packed`. back: that is added to the weights. 16 outputs
 * are few enough for the first cache, whose sets rows of weights like to share.
 */
struct move {
    const struct conv_view *view;
    const struct conv_weights *w;
    int place[CONV_TAPS]; /* the tap that is this element; -1: none */
    int elements, lanes;
    bool back;
};

static size_t index_of(const struct move *m, int input, int t)
{
    const struct conv_view *v = m->view;
    const int channel = v->spread ? input / m->w->kernel_w : input;
    const int j = v->spread ? input % m->w->kernel_w : v->tap[t].j;
    return (size_t)channel * m->w->input
           + (size_t)(v->tap[t].i * m->w->kernel_w + j);
}

/* Of n outputs, whatever the order. */
static void move_lanes(const struct move *m, int n, int first, int nc,
                       float *weights, float *packed)
{
    for (int c = 0; c < nc; c++)
        for (int t = 0; t < m->view->ntaps; t++) {
            float *at = weights + index_of(m, first + c, t);
            float *row = packed + (t * nc + c) * m->lanes;
            for (int i = 0; i < n && m->back; i++)
                at[(size_t)i * m->w->output] += row[i];
            for (int i = 0; i < CONV_BLOCK && !m->back; i++)
                row[i] = i < n ? at[(size_t)i * m->w->output] : 0;
        }
}

typedef float quad __attribute__((vector_size(16)));
/* As floats lie in memory. */
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

static inline void transpose(quad r[4])
{
    const quad a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    const quad b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    const quad c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    const quad d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    r[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    r[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
    r[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

/* Four outputs' next `count` elements, at most four; rows: where they go. */
static inline void move_four(const struct move *m, float *weights, int count,
                             float *const rows[], int lane)
{
    const size_t output = m->w->output;
    quad r[4] = {{0}};
    if (count < 4) {
        for (int e = 0; e < count; e++)
            for (int o = 0; rows[e] && o < 4; o++)
                if (m->back)
                    weights[(size_t)o * output + (size_t)e] +=
                        rows[e][lane + o];
                else
                    rows[e][lane + o] = weights[(size_t)o * output + (size_t)e];
    } else if (m->back) {
        for (int e = 0; e < 4; e++)
            if (rows[e])
                r[e] = *(const four *)(rows[e] + lane);
        transpose(r);
        for (int o = 0; o < 4; o++)
            *(four *)(weights + (size_t)o * output) += r[o];
    } else {
        for (int o = 0; o < 4; o++)
            r[o] = *(const four *)(weights + (size_t)o * output);
        transpose(r);
        for (int e = 0; e < 4; e++)
            if (rows[e])
                *(four *)(rows[e] + lane) = r[e];
    }
}

/* Of 16 outputs and of inputs from c on so many that follow each other in
 * memory with all their elements. */
static void move_run(const struct move *m, int c, int inputs, int nc,
                     float *weights, float *packed)
{
    const int count = inputs * m->elements;
    for (int done = 0, e = 0, n; done < count; done += n) {
        float *rows[CONV_BLOCK];
        n = conv_least(CONV_BLOCK, count - done);
        for (int i = 0; i < n; i++) {
            rows[i] = m->place[e] < 0
                          ? NULL
                          : packed + (m->place[e] * nc + c) * m->lanes;
            if (++e == m->elements)
                e = 0, c++;
        }
        /* The next block's, to the second cache. */
        for (int o = 0; o < CONV_BLOCK; o++)
            __builtin_prefetch(weights + (size_t)o * m->w->output + done
                                   + CONV_BLOCK * m->elements,
                               0, 2);
        for (int o = 0; o < CONV_BLOCK; o += 4)
            for (int i = 0; i < n; i += 4) {
                /* What is packed may be so twice. */
                const int at = m->back || n < 4 ? i : conv_least(i, n - 4);
                move_four(m, weights + (size_t)o * m->w->output + done + at,
                          conv_least(4, n - at), rows + at, o);
            }
    }
}

static void move_block(const struct move *m, int output, int first, int nc,
                       float *weights, float *packed)
{
    const struct conv_weights *w = m->w;
    const int n = conv_least(CONV_BLOCK, w->outputs - output);
    weights += (size_t)output * w->output;
    if (n < CONV_BLOCK || m->view->spread) {
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

static void move_all(const struct conv_view *v, const struct conv_weights *w,
                     const int *most, int widest, float *weights, float *packed,
                     bool back)
{
    const int blocks = conv_blocks(w->outputs);
    struct move m = {.view = v, .w = w, .back = back};
    /* Of one output and input; the next ones follow in one direction. */
    m.elements = (int)(w->output < w->input ? w->output : w->input);
    for (int e = 0; e < m.elements; e++)
        m.place[e] = -1;
    for (int t = 0; t < v->ntaps; t++)
        m.place[v->tap[t].i * w->kernel_w + v->tap[t].j] = t;
    for (int kb = 0, nk; kb < blocks; kb += nk) {
        nk = conv_tile_blocks(most, widest, blocks - kb);
        m.lanes = nk * CONV_BLOCK;
        for (int c = 0; c < v->channels; c += CONV_BLOCK) {
            const int nc = conv_least(CONV_BLOCK, v->channels - c);
            for (int lane = 0; lane < m.lanes; lane += CONV_BLOCK)
                move_block(&m, kb * CONV_BLOCK + lane, c, nc, weights,
                           packed + lane);
            packed += v->ntaps * nc * m.lanes;
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
