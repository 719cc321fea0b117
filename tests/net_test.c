/* SPDX-License-Identifier: MIT */
/* Nets: their gradient, their equality on any number of ranks, what they report
 * to whom, and what is said about bad texts. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/conv.h"
#include "net/memory.h"
#include "net/net.h"
#include "net/parse.h"
#include "random.h"

enum { SEED = 20 };

static const char small_net[] = "net small # layers in a row\n"
                                "input 2x6x6\n"
                                "\n"
                                "conv 3 3x3 pad 1\n"
                                "maxpool 2x2\n"
                                "conv 4 2x2\n"
                                "avgpool 2x2 stride 1\r\n"
                                "dense 6\n"
                                "relu\n"
                                "dropout 0.25\n"
                                "dense 3\n"
                                "softmax_loss";

static void create(struct net *net, const char *text, int batch)
{
    char error[200] = "";
    cr_assert_eq(net_create(net, text, batch, error, sizeof(error)), 0, "%s",
                 error);
    net_init(net, SEED);
}

/* Images from -1 to 1 and labels. */
static void make_batch(const struct net *net, float *images, int *labels, int n)
{
    const size_t size = shape_count(net->input) / (size_t)net->input.n;
    for (size_t i = 0; i < size * (size_t)n; i++)
        images[i] = 2 * random_unit(SEED, i) - 1;
    for (int i = 0; i < n; i++)
        labels[i] =
            (int)random_below(SEED + 1, (uint64_t)i, (uint32_t)net->nclasses);
}

/* No maxpool or relu, whose kinks lie within any step for some image. */
static const char smooth_net[] = "input 2x6x6\n"
                                 "conv 3 3x3 pad 1\n"
                                 "avgpool 2x2\n"
                                 "conv 4 2x2\n"
                                 "avgpool 2x2 stride 1\n"
                                 "dense 6\n"
                                 "dropout 0.25\n"
                                 "dense 3\n"
                                 "softmax_loss\n";

/* Each number of the gradient against a difference of losses, whose error is
 * tolerance at most. */
static void check_gradient(const char *text, double tolerance)
{
    enum { N = 5 };
    struct net net;
    create(&net, text, N + 2);
    const size_t size = shape_count(net.input) / (N + 2);
    float *images = malloc(N * size * sizeof(float));
    int labels[N];
    make_batch(&net, images, labels, N);
    net_forward(&net, images, labels, N, true, 7, 100, NULL);
    net_backward(&net, 1, NULL, NULL);
    float *gradient = malloc(net.grads.count * sizeof(float));
    memcpy(gradient, net.grads.x, net.grads.count * sizeof(float));
    for (size_t i = 0; i < net.params.count; i++) {
        const float h = 1 / 128.0f, was = net.params.x[i];
        net.params.x[i] = was + h;
        double change =
            net_forward(&net, images, labels, N, true, 7, 100, NULL);
        net.params.x[i] = was - h;
        change -= net_forward(&net, images, labels, N, true, 7, 100, NULL);
        net.params.x[i] = was;
        cr_assert_float_eq(change / (2 * h), gradient[i], tolerance,
                           "parameter %zu: %g, differences say %g", i,
                           gradient[i], change / (2 * h));
    }
    free(gradient);
    free(images);
    net_free(&net);
}

/* Error of a difference: about 20 roundings (half an eps) of logits below 8 in
 * each of the images over 2h, 3e-4 in all; h^2 times third derivatives of order
 * 1, 6e-5. Twice that is allowed. */
Test(net, gradient_equals_differences)
{
    check_gradient(smooth_net, 7e-4);
}

