/* SPDX-License-Identifier: MIT */
/* What nets do to be fast changes nothing: layers that are fused, memory and
 * gradients that are shared, batch normalisation folded into weights, threads.
 * They are compared with each layer by itself, in memory of its own.
 *
 * net_half_test is the same with convolutions by AMX, whose instructions are in
 * software: what is bf16 in a net's memory is rounded to it here. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "kernels/conv.h"
#include "kernels/conv_tile.h"
#include "net/memory.h"
#include "nets.h"
#include "random.h"
#include "shapes.h"

#ifdef CONV_AMX_STAND_IN
/* Of residual_net, plain_residual_net, late_reader_net, biased_net,
 * pooled_net and gray_net. */
enum {
    HALVES = 17,
    OVER = 2,
    PLAIN_HALVES = 22,
    PLAIN_OVER = 4,
    LATE_HALVES = 7,
    LATE_OVER = 1,
    BIASED_HALVES = 5,
    BIASED_DONE = 3,
    BIASED_GATED = 1,
    RESIDUAL_GATED = 1,
    POOLED_HALVES = 1,
    POOLED_GATED = 1,
    PLAIN_GATED = 2,
    POOLED_OVER = 0,
    LATE_GATED = 1,
    GRAY_HALVES = 5,
    GRAY_OVER = 0,
    GRAY_FOLDED = 2
};

static const double folded = 0.01; /* weights are rounded when folded */

static const struct conv_method *by_amx(const struct conv *c,
                                        enum conv_pass pass)
{
    const bool few = c->c == 1; /* which no rule gives to AMX */
    return few || conv_bf16.cannot(c, pass) ? NULL : &conv_bf16;
}

__attribute__((constructor)) static void choose_amx(void)
{
    conv_choose(by_amx);
}
#else
enum {
    HALVES = 0,
    OVER = 5,
    PLAIN_HALVES = 0,
    PLAIN_OVER = 5,
    LATE_HALVES = 0,
    LATE_OVER = 5,
    BIASED_HALVES = 0,
    BIASED_DONE = 2,
    BIASED_GATED = 0, /* its conv 20 goes backward by matrices */
    RESIDUAL_GATED = 0,
    POOLED_HALVES = 0,
    POOLED_GATED = 1,
    PLAIN_GATED = 2,
    POOLED_OVER = 1,
    LATE_GATED = 0,
    GRAY_HALVES = 0,
    GRAY_OVER = 4,
    GRAY_FOLDED = 4
};
static const double folded = 1e-5;
#endif

/* If the layer has them in memory so. */
static void round_to_bf16(const struct layer *l, const struct arena *a)
{
    uint16_t *halves = malloc(a->count * sizeof(*halves));
    conv_round_scalar.row(a->x, (float *)halves, a->count);
    for (size_t i = 0; i < a->count && l->half; i++) {
        const uint32_t bits = (uint32_t)halves[i] << 16;
        memcpy(&a->x[i], &bits, sizeof(bits));
    }
    free(halves);
}

/* Of a net: outputs, their gradients and so on in memory of their own. */
struct apart {
    struct net *net;
    struct arena images, y[40], dy[40], dx, grads, state;
};

static struct tensor whole(struct shape s, const struct arena *a)
{
    return (struct tensor){s, a->x};
}

static struct tensor input_of(const struct apart *a, const struct layer *l,
                              int k)
{
    return whole(l->ins[k], l->from[k] < 0 ? &a->images : &a->y[l->from[k]]);
}

static void open_apart(struct apart *a, struct net *net, const float *images)
{
    const struct shape in = net->input;
    size_t most = 0;
    *a = (struct apart){.net = net};
    cr_assert(!arena_alloc(&a->images, shape_floats(in))
              && !arena_alloc(&a->grads, net->grads.count)
              && !arena_alloc(&a->state, net->state.count));
    memcpy(a->state.x, net->state.x, net->state.count * sizeof(float));
    if (net->plain)
        memcpy(a->images.x, images, shape_count(in) * sizeof(float));
    else
        conv_to_blocked(images, a->images.x, in.n, in.c, in.h, in.w);
    cr_assert_leq(net->nlayers, 40);
    for (int i = 0; i < net->nlayers; i++) {
        const size_t floats = shape_floats(net->layers[i].out);
        cr_assert(!arena_alloc(&a->y[i], floats)
                  && !arena_alloc(&a->dy[i], floats));
        for (int k = 0; k < net->layers[i].ninputs; k++)
            most += shape_floats(net->layers[i].ins[k]);
    }
    cr_assert(!arena_alloc(&a->dx, most));
}

