/* SPDX-License-Identifier: MIT */
/* What is done with gradients: clipping, tensors, threads, the mean. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "random.h"
#include "update.h"

static const char text[] = "input 1x8x8\n"
                           "conv 20 3x3\n"
                           "batchnorm\n"
                           "relu\n"
                           "dense 10\n"
                           "softmax_loss\n";

static void make(struct net *net, struct update *u, const char *name)
{
    char error[256];
    cr_assert_eq(net_create(net, text, 2, error, sizeof(error)), 0, "%s",
                 error);
    net_init(net, 3);
    u->optim = optim_find(name, error, sizeof(error));
    cr_assert(u->optim, "%s", error);
    for (int i = 0; i < OPTIM_NNUMBERS; i++)
        u->settings.numbers[i] = NAN;
    cr_assert_eq(optim_complete(u->optim, &u->settings, error, sizeof(error)),
                 0, "%s", error);
    cr_assert_eq(update_open(u, net, NULL), 0);
    for (size_t i = 0; i < net->grads.count; i++)
        net->grads.x[i] = random_unit(7, i) - 0.5f;
}

static void drop(struct net *net, struct update *u)
{
    update_close(u);
    net_free(net);
}

static double distance(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sqrt(sum);
}

Test(update, long_gradients_are_shortened)
{
    for (int i = 0; i < 2; i++) {
        struct net net;
        struct update u = {.clip_norm = i ? 0.5 : 1e6};
        static float before[1 << 14];
        make(&net, &u, "sgd");
        const size_t n = net.params.count;
        const double length = sqrt(optim_square(net.grads.x, n));
        cr_assert(n < 1 << 14 && length > 1 && length < 1e6);
        memcpy(before, net.params.x, n * sizeof(float));
        update_step(&u, &net, 0.25, 1);
        const double moved = distance(net.params.x, before, n);
        cr_assert_float_eq(moved, 0.25 * (i ? 0.5 : length), 1e-4 * length);
        drop(&net, &u);
    }
}

/* With lars each weight tensor moves by lr * trust * |w|, vectors by lr * |g|.
 */
Test(update, lars_takes_each_tensor_by_itself)
{
    struct net net;
    struct update u = {0};
    static float before[1 << 14];
    make(&net, &u, "lars");
    memcpy(before, net.params.x, net.params.count * sizeof(float));
    update_step(&u, &net, 0.5, 1);
    const struct layer *conv = &net.layers[0], *norm = &net.layers[1],
                       *dense = &net.layers[3];
    const struct {
        const struct layer *l;
        size_t first, count;
        bool vector;
    } tensors[] = {
        {conv,  0,                   20 * 9,              false},
        {conv,  20 * 9,              20,                  true },
        {norm,  0,                   20,                  true },
        {norm,  20,                  20,                  true },
        {dense, 0,                   dense->nparams - 10, false},
        {dense, dense->nparams - 10, 10,                  true },
    };
    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
        const size_t at =
            (size_t)(tensors[i].l->params - net.params.x) + tensors[i].first;
        const double was = sqrt(optim_square(before + at, tensors[i].count)),
                     slope = sqrt(
                         optim_square(net.grads.x + at, tensors[i].count)),
                     want = 0.5 * (tensors[i].vector ? slope : 0.001 * was);
        const double moved =
            distance(net.params.x + at, before + at, tensors[i].count);
        cr_assert_float_eq(moved, want, 1e-3 * want, "tensor %zu: %g, not %g",
                           i, moved, want);
    }
    drop(&net, &u);
}

Test(update, threads_give_the_same_bits)
{
    struct net one, three;
    struct update a = {.average = 0.75}, b = {.average = 0.75};
    char error[256];
    make(&one, &a, "adamw");
    make(&three, &b, "adamw");
    cr_assert_eq(net_use_threads(&three, 3, NULL, error, sizeof(error)), 0);
    for (int step = 1; step < 4; step++) {
        update_step(&a, &one, 0.01, step);
        update_step(&b, &three, 0.01, step);
    }
    cr_assert(!memcmp(one.params.x, three.params.x,
                      one.params.count * sizeof(float)));
    cr_assert(!memcmp(a.state.x, b.state.x, a.state.count * sizeof(float)));
    drop(&one, &a);
    drop(&three, &b);
}

Test(update, the_mean_follows_the_weights)
{
    struct net net;
    struct update u = {.average = 0.75};
    static double want[1 << 14];
    make(&net, &u, "sgd");
    const size_t n = net.params.count;
    for (size_t i = 0; i < n; i++)
        want[i] = net.params.x[i];
    for (int step = 1; step < 10; step++) {
        update_step(&u, &net, 0.01, step);
        for (size_t i = 0; i < n; i++)
            want[i] = 0.75 * want[i] + 0.25 * net.params.x[i];
    }
    const float last = net.params.x[5];
    update_swap(&u, &net);
    for (size_t i = 0; i < n; i++)
        cr_assert_float_eq(net.params.x[i], want[i], 1e-5);
    update_swap(&u, &net);
    cr_assert_eq(net.params.x[5], last);
    drop(&net, &u);
}
