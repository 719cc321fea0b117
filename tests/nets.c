/* SPDX-License-Identifier: MIT */
#include "nets.h"

#include <criterion/criterion.h>

#include "random.h"

const char small_net[] = "net small # layers in a row\n"
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

const char branched_net[] = "input 3x6x6\n"
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

void make_net(struct net *net, const char *text, int batch)
{
    char error[200] = "";
    cr_assert_eq(net_create(net, text, batch, error, sizeof(error)), 0, "%s",
                 error);
    net_init(net, SEED);
}

void make_batch(const struct net *net, float *images, int *labels, int n)
{
    const size_t size = shape_count(net->input) / (size_t)net->input.n;
    for (size_t i = 0; i < size * (size_t)n; i++)
        images[i] = 2 * random_unit(SEED, i) - 1;
    for (int i = 0; i < n; i++)
        labels[i] =
            (int)random_below(SEED + 1, (uint64_t)i, (uint32_t)net->nclasses);
}