Test(net, k_ranks_match_one)
{
    enum { N = 12 };
    struct net whole, part;
    float images[N * 72];
    int labels[N], right = 0, right_in_parts = 0;
    create(&whole, small_net, N);
    make_batch(&whole, images, labels, N);
    const double loss =
        net_forward(&whole, images, labels, N, true, 3, 0, &right);
    net_backward(&whole, 1.0f / N, NULL, NULL);
    for (int k = 2; k <= 6; k += k == 4 ? 2 : 1) {
        const int n = N / k;
        create(&part, small_net, n + 1);
        double *sum = calloc(whole.grads.count, sizeof(double));
        double loss_in_parts = 0, largest = 0;
        right_in_parts = 0;
        for (int r = 0; r < k; r++) {
            int more;
            loss_in_parts +=
                net_forward(&part, images + r * n * 72, labels + r * n, n, true,
                            3, (uint64_t)(r * n), &more);
            right_in_parts += more;
            net_backward(&part, 1.0f / N, NULL, NULL);
            for (size_t i = 0; i < whole.grads.count; i++)
                sum[i] += part.grads.x[i];
        }
        for (size_t i = 0; i < whole.grads.count; i++)
            largest = fmax(largest, fabs(sum[i]));
        for (size_t i = 0; i < whole.grads.count; i++)
            cr_assert_lt(fabs(sum[i] - whole.grads.x[i]), 1e-5 * largest,
                         "%d ranks, gradient %zu", k, i);
        cr_assert_float_eq(loss_in_parts, loss, 1e-5 * loss);
        cr_assert_eq(right, right_in_parts);
        free(sum);
        net_free(&part);
    }
    net_free(&whole);
}

struct ready {
    const struct net *net;
    size_t end; /* first number that was reported */
    int ncalls;
    float *seen; /* slices as they were when reported */
};

static void note_ready(void *context, size_t first, size_t count)
{
    struct ready *r = context;
    cr_assert_eq(first + count, r->end);
    cr_assert_gt(count, 0);
    memcpy(r->seen + first, r->net->grads.x + first, count * sizeof(float));
    r->end = first;
    r->ncalls++;
}

Test(net, reports_each_slice_once_when_final_last_layer_first)
{
    struct net net;
    float images[3 * 72];
    int labels[3];
    create(&net, small_net, 3);
    make_batch(&net, images, labels, 3);
    struct ready r = {&net, net.grads.count, 0,
                      calloc(net.grads.count, sizeof(float))};
    net_forward(&net, images, labels, 3, true, 1, 0, NULL);
    net_backward(&net, 1, note_ready, &r);
    cr_assert_eq(r.end, 0);
    cr_assert_eq(r.ncalls, 4);
    cr_assert_arr_eq(r.seen, net.grads.x, net.grads.count * sizeof(float));
    /* Again, without images: the gradient starts from zero. */
    r.end = net.grads.count;
    cr_assert_eq(net_forward(&net, images, labels, 0, true, 1, 0, NULL), 0);
    net_backward(&net, 1, note_ready, &r);
    for (size_t i = 0; i < net.grads.count; i++)
        cr_assert_eq(net.grads.x[i], 0);
    free(r.seen);
    net_free(&net);
}

Test(net, scale_multiplies_the_gradient)
{
    struct net a, b;
    float images[4 * 72];
    int labels[4];
    create(&a, small_net, 4);
    create(&b, small_net, 9);
    make_batch(&a, images, labels, 4);
    net_forward(&a, images, labels, 4, true, 1, 0, NULL);
    net_backward(&a, 1, NULL, NULL);
    net_forward(&b, images, labels, 4, true, 1, 0, NULL);
    net_backward(&b, 0.25f, NULL, NULL);
    net_forward(&b, images, labels, 4, true, 1, 0, NULL);
    net_backward(&b, 0.25f, NULL, NULL);
    for (size_t i = 0; i < a.grads.count; i++)
        cr_assert_eq(b.grads.x[i], 0.25f * a.grads.x[i], "gradient %zu", i);
    net_free(&a);
    net_free(&b);
}

