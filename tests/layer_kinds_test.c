/* SPDX-License-Identifier: MIT */
/* What each kind of layer promises: its shape, its numbers, its first weights.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/conv.h"
#include "layer_bench.h"

Test(layer_kinds, shapes_follow_the_words)
{
    const struct {
        const char *line;
        struct shape out;
    } rows[] = {
        {"conv 5 3x2",                 {2, 5, 7, 12}        },
        {"conv 5 3x2 stride 2",        {2, 5, 4, 6}         },
        {"conv 5 3x2 pad 1",           {2, 5, 9, 14}        },
        {"conv 5 3x3 pad 2 stride 3",  {2, 5, 4, 5}         },
        {"maxpool 3x2",                {2, 4, 3, 6}         },
        {"maxpool 2x3 stride 2 ceil",  {2, 4, 5, 6}         },
        {"maxpool 2x2 ceil pad 1",     {2, 4, 5, 7}         },
        {"avgpool global",             {2, 4, 1, 1}         },
        {"conv 6 3x3 dilation 3",      {2, 6, 3, 7}         },
        {"batchnorm",                  {2, 4, 9, 13}        },
        {"lrn 5",                      {2, 4, 9, 13}        },
        {"maxpool 3x2 stride 1",       {2, 4, 7, 12}        },
        {"avgpool 3x3 stride 2 pad 1", {2, 4, 5, 7}         },
        {"relu",                       {2, 4, 9, 13}        },
        {"dropout 0.5",                {2, 4, 9, 13}        },
        {"dense 6",                    {2, 6, 1, 1}         },
        {"softmax_loss",               {2, 4 * 9 * 13, 1, 1}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bench b;
        setup(&b, rows[i].line, (struct shape){2, 4, 9, 13}, 1);
        cr_assert_arr_eq(&b.l.out, &rows[i].out, sizeof(struct shape), "%s",
                         rows[i].line);
        teardown(&b);
    }
}

static float number(struct shape s, const float *x, int n, int c, int row,
                    int column)
{
    return x[(size_t)n * image_floats(s)
             + blocked_index(s, c, (size_t)(row * s.w + column))];
}

static double direct(const struct bench *b, int image, int out, int row,
                     int column)
{
    const struct layer *l = &b->l;
    const struct window_option *o = &l->option.window;
    const int kh = o->kernel_h, kw = o->kernel_w, in = l->in.c / o->groups;
    double sum =
        o->no_bias ? 0 : l->params[(size_t)l->out.c * in * kh * kw + out];
    for (int c = 0; c < in; c++)
        for (int i = 0; i < kh; i++)
            for (int j = 0; j < kw; j++) {
                const int r = row * o->stride_h + i * o->dilation - o->pad;
                const int s = column * o->stride_w + j * o->dilation - o->pad;
                if (r < 0 || r >= l->in.h || s < 0 || s >= l->in.w)
                    continue;
                sum += (double)l->params[((out * in + c) * kh + i) * kw + j]
                       * number(l->in, b->x[0].x, image,
                                out / (l->out.c / o->groups) * in + c, r, s);
            }
    return sum;
}

static void check_conv(const char *line, bool plain)
{
    struct bench b;
    setup(&b, line, (struct shape){2, 4, 7, 9}, 2);
    float images[2 * 4 * 7 * 9];
    struct tensor x = view(b.l.in, 2, &b.x[0]);
    if (plain) {
        if (!b.l.ops->takes_plain(&b.l)) {
            teardown(&b);
            return;
        }
        b.l.plain = true;
        conv_to_plain(x.x, images, 2, 4, 7, 9);
        x.x = images;
    }
    b.l.ops->forward(&b.l, &x, view(b.l.out, 2, &b.y));
    for (int n = 0; n < 2; n++)
        for (int c = 0; c < b.l.out.c; c++)
            for (int i = 0; i < b.l.out.h; i++)
                for (int j = 0; j < b.l.out.w; j++)
                    cr_assert_eq(number(b.l.out, b.y.x, n, c, i, j),
                                 direct(&b, n, c, i, j), "%s, output %d", line,
                                 c);
    teardown(&b);
}

Test(layer_kinds, conv_is_the_direct_sum)
{
    const char *const more[] = {"", " groups 2", " dilation 2", " nobias"};
    for (int kernel = 1; kernel <= 3; kernel++)
        for (int stride = 1; stride <= 4; stride++)
            for (int pad = 0; pad < kernel; pad++)
                for (int i = 0; i < 8; i++) {
                    char line[80];
                    snprintf(line, sizeof(line),
                             "conv 6 %dx%d stride %d pad %d%s", kernel, kernel,
                             stride, pad, more[i / 2]);
                    check_conv(line, i % 2);
                }
    check_conv("conv 3 5x6 pad 4", false);
    check_conv("conv 3 5x6 pad 4 stride 3", true);
}

Test(layer_kinds, pools_take_the_largest_and_the_mean)
{
    const float x[] = {1, -2, 3, 4, 0.5f, -6, 7, -8, 9};
    const float largest[] = {1, 3, 7, 9}, mean[] = {1, 0.5f, 5.5f, -1.125f};
    struct bench b;
    setup(&b, "maxpool 2x2 stride 2 pad 1", (struct shape){1, 1, 3, 3}, 1);
    put(&b.x[0], b.l.in, x);
    run_forward(&b);
    expect_plain(&b.y, b.l.out, largest);
    teardown(&b);
    setup(&b, "avgpool 2x2 stride 2 pad 1", (struct shape){1, 1, 3, 3}, 1);
    put(&b.x[0], b.l.in, x);
    run_forward(&b);
    expect_plain(&b.y, b.l.out, mean);
    teardown(&b);
}

Test(layer_kinds, maxpool_gives_the_gradient_to_the_first_of_equal_ones)
{
    struct bench b;
    setup(&b, "maxpool 2x2", (struct shape){1, 1, 2, 2}, 1);
    put(&b.x[0], b.l.in, (float[]){-1, 3, 3, 3});
    b.dy.x[0] = 5;
    run_forward(&b);
    run_backward(&b, true);
    expect_plain(&b.dx[0], b.l.in, (float[]){0, 5, 0, 0});
    teardown(&b);
}

Test(layer_kinds, relu_has_gradient_zero_at_zero)
{
    struct bench b;
    setup(&b, "relu", (struct shape){1, 3, 1, 1}, 1);
    put(&b.x[0], b.l.in, (float[]){-1, 0, 2});
    put(&b.dy, b.l.out, (float[]){5, 5, 5});
    run_forward(&b);
    run_backward(&b, true);
    expect_plain(&b.y, b.l.out, (float[]){0, 0, 2});
    expect_plain(&b.dx[0], b.l.in, (float[]){0, 0, 5});
    teardown(&b);
}

Test(layer_kinds, dropout_is_identity_in_evaluation)
{
    struct bench b;
    setup(&b, "dropout 0.5", (struct shape){3, 2, 4, 4}, 3);
    run_forward(&b);
    b.l.training = false;
    run_forward(&b);
    run_backward(&b, true);
    cr_assert_arr_eq(b.y.x, b.x[0].x, b.y.count * sizeof(float));
    cr_assert_arr_eq(b.dx[0].x, b.dy.x, b.y.count * sizeof(float));
    teardown(&b);
}

Test(layer_kinds, dropout_drops_its_rate_and_keeps_the_mean)
{
    const int count = 100000;
    const double rate = 0.3;
    struct bench b;
    setup(&b, "dropout 0.3", (struct shape){1, count, 1, 1}, 1);
    int dropped = 0;
    for (int i = 0; i < count; i++)
        b.x[0].x[i] = 1;
    run_forward(&b);
    for (int i = 0; i < count; i++) {
        dropped += b.y.x[i] == 0;
        cr_assert(b.y.x[i] == 0 || fabs(b.y.x[i] - 1 / (1 - rate)) < 1e-6);
    }
    /* five standard deviations of a binomial count */
    cr_assert_lt(fabs(dropped - rate * count),
                 5 * sqrt(count * rate * (1 - rate)));
    teardown(&b);
}