static void close_apart(struct apart *a)
{
    struct arena *const all[] = {&a->images, &a->dx, &a->grads, &a->state};
    for (int i = 0; i < 4; i++)
        arena_free(all[i]);
    for (int i = 0; i < a->net->nlayers; i++) {
        arena_free(&a->y[i]);
        arena_free(&a->dy[i]);
    }
}

static struct layer alone(const struct apart *a, int i, bool training)
{
    struct layer l = a->net->layers[i];
    l.training = training;
    l.relu = l.done = l.half = l.half_x = l.gates = l.gated = false;
    l.norm = l.sum = NULL;
    l.crew = NULL;
    l.grads = a->grads.x + (l.grads - a->net->grads.x);
    l.state = a->state.x + (l.state - a->net->state.x);
    return l;
}

static void forward_apart(struct apart *a, bool training)
{
    for (int i = 0; i < a->net->nlayers; i++) {
        struct tensor x[LAYER_INPUTS];
        struct layer l = alone(a, i, training);
        for (int k = 0; k < l.ninputs; k++)
            x[k] = input_of(a, &l, k);
        l.ops->forward(&l, x, whole(l.out, &a->y[i]));
        if (!training || !a->net->layers[i].sum)
            round_to_bf16(&a->net->layers[i], &a->y[i]);
    }
}

static void backward_apart(struct apart *a, const int *labels)
{
    const int last = a->net->nlayers - 1;
    for (int i = 0; i < a->net->input.n; i++)
        a->dy[last].x[(size_t)i * image_floats(a->net->layers[last].out)
                      + (size_t)labels[i]] = -1;
    for (int i = last; i >= 0; i--) {
        struct tensor x[LAYER_INPUTS], dx[LAYER_INPUTS] = {0};
        struct layer l = alone(a, i, true);
        float *at = a->dx.x;
        for (int k = 0; k < l.ninputs; k++) {
            x[k] = input_of(a, &l, k);
            if (l.from[k] >= 0 && a->net->layers[l.from[k]].learns)
                dx[k] = layer_adds(&l) ? whole(l.ins[k], &a->dy[l.from[k]])
                                       : (struct tensor){l.ins[k], at};
            at += shape_floats(l.ins[k]);
        }
        const struct tensor dy = whole(l.out, &a->dy[i]);
        if (l.ops->gradients)
            l.ops->gradients(&l, x, dy);
        if (dx[0].x || !l.ops->gradients)
            l.ops->backward(&l, x, whole(l.out, &a->y[i]), dy, dx);
        for (int k = 0; k < l.ninputs && !layer_adds(&l); k++)
            for (size_t j = 0; dx[k].x && j < shape_floats(l.ins[k]); j++)
                a->dy[l.from[k]].x[j] += dx[k].x[j];
        for (int k = 0; k < l.ninputs; k++)
            if (l.from[k] >= 0)
                round_to_bf16(&a->net->layers[l.from[k]], &a->dy[l.from[k]]);
    }
}

/* Blocks of a ResNet, and what else may stand around a relu and a sum. */
static const char residual_net[] = "input 3x8x6\n"
                                   "conv 18 3x3 pad 1 nobias\n"
                                   "batchnorm\n"
                                   "a: relu\n"
                                   "conv 18 3x3 pad 1 from a\n"
                                   "batchnorm\n"
                                   "relu\n"
                                   "conv 18 1x1\n"
                                   "right: batchnorm\n"
                                   "add from right a\n"
                                   "b: relu\n"
                                   "conv 20 3x3 stride 2 pad 1 nobias from b\n"
                                   "right2: batchnorm\n"
                                   "conv 20 1x1 stride 2 nobias from b\n"
                                   "left2: batchnorm\n"
                                   "add from right2 left2\n"
                                   "c: relu\n"
                                   "d: scale from c\n"
                                   "conv 20 1x1 from c\n"
                                   "e: relu\n"
                                   "f: add from d e c\n"
                                   "n: scale from f\n"
                                   "o: conv 20 1x1 from f\n"
                                   "add from n f o\n"
                                   "relu\n"
                                   "bias\n"
                                   "j: batchnorm\n"
                                   "l: conv 20 1x1 from j\n"
                                   "k: relu from j\n"
                                   "add from l k\n"
                                   "relu\n"
                                   "p: batchnorm\n"
                                   "q: relu\n"
                                   "add from q p\n"
                                   "dense 5\n"
                                   "softmax_loss\n";

