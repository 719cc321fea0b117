/* SPDX-License-Identifier: MIT */
/* Every layer: its gradients against differences of its own forward, and what
 * all promise; what one promises besides: layer_kinds_test.c.
 *
 * Most cases are exact. Inputs, parameters and the weights of the loss are
 * multiples of 1/8, and the step of the differences is 1/64, so that every
 * product and sum is a multiple of 1/512 below 2^24/512 and float has it whole.
 * Then a gradient that is right is equal, and the tolerance is 0.
 */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/conv.h"
#include "layer_bench.h"
#include "thorough.h"

static const double step = 1.0 / 64;

struct layer_case {
    const char *line;
    struct shape in;
    int n;      /* images given, at most in.n */
    int rounds; /* 0: exact. 1: float rounds, and y may be curved. More: as much
                   more, as parts of the sums are rounded */
    int more[LAYER_INPUTS - 1]; /* channels of further inputs */
};

static const struct layer_case rows[] = {
    {"conv 3 3x3",                          {2, 2, 6, 5},   2, 0,   {0}     },
    {"conv 2 3x3 pad 1",                    {2, 3, 5, 5},   1, 0,   {0}     },
    {"conv 4 5x3 stride 2 pad 2",           {3, 1, 8, 7},   3, 0,   {0}     },
    {"conv 2 1x1",                          {1, 3, 3, 4},   1, 0,   {0}     },
    {"conv 1 2x2 stride 3",                 {2, 2, 8, 8},   2, 0,   {0}     },
    {"conv 2 4x4",                          {2, 2, 4, 4},   2, 0,   {0}     },
    {"conv 16 3x3 stride 2 pad 1",          {2, 16, 5, 4},  2, 0,   {0}     },
    {"conv 32 3x3 pad 1",                   {1, 32, 5, 3},  1, 40,  {0}     },
    {"conv 4 3x3 groups 2",                 {2, 6, 4, 5},   2, 0,   {0}     },
    {"conv 6 2x2 groups 3 nobias stride 2", {1, 3, 4, 5},   1, 0,   {0}     },
    {"conv 3 3x3 dilation 2 pad 2 nobias",  {2, 2, 6, 5},   2, 0,   {0}     },
    {"conv 32 1x1 groups 2 nobias",         {1, 32, 2, 3},  1, 0,   {0}     },
    {"maxpool 2x2",                         {2, 2, 6, 6},   2, 0,   {0}     },
    {"maxpool 3x3 stride 2 pad 1",          {2, 1, 7, 6},   1, 0,   {0}     },
    {"maxpool 3x2 stride 1",                {1, 2, 5, 5},   1, 0,   {0}     },
    {"maxpool 2x2 stride 3",                {2, 1, 8, 8},   2, 0,   {0}     },
    {"maxpool 3x3 stride 2 ceil",           {2, 17, 6, 6},  2, 0,   {0}     },
    {"maxpool global",                      {2, 3, 3, 2},   2, 0,   {0}     },
    {"maxpool 2x2 ceil pad 1",              {1, 17, 6, 5},  1, 0,   {0}     },
    {"maxpool 3x3 stride 1 pad 1",          {1, 18, 5, 6},  1, 0,   {0}     },
    {"maxpool 3x3 stride 1 pad 2",          {1, 2, 3, 2},   1, 0,   {0}     },
    {"maxpool 3x3 stride 2 pad 1 ceil",     {1, 2, 8, 9},   1, 0,   {0}     },
    {"maxpool 17x16 stride 1",              {1, 1, 18, 17}, 1, 0,   {0}     },
    {"avgpool 2x2",                         {2, 2, 6, 6},   2, 0,   {0}     },
    {"avgpool 2x4 stride 1",                {2, 2, 5, 6},   1, 0,   {0}     },
    {"avgpool 3x3 stride 2 pad 1",          {2, 2, 7, 7},   2, 1,   {0}     },
    {"avgpool global",                      {2, 18, 4, 4},  2, 0,   {0}     },
    {"batchnorm",                           {4, 3, 3, 2},   4, 400, {0}     },
    {"batchnorm eps 0.1 momentum 0.5",      {3, 17, 2, 2},  3, 400, {0}     },
    {"scale",                               {2, 18, 2, 3},  2, 0,   {0}     },
    {"bias",                                {2, 3, 4, 3},   2, 0,   {0}     },
    {"relu",                                {3, 2, 4, 4},   2, 0,   {0}     },
    {"prelu",                               {2, 17, 3, 2},  2, 0,   {0}     },
    {"lrn 3 alpha 0.5 beta 0.75 k 2",       {2, 5, 2, 2},   2, 10,  {0}     },
    {"lrn 5 alpha 1 beta 0.5 k 1",          {1, 18, 2, 1},  1, 10,  {0}     },
    {"lrn 5 alpha 0.5",                     {1, 33, 3, 7},  1, 10,  {0}     },
    {"lrn 9 alpha 0.5",                     {2, 18, 2, 3},  2, 10,  {0}     },
    {"dense 7",                             {4, 2, 3, 3},   4, 0,   {0}     },
    {"dense 1",                             {2, 5, 1, 1},   1, 0,   {0}     },
    {"dense 7",                             {9, 5, 3, 7},   9, 0,   {0}     },
    {"dense 35",                            {10, 66, 1, 1}, 9, 40,  {0}     },
    {"dense 18",                            {2, 20, 1, 1},  2, 0,   {0}     },
    {"dense 140",                           {5, 9, 17, 1},  4, 0,   {0}     },
    {"dense 3",                             {2, 9, 456, 1}, 2, 0,   {0}     },
    {"dense 2",                             {130, 2, 1, 1}, 9, 0,   {0}     },
    {"dropout 0.5",                         {3, 2, 4, 4},   2, 0,   {0}     },
    {"dropout 0.3",                         {3, 2, 4, 4},   3, 1,   {0}     },
    {"dropout 0",                           {2, 1, 4, 4},   2, 0,   {0}     },
    {"add",                                 {2, 3, 2, 4},   2, 0,   {3}     },
    {"add",                                 {2, 17, 2, 2},  1, 0,   {17, 17}},
    {"concat",                              {2, 3, 2, 2},   2, 0,   {5}     },
    {"concat",                              {2, 16, 2, 3},  1, 0,   {32, 3} },
    {"concat",                              {1, 20, 1, 3},  1, 0,   {16, 30}},
    {"softmax_loss",                        {4, 10, 1, 1},  3, 1,   {0}     },
    {"softmax_loss smoothing 0.1",          {2, 20, 1, 1},  2, 1,   {0}     },
    {"softmax_loss",                        {2, 2, 2, 1},   2, 1,   {0}     },
};

