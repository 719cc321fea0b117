/* SPDX-License-Identifier: MIT */
/* Which way is the fastest, by what each has to do, in multiply-adds of the
 * direct kernels. The constants fit what one AMD EPYC core took with AVX-512,
 * Strassen's a Xeon's, too: where that and the definition are about as fast
 * on the one, on the other the definition is up to 1.15 times as fast
 * (--kernel measured tries). */
#include "kernels/conv_pack.h"

/* Of a tile's channel there or back, and of a kernel; by enum winograd_kind. */
static const double transform[] = {600, 800, 250};
static const double weight[] = {400, 2000, 1200};
/* Of Strassen's sums of what is read and written, an element of either, and of
 * weights; and of a position that no half has, whose tile has one. */
static const double strassen_sums[] = {14.5, 14.5, 13};
static const double strassen_weight = 20;
static const double strassen_odd = 4;
static const double gemm_slower =
    1.7; /* with its column matrix and reordering */
/* Of the direct kernels' work: two products at once. Also where a processor
 * cannot, so that all do the same, but those with AMX, which is far ahead. */
static const double bf16_share = 0.5, amx_share = 0.15;
/* What a position of a plain input costs more, less what is saved where then
 * the output is bf16 in memory. */
static const double amx_spread[] = {
    [CONV_FORWARD] = 600, [CONV_BACKWARD_WEIGHTS] = 1200};

static double filled(int channels)
{
    return (double)conv_blocks(channels) * CONV_BLOCK;
}

/* Of all groups, where outputs or inputs of a group fill up blocks. */
static double direct_work(const struct conv *c, enum conv_pass pass)
{
    const double taps = (double)c->kernel_h * c->kernel_w * c->n * c->groups;
    const int in = c->c / c->groups, out = c->k / c->groups;
    if (pass != CONV_BACKWARD_DATA)
        return taps * c->out_h * c->out_w * in * filled(out);
    return taps * c->h * c->w / ((double)c->stride_h * c->stride_w) * out
           * filled(in);
}

static double gemm_work(const struct conv *c)
{
    return gemm_slower * c->n * c->out_h * c->out_w * c->kernel_h * c->kernel_w
           * (c->c / c->groups) * c->k;
}

/* What AMX multiplies is 32 channels deep, of weights' gradients 16; a plain
 * input is spread out, 32 channels of a row's position at a time. */
static double amx_work(const struct conv *c, enum conv_pass pass)
{
    const int in = (pass == CONV_BACKWARD_DATA ? c->k : c->c) / c->groups;
    const int row = c->plain ? in * c->kernel_w : in;
    const int deep = pass == CONV_BACKWARD_WEIGHTS ? CONV_BLOCK : WIDE_CHANNELS;
    const double positions = (double)c->n * c->h * c->out_w;
    return amx_share * direct_work(c, pass) * conv_up(row, deep) * deep / row
           + (c->plain
                  ? amx_spread[pass] * positions * conv_up(row, WIDE_CHANNELS)
                  : 0);
}

/* A last image without another one takes as long as a pair does. */
static double bf16_work(const struct conv *c, enum conv_pass pass)
{
    if (conv_isa_bf16()->wide)
        return amx_work(c, pass);
    struct conv pairs = *c;
    if (pass == CONV_BACKWARD_WEIGHTS)
        pairs.n += pairs.n % 2;
    return bf16_share * direct_work(&pairs, pass);
}

static double winograd_work(const struct conv *c, enum conv_pass pass)
{
    const enum winograd_kind kind = conv_winograd_kind(c);
    const struct winograd_work work = conv_winograd_work(c, pass);
    const double in = filled(c->c / c->groups), out = filled(c->k / c->groups);
    return c->groups
           * ((work.places + weight[kind]) * in * out
              + work.tiles * transform[kind] * (in + out));
}

static double strassen_work(const struct conv *c, enum conv_pass pass)
{
    const int positions = c->out_h * c->out_w;
    const double saved = 1 / 8.0 * (positions / 2 * 2) / positions;
    return (1 - saved) * direct_work(c, pass)
           + strassen_sums[pass] * c->n * positions * (c->c + c->k)
           + strassen_weight * c->c * c->k
           + strassen_odd * c->n * (positions % 2) * c->c * c->k;
}

/* --- what several threads do ----------------------------------------------
 */

/* What each thread does of weights where they share out images: an element that
 * is packed, and a sum of its own for the gradient, which is then added to that
 * of others. And of the input where they share out outputs, as each reads it.
 */