/* As ResNets are: between its pools all can be bf16. */
static const char plain_residual_net[] =
    "input 3x8x6\n"
    "conv 18 3x3 pad 1 nobias\n"
    "batchnorm\n"
    "relu\n"
    "a: maxpool 3x3 stride 1 pad 1\n"
    "conv 20 1x1 nobias from a\n"
    "batchnorm\n"
    "relu\n"
    "conv 36 3x3 pad 1 nobias\n"
    "right: batchnorm\n"
    "conv 36 1x1 nobias from a\n"
    "left: batchnorm\n"
    "add from right left\n"
    "b: relu\n"
    "conv 20 3x3 pad 1 nobias from b\n"
    "batchnorm\n"
    "relu\n"
    "conv 36 1x1 nobias\n"
    "right2: batchnorm\n"
    "add from right2 b\n"
    "c: relu\n"
    "conv 40 3x3 stride 2 pad 1 nobias from c\n"
    "right3: batchnorm\n"
    "conv 40 1x1 stride 2 nobias from c\n"
    "left3: batchnorm\n"
    "add from right3 left3\n"
    "relu\n"
    "avgpool global\n"
    "dense 5\n"
    "softmax_loss\n";

/* As VGGs are: with biases, and no batch normalisation. */
static const char biased_net[] = "input 3x8x6\n"
                                 "conv 18 3x3 pad 1\n"
                                 "relu\n"
                                 "conv 20 3x3 pad 1\n"
                                 "relu\n"
                                 "maxpool 2x2\n"
                                 "conv 36 3x3 pad 1\n"
                                 "relu\n"
                                 "maxpool 2x2\n"
                                 "dense 5\n"
                                 "softmax_loss\n";

/* A relu that maxpool does, before it and behind it, and some that others read,
 * too, or whose input they do. Of some windows nothing is above 0. */
static const char pooled_net[] = "input 3x8x6\n"
                                 "relu\n"
                                 "maxpool 3x3 stride 1 pad 1\n"
                                 "a: conv 20 3x3 pad 1\n"
                                 "relu\n"
                                 "b: maxpool 3x3 stride 1 pad 1\n"
                                 "add from b a\n"
                                 "relu\n"
                                 "conv 20 3x3 pad 1\n"
                                 "c: relu\n"
                                 "d: maxpool 2x2 from c\n"
                                 "e: maxpool 2x2 from c\n"
                                 "add from d e\n"
                                 "conv 18 3x3 pad 1\n"
                                 "batchnorm\n"
                                 "scale\n"
                                 "relu\n"
                                 "maxpool 2x1\n"
                                 "relu\n"
                                 "dense 5\n"
                                 "softmax_loss\n";

/* The first convolution and the one of groups have floats; in evaluation their
 * batchnorms work by themselves. */
static const char gray_net[] = "input 1x8x6\n"
                               "conv 18 3x3 pad 1 nobias\n"
                               "batchnorm\n"
                               "relu\n"
                               "conv 20 3x3 pad 1 nobias\n"
                               "batchnorm\n"
                               "relu\n"
                               "conv 20 3x3 pad 1 groups 2 nobias\n"
                               "batchnorm\n"
                               "conv 20 3x3 pad 1 nobias\n"
                               "batchnorm\n"
                               "dense 5\n"
                               "softmax_loss\n";

/* b's gradient is begun by the last line that reads it, and a sum's part waits
 * as floats. */
