/* SPDX-License-Identifier: MIT */
/* Every layer: its gradients against differences of its own forward, and what
 * each promises besides.
 *
 * Most cases are exact. Inputs, parameters and the weights of the loss are
 * multiples of 1/8, and the step of the differences is 1/64, so that every
 * product and sum is a multiple of 1/512 below 2^24/512 and float has it whole.
 * Then a gradient that is right is equal, and the tolerance is 0.
 */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/im2col.h"
#include "layer/layer.h"
#include "random.h"

enum { SEED = 20 };
static const double step = 1.0 / 64;

struct layer_case {
    const char *line;
    struct shape in;
    int n;      /* images given, at most in.n */
    int rounds; /* 0: exact. 1: float rounds, and y may be curved. More: as much
                   more, as parts of the sums are rounded */
};

static const struct layer_case cases[] = {
    {"conv 3 3x3",                 {2, 2, 6, 5},  2, 0 },
    {"conv 2 3x3 pad 1",           {2, 3, 5, 5},  1, 0 },
    {"conv 4 5x3 stride 2 pad 2",  {3, 1, 8, 7},  3, 0 },
    {"conv 2 1x1",                 {1, 3, 3, 4},  1, 0 },
    {"conv 1 2x2 stride 3",        {2, 2, 8, 8},  2, 0 },
    {"conv 2 4x4",                 {2, 2, 4, 4},  2, 0 },
    {"conv 16 3x3 stride 2 pad 1", {2, 16, 5, 4}, 2, 0 },
    {"conv 32 3x3 pad 1",          {1, 32, 5, 3}, 1, 40},
    {"maxpool 2x2",                {2, 2, 6, 6},  2, 0 },
    {"maxpool 3x3 stride 2 pad 1", {2, 1, 7, 6},  1, 0 },
    {"maxpool 3x2 stride 1",       {1, 2, 5, 5},  1, 0 },
    {"maxpool 2x2 stride 3",       {2, 1, 8, 8},  2, 0 },
    {"avgpool 2x2",                {2, 2, 6, 6},  2, 0 },
    {"avgpool 2x4 stride 1",       {2, 2, 5, 6},  1, 0 },
    {"avgpool 3x3 stride 2 pad 1", {2, 2, 7, 7},  2, 1 },
    {"relu",                       {3, 2, 4, 4},  2, 0 },
    {"dense 7",                    {4, 2, 3, 3},  4, 0 },
    {"dense 1",                    {2, 5, 1, 1},  1, 0 },
    {"dropout 0.5",                {3, 2, 4, 4},  2, 0 },
    {"dropout 0.3",                {3, 2, 4, 4},  3, 1 },
    {"dropout 0",                  {2, 1, 4, 4},  2, 0 },
    {"softmax_loss",               {4, 10, 1, 1}, 3, 1 },
    {"softmax_loss",               {2, 2, 2, 1},  2, 1 },
};

enum { NCASES = sizeof(cases) / sizeof(cases[0]) };

/* A layer with its floats. One number of canary lies behind each array. */
struct bench {
    struct layer l;
    struct arena params, grads, saved, scratch, x, y, dy, dx;
    int n;
};

static const float canary = 12345;

static float *with_canary(struct arena *a, size_t count)
{
    cr_assert_eq(arena_alloc(a, count + 1), 0);
    a->x[count] = canary;
    a->count = count;
    return a->x;
}

static const char *parse_line(struct layer *l, char *text)
{
    char *words[16];
    int nwords = 0;
    for (char *w = strtok(text, " "); w; w = strtok(NULL, " "))
        words[nwords++] = w;
    l->ops = layer_find(words[0]);
    cr_assert_not_null(l->ops, "no layer %s", words[0]);
    return l->ops->parse(l, nwords - 1, words + 1);
}

/* Multiples of 1/8 from -2 to 2 without 0, or all different and shuffled where
 * a largest one is sought. */
static void fill(float *x, size_t count, bool different, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        const int eighths = 1 + (int)random_below(seed, i, 16);
        x[i] = (float)(random_u64(seed, i) & 1 ? eighths : -eighths) / 8;
        if (different)
            x[i] = ((float)i - (float)count / 2) / 8;
    }
    for (size_t i = count; different && i > 1; i--) {
        const size_t j = random_below(seed, i, (uint32_t)i);
        const float swap = x[j];
        x[j] = x[i - 1];
        x[i - 1] = swap;
    }
}

