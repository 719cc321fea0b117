/* SPDX-License-Identifier: MIT */
/* A net's threads, alone, so that the thread sanitizer sees all they do: with
 * fixed sums any number of them gives the same bits, and so it does without
 * where they share out outputs. */
#include <string.h>

#include "checks.h"
#include "net/net.h"
#include "random.h"

enum { BATCH = 12, IMAGE = 3 * 8 * 8, CLASSES = 5 };

/* All ways to convolve, and all layers with sums over images. */
static const char all_kinds[] = "input 3x8x8\n"
                                "conv 32 5x5 pad 2\n"
                                "batchnorm\n"
                                "relu\n"
                                "a: conv 32 3x3 pad 1 groups 2\n"
                                "b: prelu\n"
                                "add from a b\n"
                                "lrn 3\n"
                                "maxpool 2x2\n"
                                "conv 12 3x3 groups 4\n"
                                "scale\n"
                                "bias\n"
                                "dropout 0.3\n"
                                "dense 20\n"
                                "dense 5\n"
                                "softmax_loss\n";

/* Of so few positions that weights are what takes long. */
static const char large_weights[] = "input 3x8x8\n"
                                    "maxpool 2x2\n"
                                    "conv 96 1x1\n"
                                    "relu\n"
                                    "conv 128 3x3 pad 1\n"
                                    "relu\n"
                                    "conv 96 3x3 stride 2 pad 1\n"
                                    "relu\n"
                                    "conv 192 1x1 nobias\n"
                                    "batchnorm\n"
                                    "relu\n"
                                    "conv 64 1x1 stride 2 nobias\n"
                                    "dense 5\n"
                                    "softmax_loss\n";

/* Two steps without an optimiser. */
static void learn(struct net *net, const char *text, bool fixed, int nthreads,
                  int images)
{
    float x[BATCH * IMAGE];
    int labels[BATCH];
    char error[256] = "";
    for (int i = 0; i < BATCH * IMAGE; i++)
        x[i] = 2 * random_unit(1, (uint64_t)i) - 1;
    for (int i = 0; i < BATCH; i++)
        labels[i] = i % CLASSES;
    require(!net_create(net, text, BATCH, error, sizeof(error))
                && !(fixed && net_fix_sums(net, error, sizeof(error)))
                && !net_use_threads(net, nthreads, NULL, error, sizeof(error)),
            "%s", error);
    net_init(net, 2);
    for (uint64_t step = 0; step < 2; step++) {
        net_forward(net, x, labels, images, true, step, 0, NULL);
        net_backward(net, 1.0f / BATCH, NULL, NULL);
    }
}

static bool same(const struct arena *a, const struct arena *b)
{
    return a->count == b->count
           && !memcmp(a->x, b->x, a->count * sizeof(float));
}

static void threads_come_to_one_s(const char *text, bool fixed)
{
    const int images[] = {BATCH, BATCH - 1, 3, 1};
    for (int i = 0; i < 4; i++) {
        struct net one, many;
        learn(&one, text, fixed, 1, images[i]);
        for (int n = 2; n <= 9; n++) {
            learn(&many, text, fixed, n, images[i]);
            require(same(&many.grads, &one.grads), "other gradients");
            require(same(&many.state, &one.state), "other running means");
            net_free(&many);
        }
        net_free(&one);
    }
}

static void fixed_sums_have_the_same_bits(void)
{
    threads_come_to_one_s(all_kinds, true);
}

static void shares_of_outputs_do(void)
{
    threads_come_to_one_s(large_weights, false);
}

int main(void)
{
    static const struct check checks[] = {
        {"fixed sums have the same bits with any number of threads",
         fixed_sums_have_the_same_bits                                                   },
        {"shares of outputs do",                                     shares_of_outputs_do},
    };
    return run_checks(checks, sizeof(checks) / sizeof(checks[0]));
}