Test(net, copies_what_backward_needs)
{
    struct net net;
    float images[2 * 72], first[400];
    int labels[2];
    create(&net, small_net, 2);
    cr_assert_lt(net.grads.count, 400);
    for (int i = 0; i < 2; i++) {
        make_batch(&net, images, labels, 2);
        net_forward(&net, images, labels, 2, true, 1, 0, NULL);
        if (i) {
            memset(images, 0, sizeof(images));
            memset(labels, 0, sizeof(labels));
        }
        net_backward(&net, 1, NULL, NULL);
        if (!i)
            memcpy(first, net.grads.x, net.grads.count * sizeof(float));
    }
    cr_assert_arr_eq(first, net.grads.x, net.grads.count * sizeof(float));
    net_free(&net);
}

enum { SIZE = 400 };

/* Which inputs of 1 reach the loss: those have the largest probability. */
static int pass(const char *text, uint64_t seed, bool *passes)
{
    struct net net;
    float images[SIZE];
    int count = 0;
    for (int i = 0; i < SIZE; i++)
        images[i] = 1;
    create(&net, text, 1);
    net_forward(&net, images, &(const int){0}, 1, true, seed, 0, NULL);
    const float *y = net.y[net.nlayers - 1].x;
    float most = y[0];
    for (int i = 0; i < SIZE; i++)
        most = y[i] > most ? y[i] : most;
    for (int i = 0; i < SIZE; i++) {
        passes[i] = y[i] == most;
        count += passes[i];
    }
    net_free(&net);
    return count;
}

/* Where the first of two dropouts lets a number pass, the second decides by
 * itself. */
Test(net, dropout_differs_by_seed_and_layer)
{
    const char *const one = "input 400x1x1\ndropout 0.5\nsoftmax_loss";
    const char *const two =
        "input 400x1x1\ndropout 0.5\ndropout 0.5\nsoftmax_loss";
    bool first[SIZE], other[SIZE], both[SIZE];
    int differ = 0, within = 0;
    const int passed = pass(one, 1, first), again = pass(two, 1, both);
    pass(one, 2, other);
    for (int i = 0; i < SIZE; i++) {
        differ += first[i] != other[i];
        within += both[i] && first[i];
    }
    cr_assert(differ > SIZE / 4 && passed > SIZE / 4);
    cr_assert(again > SIZE / 8 && again < passed * 3 / 4);
    cr_assert_eq(within, again);
}

Test(net, loss_is_cross_entropy_and_right_answers_are_counted)
{
    struct net net;
    const float images[] = {1, 2, 3, 3, 1, 2};
    const int labels[] = {2, 1};
    int right = -1;
    create(&net, "input 3x1x1\nsoftmax_loss", 2);
    const double all = exp(1) + exp(2) + exp(3),
                 loss = -log(exp(3) / all) - log(exp(1) / all);
    cr_assert_float_eq(
        net_forward(&net, images, labels, 2, false, 0, 0, &right), loss, 1e-6);
    cr_assert_eq(right, 1);
    net_backward(&net, 1, NULL, NULL);
    net_free(&net);
}

Test(net, init_depends_on_the_seed_and_the_layer_only)
{
    struct net a, b;
    create(&a, small_net, 1);
    create(&b, small_net, 8);
    cr_assert_arr_eq(a.params.x, b.params.x, a.params.count * sizeof(float));
    net_init(&b, SEED + 1);
    cr_assert_neq(a.params.x[0], b.params.x[0]);
    net_free(&a);
    net_free(&b);
    create(&a, "input 4x1x1\ndense 4\ndense 4\nsoftmax_loss", 1);
    cr_assert_neq(a.params.x[0], a.params.x[20]);
    /* The same on every machine, so also the same for ever. */
    cr_assert_eq(a.params.x[0],
                 sqrtf(0.75f) * (2 * random_unit(random_u64(SEED, 0), 0) - 1));
    net_free(&a);
}