static void setup(struct bench *b, const char *line, struct shape in, int n)
{
    char text[80];
    memset(b, 0, sizeof(*b));
    snprintf(text, sizeof(text), "%s", line);
    b->l.in = in;
    b->n = n;
    const char *why = parse_line(&b->l, text);
    cr_assert_null(why, "%s: %s", line, why);
    b->l.params = with_canary(&b->params, b->l.nparams);
    b->l.grads = with_canary(&b->grads, b->l.nparams);
    b->l.saved = with_canary(&b->saved, b->l.nsaved);
    b->l.scratch = with_canary(&b->scratch, b->l.nscratch);
    struct shape x = in, y = b->l.out;
    x.n = y.n = n;
    with_canary(&b->x, shape_count(x));
    with_canary(&b->dx, shape_count(x));
    with_canary(&b->y, shape_count(y));
    with_canary(&b->dy, shape_count(y));
    b->l.training = true;
    b->l.seed = SEED;
    fill(b->x.x, b->x.count, !strncmp(line, "maxpool", 7), SEED);
    fill(b->params.x, b->params.count, false, SEED + 1);
    fill(b->dy.x, b->dy.count, false, SEED + 2);
}

static void teardown(struct bench *b)
{
    struct arena *all[] = {&b->params, &b->grads, &b->saved, &b->scratch,
                           &b->x,      &b->y,     &b->dy,    &b->dx};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        cr_assert_eq(all[i]->x[all[i]->count], canary, "array %zu of %s", i,
                     b->l.ops->name);
        arena_free(all[i]);
    }
}

static struct tensor view(struct shape s, int n, struct arena *a)
{
    s.n = n;
    return (struct tensor){s, a->x};
}

static void run_forward(struct bench *b)
{
    b->l.ops->forward(&b->l, view(b->l.in, b->n, &b->x),
                      view(b->l.out, b->n, &b->y));
}

static void run_backward(struct bench *b, bool with_dx)
{
    struct tensor dx = view(b->l.in, b->n, &b->dx);
    if (!with_dx)
        dx.x = NULL;
    b->l.ops->backward(&b->l, view(b->l.in, b->n, &b->x),
                       view(b->l.out, b->n, &b->y),
                       view(b->l.out, b->n, &b->dy), dx);
}

/* The difference quotient of sum(dy y) by *at, in double, and how far it may be
 * from the gradient. Rounding: y and the gradient's terms err by a few (4) eps;
 * outputs that do not depend on *at are equal bit by bit and cancel. Curvature:
 * the third derivative of log(sum exp) is below 0.1, so the error of a
 * difference is below step^2 / 6 * 0.1 * sum |dy|. */
static double quotient(struct bench *b, float *at, float *y_before,
                       double *tolerance)
{
    const float was = *at;
    double sum = 0, rounding = 0, curvature = 0;
    *at = was - (float)step;
    run_forward(b);
    memcpy(y_before, b->y.x, b->y.count * sizeof(float));
    *at = was + (float)step;
    run_forward(b);
    *at = was;
    for (size_t i = 0; i < b->y.count; i++) {
        const double dy = b->dy.x[i], low = y_before[i], high = b->y.x[i];
        sum += dy * (high - low);
        if (high != low) {
            rounding += fabs(dy) * (fabs(high) + fabs(low));
            curvature += fabs(dy) * 0.1 * step * step / 6;
        }
    }
    *tolerance = 4 * FLT_EPSILON / 2 * rounding / (2 * step) + curvature;
    return sum / (2 * step);
}

static void compare(struct bench *b, const struct layer_case *c, float *x,
                    const float *gradient, size_t count, const char *what)
{
    float *y_before = malloc(b->y.count * sizeof(float));
    double nonzero = 0;
    for (size_t i = 0; i < count; i++) {
        double tolerance;
        const double numeric = quotient(b, &x[i], y_before, &tolerance);
        cr_assert_leq(fabs(numeric - gradient[i]), c->rounds * tolerance,
                      "%s, d%s[%zu]: %.9g, differences say %.9g", c->line, what,
                      i, gradient[i], numeric);
        nonzero += numeric != 0;
    }
    cr_assert(!count || nonzero, "%s: all d%s are 0", c->line, what);
    free(y_before);
}

Test(layers, gradients_equal_differences)
{
    for (int i = 0; i < NCASES; i++) {
        struct bench b;
        setup(&b, cases[i].line, cases[i].in, cases[i].n);
        run_forward(&b);
        run_backward(&b, true);
        compare(&b, &cases[i], b.x.x, b.dx.x, b.x.count, "x");
        compare(&b, &cases[i], b.params.x, b.grads.x, b.params.count, "params");
        teardown(&b);
    }
}