static const char late_reader_net[] = "input 3x8x6\n"
                                      "conv 18 3x3 pad 1 nobias\n"
                                      "batchnorm\n"
                                      "maxpool 3x3 stride 1 pad 1\n"
                                      "conv 20 1x1 nobias\n"
                                      "b: batchnorm\n"
                                      "conv 20 3x3 pad 1 nobias from b\n"
                                      "c: batchnorm\n"
                                      "add from c b\n"
                                      "d: relu\n"
                                      "conv 20 1x1 nobias from b\n"
                                      "e: batchnorm\n"
                                      "add from d e\n"
                                      "f: relu\n"
                                      "conv 20 3x3 nobias from f\n"
                                      "batchnorm\n"
                                      "dense 5\n"
                                      "softmax_loss\n";

/* What is fused, and gradients that lie on each other, change no bit. */
static void same_as_apart(const char *text, int done, int summed, int over,
                          int halves, int gated)
{
    enum { N = 6 };
    float images[N * 144];
    int labels[N], ndone = 0, nsummed = 0, nover = 0, nhalves = 0;
    int ngated = 0;
    struct apart apart;
    struct net net;
    make_net(&net, text, N);
    for (int i = 0; i < net.nlayers; i++) {
        const struct layer *l = &net.layers[i];
        ndone += l->done;
        nsummed += l->summed;
        nhalves += l->half;
        ngated += l->gated;
        nover += l->ops->over_dy && net.dy[i].x
                 && net.dy[i].x == net.dy[l->from[0]].x;
    }
    cr_assert_eq(ndone, done, "%d done", ndone);
    cr_assert_eq(nsummed, summed);
    cr_assert_eq(nover, over, "%d over", nover);
    cr_assert_eq(nhalves, halves, "%d halves", nhalves);
    cr_assert_eq(ngated, gated, "%d gated", ngated);
    for (size_t i = 0; i < net.params.count; i++)
        net.params.x[i] += 0.1f * random_unit(SEED, i);
    make_batch(&net, images, labels, N);
    open_apart(&apart, &net, images);
    net_forward(&net, images, labels, N, true, 3, 5, NULL);
    const struct tensor y = net.y[net.nlayers - 1];
    struct arena own = apart.y[net.nlayers - 1];
    forward_apart(&apart, true);
    cr_assert_arr_eq(y.x, own.x, own.count * sizeof(float));
    cr_assert_arr_eq(apart.state.x, net.state.x,
                     net.state.count * sizeof(float));
    net_forward(&net, images, labels, N, true, 3, 5, NULL);
    for (size_t i = 0; i < net.grads.count; i++)
        net.grads.x[i] = NAN;
    net_backward(&net, 1, NULL, NULL);
    backward_apart(&apart, labels);
    for (size_t i = 0; i < net.grads.count; i++)
        cr_assert_eq(net.grads.x[i], apart.grads.x[i], "gradient %zu", i);
    close_apart(&apart);
    net_free(&net);
}

Test(net_fuse, fusing_and_sharing_change_no_bit)
{
    same_as_apart(residual_net, 6, 2, OVER, HALVES, RESIDUAL_GATED);
    same_as_apart(plain_residual_net, 6, 3, PLAIN_OVER, PLAIN_HALVES,
                  PLAIN_GATED);
    same_as_apart(gray_net, 2, 0, GRAY_OVER, GRAY_HALVES, 0);
    same_as_apart(biased_net, BIASED_DONE, 0, 0, BIASED_HALVES, BIASED_GATED);
    same_as_apart(pooled_net, 3, 0, POOLED_OVER, POOLED_HALVES, POOLED_GATED);
    same_as_apart(late_reader_net, 2, 2, LATE_OVER, LATE_HALVES, LATE_GATED);
}

#ifndef CONV_AMX_STAND_IN
/* Of channels that suit Winograd's and Strassen's. */
static const char wide_net[] =
    "input 3x8x6\nconv 32 3x3 pad 1\nbatchnorm\nconv 32 3x3 pad 1\nrelu\n"
    "conv 64 3x3 pad 1\nrelu\nconv 32 1x1\nrelu\nconv 32 1x1\ndense 5\n"
    "softmax_loss\n";

static const struct conv_method *forced;