/* The counts that the literature has. */
Test(net, built_in_nets_have_their_parameters)
{
    const struct {
        const char *name;
        size_t nparams;
        int nclasses;
    } nets[] = {
        {"lenet",             431080,    10  },
        {"lenet5",            61706,     10  },
        {"alexnet",           60965224,  1000},
        {"alexnet_bn",        62396104,  1000},
        {"alexnet_ungrouped", 62378344,  1000},
        {"googlenet",         6998552,   1000},
        {"resnet18",          11689512,  1000},
        {"resnet20",          272474,    10  },
        {"resnet50",          25557032,  1000},
        {"vgg16",             138357544, 1000},
        {"vgg19",             143667240, 1000},
    };
    size_t n = sizeof(nets) / sizeof(nets[0]);
    for (size_t i = 0; i < n; i++) {
        struct net net = {0};
        char error[200] = "";
        size_t nparams = 0;
        cr_assert_str_eq(net_names()[i], nets[i].name);
        cr_assert_eq(
            net_parse(&net, net_text(nets[i].name), 3, error, sizeof(error)), 0,
            "%s: %s", nets[i].name, error);
        for (int k = 0; k < net.nlayers; k++)
            nparams += net.layers[k].nparams;
        cr_expect_eq(nparams, nets[i].nparams, "%s has %zu", nets[i].name,
                     nparams);
        cr_expect_eq(net.nclasses, nets[i].nclasses);
        free(net.layers);
    }
    cr_assert_null(net_names()[n]);
    cr_assert_null(net_text("no such net"));
}

/* A net whose branches part and meet: gradients of what several lines read are
 * added up, and nothing lies on what is still needed. */
static const char branched_net[] = "input 3x6x6\n"
                                   "a: conv 4 3x3 pad 1\n"
                                   "b: scale\n"
                                   "c: conv 4 1x1 from a\n"
                                   "d: bias\n"
                                   "e: add from d b a\n"
                                   "f: conv 3 3x3 pad 1 stride 2 from e\n"
                                   "g: avgpool 2x2 from e\n"
                                   "h: concat from f g\n"
                                   "i: conv 2 3x3 stride 2 pad 1 from input\n"
                                   "concat from h i\n"
                                   "batchnorm eps 0.5\n"
                                   "dense 5\n"
                                   "softmax_loss smoothing 0.1\n";

/* Batch normalisation has larger third derivatives. */
Test(net, gradients_of_branches_equal_differences)
{
    check_gradient(branched_net, 2e-3);
}

/* What kernels of int16 and phases cannot do goes another way. */
Test(net, long_strides_and_gaps_are_computed)
{
    const char *const texts[] = {
        "input 1x1x33003\nconv 2 1x2 dilation 33000\ndense 2\nsoftmax_loss",
        "input 2x1x40\nconv 2 1x1\nconv 3 1x3 stride 99999\ndense 2\n"
        "softmax_loss",
        "input 2x3x3\nconv 2 1x1\nconv 3 1x1 stride 70000\ndense 2\n"
        "softmax_loss",
    };
    for (int i = 0; i < 3; i++) {
        struct net net;
        static float images[33003];
        for (int k = 0; k < 33003; k++)
            images[k] = random_unit(SEED, (uint64_t)k);
        create(&net, texts[i], 1);
        const double loss =
            net_forward(&net, images, (int[]){1}, 1, true, 1, 0, NULL);
        net_backward(&net, 1, NULL, NULL);
        const float h = 1 / 128.0f, gradient = net.grads.x[0];
        net.params.x[0] += h;
        const double change =
            net_forward(&net, images, (int[]){1}, 1, true, 1, 0, NULL) - loss;
        cr_assert_float_eq(change / h, gradient, 0.02 + 0.05 * fabs(gradient));
        net_free(&net);
    }
}

Test(net, memory_is_shared_where_times_allow)
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

/* --- each layer by itself --------------------------------------------------
 */

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
    l.relu = l.done = false;
    l.norm = NULL;
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
                dx[k] = (struct tensor){l.ins[k], at};
            at += shape_floats(l.ins[k]);
        }
        l.ops->backward(&l, x, whole(l.out, &a->y[i]), whole(l.out, &a->dy[i]),
                        dx);
        for (int k = 0; k < l.ninputs; k++)
            for (size_t j = 0; dx[k].x && j < shape_floats(l.ins[k]); j++)
                a->dy[l.from[k]].x[j] += dx[k].x[j];
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