Test(layers, every_row_has_a_case)
{
    for (int i = 0; i < nlayers; i++) {
        int found = 0;
        const size_t length = strlen(layers[i]->name);
        for (int j = 0; j < NCASES; j++)
            found += !strncmp(cases[j].line, layers[i]->name, length)
                     && strchr(" ", cases[j].line[length]);
        cr_assert(found, "%s: add cases to cases[]", layers[i]->name);
        cr_assert_eq(layer_find(layers[i]->name), layers[i]);
    }
    cr_assert_null(layer_find("no such layer"));
}

Test(layers, repeat_bit_by_bit_and_add_to_gradients)
{
    for (int i = 0; i < NCASES; i++) {
        struct bench a, b;
        setup(&a, cases[i].line, cases[i].in, cases[i].n);
        setup(&b, cases[i].line, cases[i].in, cases[i].n);
        fill(b.dx.x, b.dx.count, false, 1);
        fill(b.saved.x, b.saved.count, false, 2);
        fill(b.scratch.x, b.scratch.count, false, 3);
        fill(b.y.x, b.y.count, false, 4);
        run_forward(&a);
        run_backward(&a, true);
        run_forward(&b);
        run_backward(&b, true);
        cr_assert_arr_eq(a.y.x, b.y.x, a.y.count * sizeof(float));
        cr_assert_arr_eq(a.dx.x, b.dx.x, a.dx.count * sizeof(float));
        cr_assert_arr_eq(a.grads.x, b.grads.x, a.grads.count * sizeof(float));
        run_backward(&b, false);
        for (size_t j = 0; j < a.grads.count; j++)
            cr_assert_eq(b.grads.x[j], 2 * a.grads.x[j], "%s, gradient %zu",
                         cases[i].line, j);
        teardown(&a);
        teardown(&b);
    }
}

Test(layers, shapes_follow_the_words)
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

static double direct(const struct bench *b, int image, int out, int row,
                     int column)
{
    const struct layer *l = &b->l;
    const int kh = l->option.window.kernel_h, kw = l->option.window.kernel_w;
    double sum = l->params[(size_t)l->out.c * l->in.c * kh * kw + out];
    for (int c = 0; c < l->in.c; c++)
        for (int i = 0; i < kh; i++)
            for (int j = 0; j < kw; j++) {
                const int r =
                    row * l->option.window.stride_h + i - l->option.window.pad;
                const int s = column * l->option.window.stride_w + j
                              - l->option.window.pad;
                if (r < 0 || r >= l->in.h || s < 0 || s >= l->in.w)
                    continue;
                sum +=
                    (double)l->params[((out * l->in.c + c) * kh + i) * kw + j]
                    * b->x.x[((image * l->in.c + c) * l->in.h + r) * l->in.w
                             + s];
            }
    return sum;
}

Test(layers, conv_is_the_direct_sum)
{
    for (int kernel = 1; kernel <= 5; kernel++)
        for (int stride = 1; stride <= 4; stride++)
            for (int pad = 0; pad < kernel; pad++) {
                char line[80];
                struct bench b;
                snprintf(line, sizeof(line), "conv 3 %dx%d stride %d pad %d",
                         kernel, kernel == 5 ? 2 + pad : kernel, stride, pad);
                setup(&b, line, (struct shape){2, 2, 7, 9}, 2);
                run_forward(&b);
                size_t at = 0;
                for (int n = 0; n < 2; n++)
                    for (int c = 0; c < b.l.out.c; c++)
                        for (int i = 0; i < b.l.out.h; i++)
                            for (int j = 0; j < b.l.out.w; j++, at++)
                                cr_assert_eq(b.y.x[at], direct(&b, n, c, i, j),
                                             "%s, output %zu", line, at);
                teardown(&b);
            }
}

Test(layers, pools_take_the_largest_and_the_mean)
{
    const float x[] = {1, -2, 3, 4, 0.5f, -6, 7, -8, 9};
    const float largest[] = {1, 3, 7, 9}, mean[] = {1, 0.5f, 5.5f, -1.125f};
    struct bench b;
    setup(&b, "maxpool 2x2 stride 2 pad 1", (struct shape){1, 1, 3, 3}, 1);
    memcpy(b.x.x, x, sizeof(x));
    run_forward(&b);
    cr_assert_arr_eq(b.y.x, ((float[]){1, 3, 7, 9}), sizeof(largest));
    teardown(&b);
    setup(&b, "avgpool 2x2 stride 2 pad 1", (struct shape){1, 1, 3, 3}, 1);
    memcpy(b.x.x, x, sizeof(x));
    run_forward(&b);
    cr_assert_arr_eq(b.y.x, mean, sizeof(mean));
    teardown(&b);
}

