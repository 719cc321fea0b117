/* SPDX-License-Identifier: MIT */
/* Texts of nets: the ones that are built in, and what is said about bad ones.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/parse.h"
#include "nets.h"
#include "random.h"

/* The counts that the literature has. */
Test(net_parse, built_in_nets_have_their_parameters)
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
        {"alexnet_cifar",     3044170,   10  },
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
    {"input 1x8x8\nconv 2 3x3 pad 1 pad 1\n", 2, 18, "each of its options once"},
    {"input 1x8x8\nconv 2 3x3 nobias nobias\n", 2, 19, "once"},
    {"input 1x8x8\nbatchnorm eps 1 eps 1\n", 2, 17, "once"},
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

Test(net_parse, errors_name_line_column_and_what_is_valid)
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

Test(net_parse, every_truncation_of_a_text_is_refused_or_whole)
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

Test(net_parse, any_words_are_refused_or_a_net)
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