/* What is fused, and gradients that lie on each other, change no bit. */
Test(net, fusing_and_sharing_change_no_bit)
{
    enum { N = 6 };
    float images[N * 144];
    int labels[N], ndone = 0;
    struct apart apart;
    struct net net;
    create(&net, residual_net, N);
    for (int i = 0; i < net.nlayers; i++)
        ndone += net.layers[i].done;
    cr_assert_eq(ndone, 6);
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
    net_backward(&net, 1, NULL, NULL);
    backward_apart(&apart, labels);
    for (size_t i = 0; i < net.grads.count; i++)
        cr_assert_eq(net.grads.x[i], apart.grads.x[i], "gradient %zu", i);
    close_apart(&apart);
    net_free(&net);
}

/* Weights that are multiplied first are rounded elsewhere. */
Test(net, evaluation_folds_batchnorm_into_convolutions)
{
    enum { N = 6 };
    float images[N * 144];
    int labels[N], nfolded = 0;
    for (int nthreads = 1; nthreads <= 2; nthreads++) {
        char error[200] = "";
        struct apart apart;
        struct net net;
        create(&net, residual_net, N);
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
            cr_assert_float_eq(y[i], wanted.x[i],
                               1e-5 * (1 + fabs((double)wanted.x[i])),
                               "number %zu: %g, not %g", i, y[i], wanted.x[i]);
        cr_assert_arr_eq(apart.state.x, net.state.x,
                         net.state.count * sizeof(float));
        close_apart(&apart);
        net_free(&net);
    }
    cr_assert_eq(nfolded, 2 * 5);
}

/* Images, blocks and outputs are shared out; only sums over images are rounded
 * in another order. */
