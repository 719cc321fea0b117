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

#include "kernels/conv_winograd.h"

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

/* --- forward, and backward to the data ------------------------------------
 */

/* M = U V for n tiles from `first` on; view: has the channels of V. */
static void multiply(const struct winograd_tiles *t,
                     const struct conv_view *view, int outputs,
                     const struct winograd_chunk *k, int first, int n,
                     const float *u, const float *v, float *m)
{
    static const float zeros[TILE_BLOCKS * CONV_BLOCK];
    static const int32_t tap[1];
    const struct conv_isa *isa = conv_isa();
    const size_t plane = (size_t)t->at_once * CONV_BLOCK;
    for (size_t e = 0; e < t->places; e++) {
        int from;
        const int end = winograd_having(t, e, first, n, &from);
        if (end <= from)
            continue;
        for (int kb = 0, nk; kb < k->blocks; kb += nk) {
            nk = conv_tile_blocks(k->most, k->widest, k->blocks - kb);
            const int halves = conv_tile_halves(
                isa->most, nk, outputs - (k->first + kb) * CONV_BLOCK);
            const int count = conv_up(end - from, isa->most[halves]);
            struct conv_tile tile = {
                .x_block = plane,
                .tap = tap,
                .ntaps = 1,
                .nblocks = view->blocks,
                .last = view->channels - (view->blocks - 1) * CONV_BLOCK,
                .w = u + e * winograd_place_floats(view, k->blocks)
                     + (size_t)kb * CONV_BLOCK * (size_t)view->channels,
                .y_block = plane,
                .y_step = CONV_BLOCK,
                .bias = zeros,
            };
            for (int i = 0, q = from, nq; i < count; i++, q += nq) {
                nq = (end - q) / (count - i);
                tile.x = v + e * winograd_matrix(t, view->channels)
                         + (size_t)q * CONV_BLOCK;
                tile.y = m + e * winograd_matrix(t, outputs)
                         + (size_t)(k->first + kb) * plane
                         + (size_t)q * CONV_BLOCK;
                isa->tile[halves][nq](&tile);
            }
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

static struct room room_of(const struct winograd_tiles *t,
                           const struct conv_view *v, int outputs,
                           float *scratch)
{
    const struct winograd_chunk k = winograd_chunk_of(t, NULL, 0);
    struct room r = {.u = scratch};
    r.packed = r.u + t->places * winograd_place_floats(v, k.blocks);
    r.v = r.packed + winograd_packed_floats(v, outputs);
    r.m = r.v + t->places * winograd_matrix(t, v->channels);
    return r;
}

/* M of n tiles from `first` on, of which V is there; packs: no weights are. */
static void multiply_all(const struct winograd_tiles *t,
                         const struct conv_view *v,
                         const struct conv_weights *order, bool packs,
                         int first, int n, const float *w, const struct room *r)
{
    const struct conv_isa *isa = conv_isa();
    struct winograd_chunk k = winograd_chunk_of(t, isa->most, isa->far_widest);
    do {
        if (packs)
            winograd_weights(t, v, order, &k, read_only(w), r->packed, r->u,
                             false);
        multiply(t, v, order->outputs, &k, first, n, r->u, r->v, r->m);
    } while (winograd_next_chunk(&k));
}

/* Of one group. */
static void run(const struct conv_view *v, const struct winograd_tiles *t,
                const struct conv_weights *order, float *x, const float *w,
                const float *bias, float *y, float *scratch)
{
    const struct room r = room_of(t, v, order->outputs, scratch);
    const struct conv_span all = {0, v->blocks};
    for (int done = 0, count; done < t->all; done += count) {
        count = conv_least(t->at_once, t->all - done);
        const int first = t->from_last ? t->all - done - count : done;
        winograd_input(t, all, x, first, count, r.v, false);
        multiply_all(t, v, order, done == 0, first, count, w, &r);
        winograd_output(t, order->outputs, first, count, r.m, bias, y);
    }
}

static void forward(const struct conv *c, const float *x, const float *w,
                    const float *bias, float *y, float *scratch)
{
    const int in = c->c / c->groups, k = c->k / c->groups;
    const struct conv_weights order = order_of(c, k, false);
    struct conv_view v;
    view_forward(&v, c);
    struct winograd_tiles t = winograd_tiles_of(&v, c, k);
    t.relu = c->relu;
    for (int g = 0; g < c->groups; g++)
        run(&v, &t, &order,
            read_only(x) + (size_t)(g * in) * (size_t)(c->h * c->w),
            w + (size_t)(g * k) * order.output, bias ? bias + g * k : NULL,
            y + (size_t)(g * k) * (size_t)(c->out_h * c->out_w), scratch);
}

/* The transpose of forward instead, by tiles of dy: what they add to dx
 * overlaps, but without padding, and with strides, there are fewer of them. */
static struct winograd_tiles
turned(const struct conv *c, struct conv_view *straight, struct conv_view *v)
{
    view_forward(straight, c);
    *v = *straight;
    v->channels = c->k / c->groups;
    v->blocks = conv_blocks(v->channels);
    struct winograd_tiles t = winograd_tiles_of(straight, c, v->channels);
    t.share = conv_share(c, straight->blocks);
    return t;
}

/* Places of a row or column of so many outputs. */
static double places_over(const struct conv_transforms *t, int outputs)
{
    return outputs / t->side * t->wide
           + __builtin_popcount(t->has[outputs % t->side]);
}

static struct winograd_work work_of(const struct conv *c, int h, int w)
{
    const struct conv_transforms *t =
        conv_isa()->transforms[conv_winograd_kind(c)];
    return (struct winograd_work){
        .tiles = (double)c->n * conv_up(h, t->side) * conv_up(w, t->side),
        .places = c->n * places_over(t, h) * places_over(t, w),
    };
}

static bool turns(const struct conv *c)
{
    return c->stride_h > 1
           || work_of(c, c->out_h, c->out_w).places
                  < 0.8 * work_of(c, c->h, c->w).places;
}

static bool gates(const struct conv *c)
{
    return !turns(c);
}

struct winograd_work conv_winograd_work(const struct conv *c,
                                        enum conv_pass pass)
{
    return pass == CONV_BACKWARD_DATA && !turns(c)
               ? work_of(c, c->h, c->w)
               : work_of(c, c->out_h, c->out_w);
}

static void run_turned(const struct conv *c, const struct conv_weights *order,
                       const float *dy, const float *w, float *dx,
                       float *scratch)
{
    struct conv_view straight, v;
    const struct winograd_tiles t = turned(c, &straight, &v);
    const struct room r = room_of(&t, &v, order->outputs, scratch);
    const struct conv_span all = {0, v.blocks};
    for (int first = 0; first < t.all; first += t.at_once) {
        const int count = conv_least(t.at_once, t.all - first);
        winograd_dy(&t, all, v.channels, dy, first, count, r.v);
        multiply_all(&t, &v, order, first == 0, first, count, w, &r);
        winograd_input(&t, t.share, dx, first, count, r.m, true);
    }
}

static void backward_data(const struct conv *c, const float *dy, const float *w,
                          float *dx, float *scratch)
{
    const int in = c->c / c->groups, k = c->k / c->groups;
    const struct conv_weights order = order_of(c, in, true);
    struct conv_view v;
    view_backward(&v, c, 0, 0);
    struct winograd_tiles t = winograd_tiles_of(&v, c, in);
    t.add = c->add;
    t.gate = c->gate;
    t.dx = dx;
    t.from_last = true; /* see conv_direct.c */
    if (turns(c) && !c->add)
        conv_clear(c, dx);
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

/* U += V times the transformed dy, over n tiles from `first` on. */
static void sum_up(const struct winograd_tiles *t, int outputs,
                   const struct winograd_chunk *k, int first, int n,
                   const float *v, const float *m, float *u)
{
    const struct conv_view *view = t->view;
    const struct conv_isa *isa = conv_isa();
    const size_t plane = (size_t)t->at_once * CONV_BLOCK;
    for (size_t e = 0; e < t->places; e++) {
        int from;
        const int end = winograd_having(t, e, first, n, &from);
        if (end <= from)
            continue;
        const size_t skip = (size_t)from * CONV_BLOCK;
        for (int kb = 0, nk; kb < k->blocks; kb += nk) {
            nk = conv_tile_blocks(k->most, k->widest, k->blocks - kb);
            const int halves = conv_tile_halves(
                isa->sum_most, nk, outputs - (k->first + kb) * CONV_BLOCK);
            struct conv_sum s = {
                .dy = m + e * winograd_matrix(t, outputs)
                      + (size_t)(k->first + kb) * plane + skip,
                .dy_block = plane,
                .images = 1,
                .rows = 1,
                .columns = end - from,
                .dw = u + e * winograd_place_floats(view, k->blocks)
                      + (size_t)kb * CONV_BLOCK * (size_t)view->channels,
            };
            for (int c = 0, nc; c < view->channels; c += nc) {
                const int left =
                    conv_least(CONV_BLOCK - c % CONV_BLOCK, view->channels - c);
                nc = conv_least(left, isa->sum_most[halves]);
                s.x = v + e * winograd_matrix(t, view->channels)
                      + (size_t)(c / CONV_BLOCK) * plane + skip
                      + c % CONV_BLOCK;
                isa->sum[halves][nc](&s);
                s.dw += nc * nk * CONV_BLOCK;
            }
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
    const struct winograd_tiles t = winograd_tiles_of(&v, c, outputs);
    const struct room r = room_of(&t, &v, outputs, scratch);
    for (int g = 0; g < c->groups; g++) {
        float *from =
            read_only(x) + (size_t)(g * channels) * (size_t)(c->h * c->w);
        const float *back =
            dy + (size_t)(g * outputs) * (size_t)(c->out_h * c->out_w);
        float *to = dw + (size_t)(g * outputs) * order.output;
        for (int first = 0; first < t.all; first += t.at_once) {
            const int count = conv_least(t.at_once, t.all - first);
            winograd_input(&t, (struct conv_span){0, v.blocks}, from, first,
                           count, r.v, false);
            winograd_dy(&t, t.share, outputs, back, first, count, r.m);
            struct winograd_chunk k =
                winograd_chunk_of(&t, most, conv_widest(most));
            do {
                if (first == 0)
                    memset(r.u, 0,
                           t.places * winograd_place_floats(&v, k.blocks)
                               * sizeof(float));
                sum_up(&t, outputs, &k, first, count, r.v, r.m, r.u);
                if (first + count == t.all)
                    winograd_weights(&t, &v, &order, &k, to, r.packed, r.u,
                                     true);
            } while (winograd_next_chunk(&k));
        }
    }
}

static size_t scratch_of(const struct conv *c, enum conv_pass pass)
{
    const int outputs = (pass == CONV_BACKWARD_DATA ? c->c : c->k) / c->groups;
    struct conv_view straight, v;
    struct winograd_tiles t;
    if (pass == CONV_BACKWARD_DATA && turns(c)) {
        t = turned(c, &straight, &v);
    } else {
        if (pass == CONV_BACKWARD_DATA)
            view_backward(&v, c, 0, 0);
        else
            view_forward(&v, c);
        t = winograd_tiles_of(&v, c, outputs);
    }
    return t.places
               * (winograd_place_floats(&v,
                                        winograd_chunk_of(&t, NULL, 0).blocks)
                  + winograd_matrix(&t, v.channels)
                  + winograd_matrix(&t, outputs))
           + winograd_packed_floats(&v, outputs);
}

const struct conv_method conv_winograd = {
    .name = "winograd",
    .adds = true,
    .shares = true,
    .relus = true,
    .gates = gates,
    .cannot = cannot,
    .scratch = scratch_of,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
};