static const struct conv_method *by_forced(const struct conv *c,
                                           enum conv_pass pass)
{
    (void)c, (void)pass;
    return forced;
}

/* Each kernel that can. What it cannot do goes by the rule, as biased_net's
 * first layer, by matrices, which do no relu. */
Test(net_fuse, what_kernels_fuse_changes_no_bit)
{
    conv_choose(by_forced);
    forced = &conv_direct;
    same_as_apart(residual_net, 6, 2, OVER, HALVES, 1);
    same_as_apart(biased_net, 3, 0, 0, BIASED_HALVES, 1);
    same_as_apart(late_reader_net, 2, 2, LATE_OVER, LATE_HALVES, 1);
    forced = &conv_winograd;
    same_as_apart(plain_residual_net, 6, 3, PLAIN_OVER, PLAIN_HALVES, 1);
    same_as_apart(biased_net, 2, 0, 0, BIASED_HALVES, 1);
    same_as_apart(wide_net, 3, 0, 1, 0, 3);
    forced = &conv_strassen;
    same_as_apart(wide_net, 3, 0, 1, 0, 3);
}
#endif

/* Weights that are multiplied first are rounded elsewhere. What that changes is
 * as large wherever it falls, so outputs are compared by their largest. */
Test(net_fuse, evaluation_folds_batchnorm_into_convolutions)
{
    enum { N = 6 };
    float images[N * 144];
    int labels[N], nfolded = 0;
    const char *const texts[] = {residual_net, plain_residual_net, gray_net};
    for (int k = 0; k < 6; k++) {
        const int nthreads = 1 + k / 3;
        double largest = 1;
        char error[200] = "";
        struct apart apart;
        struct net net;
        make_net(&net, texts[k % 3], N);
        cr_assert(!net_use_threads(&net, nthreads, NULL, error, sizeof(error)));
        for (int i = 0; i < net.nlayers; i++)
            nfolded += net.layers[i].folded;
        for (size_t i = 0; i < net.params.count; i++)
            net.params.x[i] += 0.1f * random_unit(SEED, i);
        make_batch(&net, images, labels, N);
        for (int again = 0; again < 3; again++)
            net_forward(&net, images, labels, N, true, 3, 5, NULL);
        open_apart(&apart, &net, images);
        forward_apart(&apart, false);
        net_forward(&net, images, labels, N, false, 3, 5, NULL);
        const struct arena wanted = apart.y[net.nlayers - 1];
        const float *y = net.y[net.nlayers - 1].x;
        for (size_t i = 0; i < wanted.count; i++)
            largest = fmax(largest, fabs((double)wanted.x[i]));
        for (size_t i = 0; i < wanted.count; i++)
            cr_assert_float_eq(y[i], wanted.x[i], folded * largest,
                               "number %zu: %g, not %g", i, y[i], wanted.x[i]);
        cr_assert_arr_eq(apart.state.x, net.state.x,
                         net.state.count * sizeof(float));
        close_apart(&apart);
        net_free(&net);
    }
    cr_assert_eq(nfolded, 2 * (5 + 8 + GRAY_FOLDED));
}

/* Images, blocks and outputs are shared out; only sums over images are rounded
 * in another order. */