Test(net, threads_come_to_the_same)
{
    const char *const texts[] = {small_net, branched_net,
                                 "input 17x6x5\nlrn 3\ndropout 0.3\n"
                                 "conv 33 3x3 pad 1\nprelu\nmaxpool 2x2\n"
                                 "batchnorm\ndense 40\nrelu\ndense 7\n"
                                 "softmax_loss\n"};
    enum { N = 7 };
    float images[N * 17 * 30];
    int labels[N];
    for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
        struct net one;
        create(&one, texts[t], N);
        make_batch(&one, images, labels, N);
        const double loss =
            net_forward(&one, images, labels, N, true, 3, 5, NULL);
        net_backward(&one, 1, NULL, NULL);
        for (int nthreads = 2; nthreads <= 9;
             nthreads += nthreads == 3 ? 6 : 1) {
            struct net more;
            char error[200] = "";
            double largest = 0;
            create(&more, texts[t], N);
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

Test(net, state_is_kept_in_training_and_used_in_evaluation)
{
    const char *const text = "input 2x3x3\nbatchnorm momentum 0.25\n"
                             "dense 2\nsoftmax_loss\n";
    struct net net;
    float images[4 * 18];
    int labels[4];
    create(&net, text, 4);
    make_batch(&net, images, labels, 4);
    cr_assert_eq(net.state.count, 4);
    double mean = 0, squares = 0;
    for (int i = 0; i < 4; i++)
        for (int p = 0; p < 9; p++)
            mean += images[i * 18 + p] / 36.0;
    for (int i = 0; i < 4; i++)
        for (int p = 0; p < 9; p++)
            squares += pow(images[i * 18 + p] - mean, 2);
    const double before =
        net_forward(&net, images, labels, 4, false, 1, 0, NULL);
    cr_assert_eq(net.state.x[0], 0);
    net_forward(&net, images, labels, 4, true, 1, 0, NULL);
    cr_assert_float_eq(net.state.x[0], 0.25 * mean, 1e-6);
    cr_assert_float_eq(net.state.x[2], 0.75 + 0.25 * squares / 35, 1e-6);
    cr_assert_neq(net_forward(&net, images, labels, 4, false, 1, 0, NULL),
                  before);
    net_free(&net);
}

/* Where each text is wrong, and some of what is said about it. */
/* clang-format off */
static const struct {
    const char *text;
    int line, column;
    const char *says;
} bad[] = {
    {"", 1, 1, "without an input line"},
    {"net x\n# only\n", 3, 1, "without an input line"},
    {"input 1x28x28\nconv 20 5x5\n", 3, 1, "softmax_loss"},
    {"input 1x28x28\nconv 20 5x5", 2, 12, "softmax_loss"},
    {"input 1x28x28", 1, 14, "softmax_loss"},
    {"conv 20 5x5\n", 1, 1, "input line comes first"},
    {"input 1x8x8\ninput 1x8x8\n", 2, 1, "second input"},
    {"input 1x8x8\nnet x\n", 2, 1, "first line"},
    {"net\n", 1, 4, "one name"},
    {"net a b\n", 1, 7, "one name"},
    {"input\n", 1, 6, "1x28x28"},
    {"input 1x28\n", 1, 7, "1x28x28"},
    {"input 1x28x28x1\n", 1, 7, "1x28x28"},
    {"input 1x0x28\n", 1, 7, "1x28x28"},
    {"input 1x-1x28\n", 1, 7, "1x28x28"},
    {"input 1x1x1 2\n", 1, 13, "1x28x28"},
    {"input 99999x99999x99999\n", 1, 7, "too large"},
    {"input 99999999999999999999x1x1\n", 1, 7, "1x28x28"},
    {"input 1x8x8\n  cnov 2 3x3\n", 2, 3, "did you mean \"conv\""},
    {"input 1x8x8\nsoftmax\n", 2, 1, "softmax_loss"},
    {"inptu 1x8x8\n", 1, 1, "did you mean \"input\""},
    {"input 1x8x8\nqwertzuiop\n", 2, 1, "valid are: conv max"},
    {"input 1x8x8\nconv\n", 2, 5, "conv 20 5x5"},
    {"input 1x8x8\nconv 2\n", 2, 7, "as in 5x5"},
    {"input 1x8x8\nconv 0 3x3\n", 2, 6, "\"0\""},
    {"input 1x8x8\nconv 2 3\n", 2, 8, "as in 5x5"},
    {"input 1x8x8\nconv 2 3x3 strid 1\n", 2, 12, "stride S"},
    {"input 1x8x8\nconv 2 3x3 stride\n", 2, 18, "stride 2"},
    {"input 1x8x8\nconv 2 3x3 stride 0\n", 2, 19, "stride 2"},
    {"input 1x8x8\nconv 2 3x3 pad x\n", 2, 16, "pad 2"},
    {"input 1x8x8\nconv 2 3x3 pad 3\n", 2, 8, "smaller"},
    {"input 1x8x8\nconv 2 9x3\n", 2, 8, "1x8x8"},
    {"input 1x8x8\nmaxpool 4x4\nmaxpool 3x3\n", 3, 9, "1x2x2"},
    {"input 1x8x8\nmaxpool\n", 2, 8, "as in 5x5"},
    {"input 1x8x8\nconv 2000000000 5x5\n", 2, 6, "too large"},
    {"input 1x8x8\nconv 99999999999 5x5\n", 2, 6, "output"},
    {"input 1x20000x20000\nconv 1 9x9 pad 4\n", 2, 6, "too large"},
    {"input 9x8x8\ndense 2147483647\n", 2, 7, "too large"},
    {"input 1x1x1\nconv 900000000 1x1\n", 2, 1, "too large"},
    {"input 1x8x8\ndense\n", 2, 6, "dense 500"},
    {"input 1x8x8\ndense ten\n", 2, 7, "dense 500"},
    {"input 1x8x8\ndense 10 3\n", 2, 10, "no options"},
    {"input 1x8x8\nrelu 3\n", 2, 6, "no options"},
    {"input 1x8x8\ndropout\n", 2, 8, "dropout 0.5"},
    {"input 1x8x8\ndropout 1\n", 2, 9, "dropout 0.5"},
    {"input 1x8x8\ndropout nan\n", 2, 9, "dropout 0.5"},
    {"input 1x8x8\ndropout 0.5x\n", 2, 9, "dropout 0.5"},
    {"input 1x8x8\nsoftmax_loss\nrelu\n", 3, 1, "follow"},
    {"input 1x8x8\ndense 1\nsoftmax_loss\n", 3, 1, "2 classes"},
    {"input 1x8x8\nsoftmax_loss 3\n", 2, 14, "smoothing"},
    {"input 1x8x8\nsoftmax_loss smoothing 1\n", 2, 24, "0.1"},
    {"input 1x8x8\nconv 2 3x3 ceil\n", 2, 12, "nobias"},
    {"input 1x8x8\nmaxpool 2x2 nobias\n", 2, 13, "ceil"},
    {"input 1x8x8\nconv 2 global\n", 2, 8, "5x5"},
    {"input 1x8x8\nmaxpool 2x2 global\n", 2, 13, "ceil"},
    {"input 4x8x8\na\"b: relu\n", 2, 2, "letters"},
    {"input 4x8x8\nconv 6 3x3 groups 4\n", 2, 6, "divide"},
    {"input 4x8x8\nconv 6 3x3 groups 0\n", 2, 19, "groups 2"},
    {"input 4x8x8\nconv 6 3x3 dilation 4\n", 2, 8, "larger"},
    {"input 4x8x8\nlrn\n", 2, 4, "lrn 5"},
    {"input 4x8x8\nlrn 4\n", 2, 5, "odd"},
    {"input 4x8x8\nlrn 5 gamma 1\n", 2, 7, "alpha A"},
    {"input 4x8x8\nlrn 5 alpha -1\n", 2, 13, "alpha A"},
    {"input 4x8x8\nbatchnorm eps 0\n", 2, 15, "eps E"},
    {"input 4x8x8\nbatchnorm momentum\n", 2, 19, "momentum"},
    {"input 4x8x8\nadd\n", 2, 4, "two inputs"},
    {"input 4x8x8\na: relu\nadd from a\n", 3, 11, "two inputs"},
    {"input 4x8x8\na: relu\nadd from a a\n", 3, 12, "twice"},
    {"input 4x8x8\na: relu\nrelu from a input\n", 3, 13, "one input"},
    {"input 4x8x8\nleft: relu\nadd from input leftt\n", 3, 16,
     "did you mean \"left\""},
    {"input 4x8x8\na: relu\nadd from a qwertz\n", 3, 12, "no line before"},
    {"input 4x8x8\na: relu\nadd from\n", 3, 9, "names of lines"},
    {"input 4x8x8\na: relu\nconv 3 from a\n", 3, 7, "ends early"},
    {"input 4x8x8\na: conv 3 3x3\nadd from a input\n", 3, 17, "same shape"},
    {"input 4x8x8\na: conv 3 3x3\nconcat from a input\n", 3, 20, "same rows"},
    {"input 4x8x8\na: relu\na: relu\n", 3, 1, "line 2 has the name"},
    {"input 4x8x8\ninput: relu\n", 2, 1, "images"},
    {"input 4x8x8\n: relu\n", 2, 1, "1 to 31"},
    {"input 4x8x8\na:\n", 2, 3, "a layer"},
    {"input 4x8x8\na23456789012345678901234567890123: relu\n", 2, 1, "1 to 31"},
    {"input 4x8x8\na: relu\nrelu from input\nsoftmax_loss\n",
     2, 1, "nothing reads"},
    {"input 4x8x8\na: softmax_loss\n", 2, 4, "no name"},
    {"input 1x8x8\nconv 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n",
     2, 36, "too many words"},
    {"input 1x8x8\na: relu\nb: relu\nc: relu\nd: relu\ne: relu\nf: relu\n"
     "g: relu\nh: relu\ni: relu\nadd from a b c d e f g h i\n",
     11, 26, "at most 8"},
};
/* clang-format on */

Test(net, errors_name_line_column_and_what_is_valid)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct net net;
        char error[400] = "", small[24], start[40];
        snprintf(start, sizeof(start), "line %d, column %d: ", bad[i].line,
                 bad[i].column);
        cr_assert_eq(net_create(&net, bad[i].text, 3, error, sizeof(error)), -1,
                     "accepted: %s", bad[i].text);
        cr_assert_eq(strncmp(error, start, strlen(start)), 0, "%s\n%s",
                     bad[i].text, error);
        cr_assert_not_null(strstr(error, bad[i].says), "%s\n%s", bad[i].text,
                           error);
        cr_assert_null(strchr(error, '\n'));
        cr_assert_null(net.layers);
        net_create(&net, bad[i].text, 3, small, sizeof(small));
        cr_assert_eq(strncmp(error, small, sizeof(small) - 1), 0);
    }
}