Test(layers, maxpool_gives_the_gradient_to_the_first_of_equal_ones)
{
    struct bench b;
    setup(&b, "maxpool 2x2", (struct shape){1, 1, 2, 2}, 1);
    memcpy(b.x.x, ((float[]){-1, 3, 3, 3}), 4 * sizeof(float));
    b.dy.x[0] = 5;
    run_forward(&b);
    run_backward(&b, true);
    cr_assert_arr_eq(b.dx.x, ((float[]){0, 5, 0, 0}), 4 * sizeof(float));
    teardown(&b);
}

Test(layers, relu_has_gradient_zero_at_zero)
{
    struct bench b;
    setup(&b, "relu", (struct shape){1, 3, 1, 1}, 1);
    memcpy(b.x.x, ((float[]){-1, 0, 2}), 3 * sizeof(float));
    memcpy(b.dy.x, ((float[]){5, 5, 5}), 3 * sizeof(float));
    run_forward(&b);
    run_backward(&b, true);
    cr_assert_arr_eq(b.y.x, ((float[]){0, 0, 2}), 3 * sizeof(float));
    cr_assert_arr_eq(b.dx.x, ((float[]){0, 0, 5}), 3 * sizeof(float));
    teardown(&b);
}

Test(layers, dropout_is_identity_in_evaluation)
{
    struct bench b;
    setup(&b, "dropout 0.5", (struct shape){3, 2, 4, 4}, 3);
    run_forward(&b);
    b.l.training = false;
    run_forward(&b);
    run_backward(&b, true);
    cr_assert_arr_eq(b.y.x, b.x.x, b.x.count * sizeof(float));
    cr_assert_arr_eq(b.dx.x, b.dy.x, b.x.count * sizeof(float));
    teardown(&b);
}

Test(layers, dropout_drops_its_rate_and_keeps_the_mean)
{
    const int count = 100000;
    const double rate = 0.3;
    struct bench b;
    setup(&b, "dropout 0.3", (struct shape){1, count, 1, 1}, 1);
    int dropped = 0;
    for (int i = 0; i < count; i++)
        b.x.x[i] = 1;
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

Test(layers, dropout_depends_on_seed_and_place_in_the_global_batch)
{
    struct bench whole, half, other;
    const struct shape in = {4, 1, 8, 8};
    setup(&whole, "dropout 0.5", in, 4);
    setup(&half, "dropout 0.5", in, 2);
    setup(&other, "dropout 0.5", in, 4);
    half.l.first_image = 2;
    other.l.seed++;
    memcpy(half.x.x, whole.x.x + 128, 128 * sizeof(float));
    run_forward(&whole);
    run_forward(&half);
    run_forward(&other);
    cr_assert_arr_eq(half.y.x, whole.y.x + 128, 128 * sizeof(float));
    int differ = 0, images_differ = 0;
    for (int i = 0; i < 256; i++)
        differ += !whole.y.x[i] != !other.y.x[i];
    for (int i = 0; i < 64; i++)
        images_differ += !whole.y.x[i] != !whole.y.x[64 + i];
    cr_assert_gt(differ, 64);
    cr_assert_gt(images_differ, 16);
    teardown(&whole);
    teardown(&half);
    teardown(&other);
}

Test(layers, softmax_loss_stands_large_numbers)
{
    struct bench b;
    setup(&b, "softmax_loss", (struct shape){1, 3, 1, 1}, 1);
    memcpy(b.x.x, ((float[]){1e4f, 0, -3e38f}), 3 * sizeof(float));
    memcpy(b.dy.x, ((float[]){0, -1, 0}), 3 * sizeof(float));
    run_forward(&b);
    run_backward(&b, true);
    cr_assert_eq(b.y.x[0], 0);
    cr_assert_eq(b.y.x[1], -1e4f);
    cr_assert_arr_eq(b.dx.x, ((float[]){1, -1, 0}), 3 * sizeof(float));
    teardown(&b);
}

Test(layers, initial_weights_keep_the_variance_and_biases_are_zero)
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