Test(net_fuse, threads_come_to_the_same)
{
    const char *const texts[] = {small_net,
                                 branched_net,
                                 plain_residual_net,
                                 gray_net,
                                 biased_net,
                                 pooled_net,
                                 "input 17x6x5\nlrn 3\ndropout 0.3\n"
                                 "conv 33 3x3 pad 1\nprelu\nmaxpool 2x2\n"
                                 "batchnorm\ndense 40\nrelu\ndense 7\n"
                                 "softmax_loss\n",
                                 "input 16x5x6\nconv 160 1x1\nrelu\n"
                                 "conv 128 3x3 pad 1\nrelu\n"
                                 "conv 64 1x1 nobias\nbatchnorm\nrelu\n"
                                 "conv 32 3x3 stride 2 pad 1\ndense 7\n"
                                 "softmax_loss\n"};
    enum { N = 7 };
    float images[N * 17 * 30];
    int labels[N];
    for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
        struct net one;
        make_net(&one, texts[t], N);
        make_batch(&one, images, labels, N);
        const double loss =
            net_forward(&one, images, labels, N, true, 3, 5, NULL);
        net_backward(&one, 1, NULL, NULL);
        for (int nthreads = 2; nthreads <= 9;
             nthreads += nthreads == 3 ? 6 : 1) {
            struct net more;
            char error[200] = "";
            double largest = 0;
            make_net(&more, texts[t], N);
            cr_assert_eq(
                net_use_threads(&more, nthreads, NULL, error, sizeof(error)), 0,
                "%s", error);
            for (int again = 0; again < 2; again++) {
                cr_assert_float_eq(
                    net_forward(&more, images, labels, N, true, 3, 5, NULL),
                    loss, 1e-5 * loss);
                net_backward(&more, 1, NULL, NULL);
            }
            for (size_t i = 0; i < one.grads.count; i++)
                largest = fmax(largest, fabs(one.grads.x[i]));
            for (size_t i = 0; i < one.grads.count; i++)
                cr_assert_lt(fabs(one.grads.x[i] - more.grads.x[i]),
                             1e-5 * largest, "%d threads, gradient %zu",
                             nthreads, i);
            net_free(&more);
        }
        net_free(&one);
    }
}

/* Large weights for few positions, and the other way round. */
Test(net_fuse, threads_share_out_what_is_less_work)
{
    struct conv late = SHAPE(16, 512, 7, 7, 512, 1, 3, 3, 1, 1, 1, 1, 1, 1);
    struct conv early = SHAPE(16, 64, 56, 56, 256, 1, 1, 1, 1, 1, 0, 0, 1, 1);
    conv_set_outputs(&late);
    conv_set_outputs(&early);
    for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++) {
        cr_assert(conv_by_outputs(&late, pass, &conv_winograd, 2), "%d", pass);
        cr_assert_not(conv_by_outputs(&early, pass, &conv_direct, 2), "%d",
                      pass);
    }
    cr_assert_not(conv_by_outputs(&late, CONV_FORWARD, &conv_gemm, 2));
    late.n = 1;
    late.k = 16; /* one block */
    cr_assert_not(conv_by_outputs(&late, CONV_FORWARD, &conv_direct, 2));
}

/* Where each layer asked all behind it, this would take for ever. */
Test(net_fuse, a_long_chain_is_placed_in_one_buffer)
{
    enum { MANY = 60 };
    char text[2000] = "input 1x1x1\nconv 1 1x1\n";
    struct net net;
    for (int i = 0; i < MANY; i++)
        strcat(text, "batchnorm\n");
    strcat(text, "dense 2\nsoftmax_loss\n");
    make_net(&net, text, 2);
    for (int i = 2; i <= MANY - (HALVES > 0); i++) /* dense reads floats */
        cr_assert_eq(net.dy[i].x, net.dy[1].x, "%d", i);
    net_free(&net);
}

Test(net_fuse, memory_is_shared_where_times_allow)
{
    enum { N = 300 };
    struct buffer b[N];
    size_t most = 0, sum = 0;
    for (int i = 0; i < N; i++) {
        b[i] = (struct buffer){.floats = 1 + random_below(SEED, i, 5000),
                               .first = (int)random_below(SEED + 1, i, 100)};
        b[i].last = b[i].first + (int)random_below(SEED + 2, i, 20);
        sum += b[i].floats;
    }
    const size_t floats = memory_plan(b, N);
    for (int i = 0; i < N; i++) {
        cr_assert(b[i].at % 16 == 0 && b[i].at + b[i].floats <= floats);
        for (int k = 0; k < i; k++)
            cr_assert(b[i].last < b[k].first || b[k].last < b[i].first
                      || b[i].at + b[i].floats <= b[k].at
                      || b[k].at + b[k].floats <= b[i].at);
    }
    for (int t = 0; t < 120; t++) {
        size_t at_once = 0;
        for (int i = 0; i < N; i++)
            at_once += b[i].first <= t && t <= b[i].last ? b[i].floats : 0;
        most = at_once > most ? at_once : most;
    }
    cr_assert_lt(floats, most + most / 4, "%zu, at once are %zu of %zu", floats,
                 most, sum);
}