Test(net, every_truncation_of_a_text_is_refused_or_whole)
{
    const char *text = net_text("lenet");
    char cut[600], error[400];
    for (size_t n = 0; n + 2 < strlen(text); n++) {
        struct net net;
        snprintf(cut, sizeof(cut), "%.*s", (int)n, text);
        error[0] = '\0';
        cr_assert_eq(net_create(&net, cut, 1, error, sizeof(error)), -1);
        cr_assert_eq(strncmp(error, "line ", 5), 0, "%s", error);
        net_free(&net);
    }
}

/* Words of nets, put together by chance. */
static void make_text(char *text, size_t bytes, uint64_t seed)
{
    static const char *const words[] = {
        "conv",    "maxpool",
        "avgpool", "batchnorm",
        "scale",   "bias",
        "relu",    "prelu",
        "lrn",     "dense",
        "dropout", "add",
        "concat",  "softmax_loss",
        "input",   "net",
        "from",    "a",
        "b",       "a:",
        "b:",      "c:",
        "c",       "global",
        "3x3",     "2x2",
        "stride",  "pad",
        "groups",  "dilation",
        "ceil",    "nobias",
        "1",       "2",
        "16",      "0.5",
        "eps",     "momentum",
        "alpha",   "smoothing",
        "#",       "\n",
        "\n",      "\n",
        "\n",      "99999999",
        "-1",      ":",
        "4x6x6",   "x",
        "nan",     "1e30",
    };
    enum { NWORDS = sizeof(words) / sizeof(words[0]) };
    size_t used = (size_t)snprintf(text, bytes, "input 4x6x6\n");
    for (uint64_t i = 0; i < 60 && used + 20 < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s",
                                 words[random_below(seed, i, NWORDS)],
                                 random_below(seed + 1, i, 9) ? " " : "\n");
}

Test(net, any_words_are_refused_or_a_net)
{
    int nets = 0;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        struct net net = {0};
        char text[800], error[400] = "";
        make_text(text, sizeof(text), seed << 20);
        if (seed % 4) /* cut, so that some are good */
            strcpy(text + random_below(seed, 99, 40) + 12,
                   "\ndense 3\nsoftmax_loss\n");
        if (net_parse(&net, text, 2, error, sizeof(error)))
            cr_assert_eq(strncmp(error, "line ", 5), 0, "%s\n%s", text, error);
        else
            nets++;
        free(net.layers);
        if (nets % 8 == 1 && !error[0]
            && !net_create(&net, text, 2, error, sizeof(error))) {
            float images[2 * 4 * 36] = {0};
            net_init(&net, seed);
            net_forward(&net, images, (int[]){0, 1}, 2, true, 1, 0, NULL);
            net_backward(&net, 1, NULL, NULL);
            net_free(&net);
        }
    }
    cr_assert_gt(nets, 100, "%d are nets", nets);
}
