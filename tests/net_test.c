/* SPDX-License-Identifier: MIT */
/* Nets: their gradient, their equality on any number of ranks, what they report
 * to whom. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nets.h"
#include "random.h"

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
    make_net(&net, text, N + 2);
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
        make_net(&net, texts[i], 1);
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

Test(net, k_ranks_match_one)
{
    enum { N = 12 };
    struct net whole, part;
    float images[N * 72];
    int labels[N], right = 0, right_in_parts = 0;
    make_net(&whole, small_net, N);
    make_batch(&whole, images, labels, N);
    const double loss =
        net_forward(&whole, images, labels, N, true, 3, 0, &right);
    net_backward(&whole, 1.0f / N, NULL, NULL);
    for (int k = 2; k <= 6; k += k == 4 ? 2 : 1) {
        const int n = N / k;
        make_net(&part, small_net, n + 1);
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
            cr_assert_lt(fabs(sum[i] - whole.grads.x[i]), 1e-6 * largest,
                         "%d ranks, gradient %zu", k, i);
        cr_assert_float_eq(loss_in_parts, loss, 1e-5 * loss);
        cr_assert_eq(right, right_in_parts);
        free(sum);
        net_free(&part);
    }
    net_free(&whole);
}

/* The gradients of all threads are added up in another order than one thread
 * adds its own (swCaffe's four core groups). */
Test(net, four_threads_match_one)
{
    enum { N = 12 };
    static const char *const texts[] = {small_net, branched_net};
    for (int k = 0; k < 2; k++) {
        struct net one, many;
        char error[256];
        float images[N * 108];
        int labels[N], right, right_of_many;
        make_net(&one, texts[k], N);
        cr_assert(shape_count(one.input) <= N * 108);
        make_batch(&one, images, labels, N);
        const double loss =
            net_forward(&one, images, labels, N, true, 3, 0, &right);
        net_backward(&one, 1.0f / N, NULL, NULL);
        double largest = 0;
        for (size_t i = 0; i < one.grads.count; i++)
            largest = fmax(largest, fabs(one.grads.x[i]));
        for (int n = 2; n <= 5; n++) {
            make_net(&many, texts[k], N);
            cr_assert_eq(net_use_threads(&many, n, NULL, error, 256), 0);
            const double of_many = net_forward(&many, images, labels, N, true,
                                               3, 0, &right_of_many);
            net_backward(&many, 1.0f / N, NULL, NULL);
            cr_assert_float_eq(of_many, loss, 1e-6 * loss);
            cr_assert_eq(right, right_of_many);
            for (size_t i = 0; i < one.grads.count; i++)
                cr_assert_lt(fabs(many.grads.x[i] - one.grads.x[i]),
                             1e-6 * largest, "%d threads, gradient %zu", n, i);
            net_free(&many);
        }
        net_free(&one);
    }
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
    make_net(&net, small_net, 3);
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
    make_net(&a, small_net, 4);
    make_net(&b, small_net, 9);
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
    make_net(&net, small_net, 2);
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
    make_net(&net, text, 1);
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
    make_net(&net, "input 3x1x1\nsoftmax_loss", 2);
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
    make_net(&a, small_net, 1);
    make_net(&b, small_net, 8);
    cr_assert_arr_eq(a.params.x, b.params.x, a.params.count * sizeof(float));
    net_init(&b, SEED + 1);
    cr_assert_neq(a.params.x[0], b.params.x[0]);
    net_free(&a);
    net_free(&b);
    make_net(&a, "input 4x1x1\ndense 4\ndense 4\nsoftmax_loss", 1);
    cr_assert_neq(a.params.x[0], a.params.x[20]);
    /* The same on every machine, so also the same for ever. */
    cr_assert_eq(a.params.x[0],
                 sqrtf(0.75f) * (2 * random_unit(random_u64(SEED, 0), 0) - 1));
    net_free(&a);
}

Test(net, state_is_kept_in_training_and_used_in_evaluation)
{
    const char *const text = "input 2x3x3\nbatchnorm momentum 0.25\n"
                             "dense 2\nsoftmax_loss\n";
    struct net net;
    float images[4 * 18];
    int labels[4];
    make_net(&net, text, 4);
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