enum { NCASES = sizeof(rows) / sizeof(rows[0]) };

static void setup_case(struct bench *b, const struct layer_case *c)
{
    setup_more(b, c->line, c->in, c->n, c->more);
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

/* s: of a blocked tensor, or without channels. Of many numbers the fast suite
 * takes some, in all lanes. */
static void compare(struct bench *b, const struct layer_case *c, float *x,
                    const float *gradient, size_t count, struct shape s,
                    const char *what)
{
    float *y_before = malloc(b->y.count * sizeof(float));
    const size_t every = thorough() || count < 5000 ? 1 : 7;
    double nonzero = 0;
    for (size_t i = 0; i < count; i += every) {
        double tolerance;
        if (s.c && !is_number(s, i))
            continue;
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
        const struct shape none = {0};
        setup_case(&b, &rows[i]);
        run_forward(&b);
        run_backward(&b, true);
        for (int k = 0; k < b.l.ninputs; k++)
            compare(&b, &rows[i], b.x[k].x, b.dx[k].x, b.x[k].count, b.l.ins[k],
                    "x");
        compare(&b, &rows[i], b.params.x, b.grads.x, b.params.count, none,
                "params");
        teardown(&b);
    }
}

Test(layers, every_row_has_a_case)
{
    for (int i = 0; i < nlayers; i++) {
        int found = 0;
        const size_t length = strlen(layers[i]->name);
        for (int j = 0; j < NCASES; j++)
            found += !strncmp(rows[j].line, layers[i]->name, length)
                     && (!rows[j].line[length] || rows[j].line[length] == ' ');
        cr_assert(found, "%s: add cases to rows[]", layers[i]->name);
        cr_assert_eq(layer_find(layers[i]->name), layers[i]);
    }
    cr_assert_null(layer_find("no such layer"));
}

Test(layers, repeat_bit_by_bit_and_add_to_gradients_or_write_them)
{
    for (int i = 0; i < NCASES; i++) {
        struct bench a, b;
        setup_case(&a, &rows[i]);
        setup_case(&b, &rows[i]);
        fill(b.saved.x, b.saved.count, false, 2);
        fill(b.scratch.x, b.scratch.count, false, 3);
        fill(b.y.x, b.y.count, false, 4);
        for (int k = 0; k < b.l.ninputs; k++)
            fill(b.dx[k].x, b.dx[k].count, false, 1);
        run_forward(&a);
        run_backward(&a, true);
        run_forward(&b);
        run_backward(&b, true);
        cr_assert_arr_eq(a.y.x, b.y.x, a.y.count * sizeof(float));
        for (int k = 0; k < b.l.ninputs; k++)
            cr_assert_arr_eq(a.dx[k].x, b.dx[k].x,
                             a.dx[k].count * sizeof(float), "%s", rows[i].line);
        cr_assert_arr_eq(a.grads.x, b.grads.x, a.grads.count * sizeof(float));
        run_backward(&b, false);
        const size_t written = layer_grads_written(&b.l);
        for (size_t j = 0; j < a.grads.count; j++)
            cr_assert_eq(b.grads.x[j], (j < written ? 1 : 2) * a.grads.x[j],
                         "%s, gradient %zu", rows[i].line, j);
        teardown(&a);
        teardown(&b);
    }
}

/* What compilers make of one source for several instruction sets; sums and
 * products may be rounded at other places. */
static void expect_close(const struct arena *a, const struct arena *b,
                         const char *line, const char *isa)
{
    double largest = 0;
    for (size_t i = 0; i < a->count; i++)
        largest = fmax(largest, fabs((double)a->x[i]));
    for (size_t i = 0; i < a->count; i++)
        cr_assert_leq(fabs((double)a->x[i] - (double)b->x[i]), 1e-5 * largest,
                      "%s by %s, float %zu: %g, not %g", line, isa, i, b->x[i],
                      a->x[i]);
}

Test(layers, compute_the_same_by_every_instruction_set)
{
    const char *const isas[] = {"avx512", "avx2", "neon"};
    for (int i = 0; i < 3 * NCASES; i++) {
        const struct layer_case *c = &rows[i / 3];
        const char *isa = isas[i % 3];
        struct bench a, b;
        if (!conv_use(isa))
            continue;
        setup_case(&b, c);
        run_forward(&b);
        run_backward(&b, true);
        conv_use("scalar");
        setup_case(&a, c);
        run_forward(&a);
        run_backward(&a, true);
        conv_use(NULL);
        expect_close(&a.y, &b.y, c->line, isa);
        expect_close(&a.grads, &b.grads, c->line, isa);
        for (int k = 0; k < a.l.ninputs; k++)
            expect_close(&a.dx[k], &b.dx[k], c->line, isa);
        teardown(&a);
        teardown(&b);
    }
}

/* y over x[0], and dx[0] over dy, or only that. */
Test(layers, work_in_place_where_they_say_so)
{
    for (int i = 0; i < NCASES; i++) {
        struct bench a, b;
        setup_case(&a, &rows[i]);
        setup_case(&b, &rows[i]);
        if (a.l.ops->in_place || a.l.ops->over_dy) {
            struct tensor x[LAYER_INPUTS], dx[LAYER_INPUTS];
            run_forward(&a);
            run_backward(&a, true);
            views(&b, b.x, x);
            views(&b, b.dx, dx);
            const struct tensor dy = view(b.l.out, b.n, &b.dy);
            const struct tensor y =
                b.l.ops->in_place ? x[0] : view(b.l.out, b.n, &b.y);
            b.l.ops->forward(&b.l, x, y);
            cr_assert_arr_eq(a.y.x, y.x, a.y.count * sizeof(float));
            dx[0] = dy;
            b.l.ops->backward(&b.l, x, y, dy, dx);
            cr_assert_arr_eq(a.dx[0].x, dy.x, a.dy.count * sizeof(float));
            for (int k = 1; k < a.l.ninputs; k++)
                cr_assert_arr_eq(a.dx[k].x, dx[k].x,
                                 a.dx[k].count * sizeof(float));
            cr_assert_arr_eq(a.grads.x, b.grads.x,
                             a.grads.count * sizeof(float));
        }
        teardown(&a);
        teardown(&b);
    }
}

static void expect_bits(const struct arena *a, const struct arena *b,
                        const char *line, const char *what)
{
    cr_assert_arr_eq(a->x, b->x, a->count * sizeof(float), "%s, %s", line,
                     what);
}

/* A layer that ends in a relu, and one with a relu behind it. */
Test(layers, do_the_bits_of_a_relu_that_follows)
{
    int checked = 0;
    for (int i = 0; i < 2 * NCASES; i++) {
        const struct layer_case *c = &rows[i / 2];
        struct bench a, b;
        setup_case(&a, c);
        setup_case(&b, c);
        a.l.training = b.l.training = i % 2;
        if (a.l.ops->can_relu) {
            const struct layer_ops *relu = layer_find("relu");
            const struct tensor y = view(b.l.out, b.n, &b.y),
                                dy = view(b.l.out, b.n, &b.dy);
            a.l.relu = true;
            run_forward(&a);
            run_backward(&a, true);
            run_forward(&b);
            relu->forward(&b.l, &y, y);
            relu->backward(&b.l, &y, y, dy, &dy);
            run_backward(&b, true);
            expect_bits(&a.y, &b.y, c->line, "y");
            expect_bits(&a.grads, &b.grads, c->line, "gradients");
            expect_bits(&a.state, &b.state, c->line, "state");
            for (int k = 0; k < a.l.ninputs; k++)
                expect_bits(&a.dx[k], &b.dx[k], c->line, "dx");
            checked++;
        }
        teardown(&a);
        teardown(&b);
    }
    cr_assert_gt(checked, 4);
}

/* dx[1] in dx[0], which may be in dy. */
Test(layers, give_equal_gradients_where_they_say_so)
{
    int checked = 0;
    for (int i = 0; i < 2 * NCASES; i++) {
        struct bench a, b;
        setup_case(&a, &rows[i / 2]);
        setup_case(&b, &rows[i / 2]);
        if (a.l.ops->same_gradients) {
            struct tensor x[LAYER_INPUTS], dx[LAYER_INPUTS];
            const struct tensor dy = view(b.l.out, b.n, &b.dy);
            a.l.relu = b.l.relu = i % 2;
            run_forward(&a);
            run_backward(&a, true);
            run_forward(&b);
            views(&b, b.x, x);
            views(&b, b.dx, dx);
            dx[0] = dx[1] = dy;
            b.l.ops->backward(&b.l, x, view(b.l.out, b.n, &b.y), dy, dx);
            expect_bits(&a.dx[0], &b.dy, rows[i / 2].line, "dx[0]");
            for (int k = 1; k < a.l.ninputs; k++)
                expect_bits(&a.dx[k], k > 1 ? &b.dx[k] : &b.dy,
                            rows[i / 2].line, "dx");
            checked++;
        }
        teardown(&a);
        teardown(&b);
    }
    cr_assert_gt(checked, 1);
}