static const double packing = 10, partial = 80, reading = 8;
/* Kernels at all places take so many times as long where all threads' are more
 * floats than the last cache has; and a single block of outputs, whose tiles
 * read more of the input, as long as so many. */
static const double far_slower = 3, far = 8 << 20, single = 1.2;

static double kernel_at_places(const struct conv *c, int threads)
{
    const enum winograd_kind kind = conv_winograd_kind(c);
    const double wide = conv_isa()->transforms[kind]->wide;
    const double in = (double)c->c / c->groups, out = (double)c->k / c->groups;
    return weight[kind]
           * (threads * wide * wide * in * out > far ? far_slower : 1);
}

static double own_weights(const struct conv *c, enum conv_pass pass,
                          const struct conv_method *m, int threads)
{
    const double in = (double)c->c / c->groups, out = (double)c->k / c->groups;
    const double elements = in * out * c->kernel_h * c->kernel_w;
    const double each = m == &conv_winograd
                            ? kernel_at_places(c, threads) * in * out
                        : m == &conv_strassen ? strassen_weight * elements
                                              : packing * elements;
    return c->groups
           * (each + (pass == CONV_BACKWARD_WEIGHTS ? partial * elements : 0));
}

static double own_inputs(const struct conv *c, enum conv_pass pass,
                         const struct conv_method *m)
{
    const bool back = pass == CONV_BACKWARD_DATA;
    const double channels = back ? c->k : c->c;
    if (m == &conv_winograd)
        return conv_winograd_work(c, pass).tiles
               * transform[conv_winograd_kind(c)] * channels;
    if (m == &conv_strassen)
        return strassen_sums[pass] * c->n * c->out_h * c->out_w * channels;
    return reading * c->n * channels
           * (back ? c->out_h * c->out_w : c->h * c->w);
}

static double method_work(const struct conv *c, enum conv_pass pass,
                          const struct conv_method *m)
{
    return m == &conv_winograd   ? winograd_work(c, pass)
           : m == &conv_strassen ? strassen_work(c, pass)
           : m == &conv_bf16     ? bf16_work(c, pass)
                                 : direct_work(c, pass);
}

/* The largest of the parts of so many things. */
static double largest(int things, int parts)
{
    return things ? (double)conv_up(things, parts) / things : 1;
}

/* Of outputs, in each of which a share has its part. */
static int blocks_of(const struct conv *c, enum conv_pass pass,
                     const struct conv_method *m)
{
    const int outputs = (pass == CONV_BACKWARD_DATA ? c->c : c->k) / c->groups;
    return conv_blocks(outputs) / (m == &conv_strassen ? 2 : 1);
}

bool conv_is_idle(const struct conv *c, enum conv_pass pass,
                  const struct conv_method *m)
{
    const struct conv_span share = conv_share(c, blocks_of(c, pass, m));
    return c->shares && share.from == share.to;
}

bool conv_by_outputs(const struct conv *c, enum conv_pass pass,
                     const struct conv_method *m, int threads)
{
    if (!m->shares)
        return false;
    const int blocks = blocks_of(c, pass, m);
    const double work = method_work(c, pass, m);
    const double narrow = conv_up(blocks, threads) == 1 ? single : 1;
    return largest(blocks, threads) * narrow * work + own_inputs(c, pass, m)
           < largest(c->n, threads) * work + own_weights(c, pass, m, threads);
}

static conv_choose_fn *choose;

void conv_choose(conv_choose_fn *fn)
{
    choose = fn;
}

static bool bf16;

void conv_allow_bf16(bool allowed)
{
    bf16 = allowed;
}

bool conv_bf16_allowed(void)
{
    return bf16;
}

const struct conv_method *conv_best(const struct conv *c, enum conv_pass pass)
{
    const struct conv_method *chosen = choose ? choose(c, pass) : NULL;
    if (chosen && !chosen->cannot(c, pass))
        return chosen;
    const struct conv_method *best = &conv_gemm;
    double least = gemm_work(c);
    if (!conv_direct.cannot(c, pass) && direct_work(c, pass) < least) {
        best = &conv_direct;
        least = direct_work(c, pass);
    }
    if (bf16 && !conv_bf16.cannot(c, pass) && bf16_work(c, pass) < least) {
        best = &conv_bf16;
        least = bf16_work(c, pass);
    }
    if (!conv_strassen.cannot(c, pass) && strassen_work(c, pass) < least) {
        best = &conv_strassen;
        least = strassen_work(c, pass);
    }
    if (!conv_winograd.cannot(c, pass) && winograd_work(c, pass) < least)
        best = &conv_winograd;
    return best;
}