Test(layer_kinds, dropout_depends_on_seed_and_place_in_the_global_batch)
{
    struct bench whole, half, other;
    const struct shape in = {4, 1, 8, 8};
    setup(&whole, "dropout 0.5", in, 4);
    setup(&half, "dropout 0.5", in, 2);
    setup(&other, "dropout 0.5", in, 4);
    half.l.first_image = 2;
    other.l.seed++;
    memcpy(half.x[0].x, whole.x[0].x + 2048, 2048 * sizeof(float));
    run_forward(&whole);
    run_forward(&half);
    run_forward(&other);
    cr_assert_arr_eq(half.y.x, whole.y.x + 2048, 2048 * sizeof(float));
    int differ = 0, images_differ = 0;
    for (int i = 0; i < 4 * 1024; i++)
        differ += !whole.y.x[i] != !other.y.x[i];
    for (int i = 0; i < 1024; i++)
        images_differ += !whole.y.x[i] != !whole.y.x[1024 + i];
    cr_assert_gt(differ, 64);
    cr_assert_gt(images_differ, 16);
    teardown(&whole);
    teardown(&half);
    teardown(&other);
}

Test(layer_kinds, softmax_loss_stands_large_numbers)
{
    struct bench b;
    setup(&b, "softmax_loss", (struct shape){1, 3, 1, 1}, 1);
    put(&b.x[0], b.l.in, (float[]){1e4f, 0, -3e38f});
    put(&b.dy, b.l.out, (float[]){0, -1, 0});
    run_forward(&b);
    run_backward(&b, true);
    cr_assert_eq(b.y.x[0], 0);
    cr_assert_eq(b.y.x[1], -1e4f);
    expect_plain(&b.dx[0], b.l.in, (float[]){1, -1, 0});
    teardown(&b);
}

Test(layer_kinds, initial_weights_keep_the_variance_and_biases_are_zero)
{
    const char *const lines[] = {"conv 40 5x5", "dense 50"};
    for (int i = 0; i < 4; i++) {
        struct bench b;
        setup(&b, lines[i / 2], (struct shape){1, 20, 7, 7}, 1);
        b.l.before_relu = i % 2;
        const size_t nbiases = (size_t)b.l.out.c,
                     count = b.params.count - nbiases;
        const double fan_in = (double)count / (double)nbiases;
        double sum = 0, squares = 0;
        b.l.ops->init(&b.l, SEED);
        for (size_t j = 0; j < count; j++) {
            sum += b.params.x[j];
            squares += b.params.x[j] * (double)b.params.x[j];
        }
        /* Five standard deviations: of a mean of uniform numbers sigma / sqrt
         * n, of their squares' mean sigma^2 sqrt(4 / 5 / n). */
        const double variance = (1 + i % 2) / fan_in, n = (double)count;
        cr_assert_lt(fabs(sum / n), 5 * sqrt(variance / n), "%s", lines[i / 2]);
        cr_assert_lt(fabs(squares / n - variance), 5 * variance * sqrt(0.8 / n),
                     "%s", lines[i / 2]);
        for (size_t j = count; j < b.params.count; j++)
            cr_assert_eq(b.params.x[j], 0);
        teardown(&b);
    }
}
