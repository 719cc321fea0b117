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

#include "kernels/conv.h"
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
    int more[LAYER_INPUTS - 1]; /* channels of further inputs */
};

static const struct layer_case cases[] = {
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

enum { NCASES = sizeof(cases) / sizeof(cases[0]) };

/* A layer with its floats. One number of canary lies behind each array. */
struct bench {
    struct layer l;
    struct arena params, grads, state, saved, scratch, y, dy;
    struct arena x[LAYER_INPUTS], dx[LAYER_INPUTS];
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

static struct shape of(struct shape s, int n)
{
    s.n = n;
    return s;
}

/* Whether float i of a blocked tensor is a number of it, not filled up. */
static bool is_number(struct shape s, size_t i)
{
    const size_t block = shape_plane(s) * BLOCK;
    return (int)(i / block) % shape_blocks(s) * BLOCK + (int)(i % BLOCK) < s.c;
}

static void fill_tensor(struct arena *a, struct shape s, bool different,
                        uint64_t seed)
{
    float *plain = malloc((shape_count(s) + 1) * sizeof(float));
    fill(plain, shape_count(s), different, seed);
    conv_to_blocked(plain, a->x, s.n, s.c, s.h, s.w);
    free(plain);
}

static void put(struct arena *a, struct shape s, const float *plain)
{
    conv_to_blocked(plain, a->x, s.n, s.c, s.h, s.w);
}

static void expect_plain(const struct arena *a, struct shape s,
                         const float *wanted)
{
    float *plain = malloc(shape_count(s) * sizeof(float));
    conv_to_plain(a->x, plain, s.n, s.c, s.h, s.w);
    for (size_t i = 0; i < shape_count(s); i++)
        cr_assert_eq(plain[i], wanted[i], "number %zu is %g, not %g", i,
                     plain[i], wanted[i]);
    free(plain);
}

static void setup_more(struct bench *b, const char *line, struct shape in,
                       int n, const int *more)
{
    char text[80];
    memset(b, 0, sizeof(*b));
    snprintf(text, sizeof(text), "%s", line);
    b->n = n;
    b->l.in = b->l.ins[0] = in;
    b->l.ninputs = 1;
    for (; more && b->l.ninputs < LAYER_INPUTS && *more; more++) {
        b->l.ins[b->l.ninputs] = in;
        b->l.ins[b->l.ninputs++].c = *more;
    }
    const char *why = parse_line(&b->l, text);
    cr_assert_null(why, "%s: %s", line, why);
    b->l.params = with_canary(&b->params, b->l.nparams);
    b->l.grads = with_canary(&b->grads, b->l.nparams);
    b->l.state = with_canary(&b->state, b->l.nstate);
    b->l.saved = with_canary(&b->saved, b->l.nsaved);
    b->l.scratch = with_canary(&b->scratch, b->l.nscratch);
    for (int k = 0; k < b->l.ninputs; k++) {
        const struct shape x = of(b->l.ins[k], n);
        with_canary(&b->x[k], shape_floats(x));
        with_canary(&b->dx[k], shape_floats(x));
        fill_tensor(&b->x[k], x, !strncmp(line, "maxpool", 7),
                    SEED + 10 * (uint64_t)k);
    }
    const struct shape y = of(b->l.out, n);
    with_canary(&b->y, shape_floats(y));
    with_canary(&b->dy, shape_floats(y));
    b->l.training = true;
    b->l.seed = SEED;
    fill(b->params.x, b->params.count, false, SEED + 1);
    fill_tensor(&b->dy, y, false, SEED + 2);
}

static void setup(struct bench *b, const char *line, struct shape in, int n)
{
    setup_more(b, line, in, n, NULL);
}

static void setup_case(struct bench *b, const struct layer_case *c)
{
    setup_more(b, c->line, c->in, c->n, c->more);
}

/* Also: what fills up the blocks is still zero. */
static void check_array(const struct bench *b, struct arena *a, struct shape s,
                        const char *what)
{
    for (size_t i = 0; s.c && i < a->count; i++)
        cr_assert(is_number(s, i) || a->x[i] == 0, "%s of %s, float %zu", what,
                  b->l.ops->name, i);
    cr_assert_eq(a->x[a->count], canary, "%s of %s", what, b->l.ops->name);
    arena_free(a);
}

static void teardown(struct bench *b)
{
    const struct shape none = {0};
    check_array(b, &b->params, none, "params");
    check_array(b, &b->grads, none, "grads");
    check_array(b, &b->state, none, "state");
    check_array(b, &b->saved, none, "saved");
    check_array(b, &b->scratch, none, "scratch");
    check_array(b, &b->y, b->l.out, "y");
    check_array(b, &b->dy, b->l.out, "dy");
    for (int k = 0; k < b->l.ninputs; k++) {
        check_array(b, &b->x[k], b->l.ins[k], "x");
        check_array(b, &b->dx[k], b->l.ins[k], "dx");
    }
}

static struct tensor view(struct shape s, int n, struct arena *a)
{
    return (struct tensor){of(s, n), a->x};
}

static void views(struct bench *b, struct arena *of_inputs, struct tensor *to)
{
    for (int k = 0; k < b->l.ninputs; k++)
        to[k] = view(b->l.ins[k], b->n, &of_inputs[k]);
}

static void run_forward(struct bench *b)
{
    struct tensor x[LAYER_INPUTS];
    views(b, b->x, x);
    b->l.ops->forward(&b->l, x, view(b->l.out, b->n, &b->y));
}

/* With what backward does not read gone. */
static void run_backward(struct bench *b, bool with_dx)
{
    struct tensor x[LAYER_INPUTS], dx[LAYER_INPUTS] = {0},
                                   y = view(b->l.out, b->n, &b->y);
    views(b, b->x, x);
    if (with_dx)
        views(b, b->dx, dx);
    for (int k = 0; k < b->l.ninputs; k++)
        x[k].x = layer_reads(&b->l) & READS_X ? x[k].x : NULL;
    y.x = layer_reads(&b->l) & READS_Y ? y.x : NULL;
    b->l.ops->backward(&b->l, x, y, view(b->l.out, b->n, &b->dy), dx);
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

/* s: of a blocked tensor, or without channels. */
static void compare(struct bench *b, const struct layer_case *c, float *x,
                    const float *gradient, size_t count, struct shape s,
                    const char *what)
{
    float *y_before = malloc(b->y.count * sizeof(float));
    double nonzero = 0;
    for (size_t i = 0; i < count; i++) {
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
        setup_case(&b, &cases[i]);
        run_forward(&b);
        run_backward(&b, true);
        for (int k = 0; k < b.l.ninputs; k++)
            compare(&b, &cases[i], b.x[k].x, b.dx[k].x, b.x[k].count,
                    b.l.ins[k], "x");
        compare(&b, &cases[i], b.params.x, b.grads.x, b.params.count, none,
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
            found +=
                !strncmp(cases[j].line, layers[i]->name, length)
                && (!cases[j].line[length] || cases[j].line[length] == ' ');
        cr_assert(found, "%s: add cases to cases[]", layers[i]->name);
        cr_assert_eq(layer_find(layers[i]->name), layers[i]);
    }
    cr_assert_null(layer_find("no such layer"));
}

Test(layers, repeat_bit_by_bit_and_add_to_gradients_or_write_them)
{
    for (int i = 0; i < NCASES; i++) {
        struct bench a, b;
        setup_case(&a, &cases[i]);
        setup_case(&b, &cases[i]);
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
                             a.dx[k].count * sizeof(float), "%s",
                             cases[i].line);
        cr_assert_arr_eq(a.grads.x, b.grads.x, a.grads.count * sizeof(float));
        run_backward(&b, false);
        const float times = b.l.ops->writes_grads ? 1 : 2;
        for (size_t j = 0; j < a.grads.count; j++)
            cr_assert_eq(b.grads.x[j], times * a.grads.x[j], "%s, gradient %zu",
                         cases[i].line, j);
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
        const struct layer_case *c = &cases[i / 3];
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

/* y over x[0], and dx[0] over dy. */
Test(layers, work_in_place_where_they_say_so)
{
    for (int i = 0; i < NCASES; i++) {
        struct bench a, b;
        setup_case(&a, &cases[i]);
        setup_case(&b, &cases[i]);
        if (a.l.ops->in_place) {
            struct tensor x[LAYER_INPUTS], dx[LAYER_INPUTS];
            run_forward(&a);
            run_backward(&a, true);
            views(&b, b.x, x);
            views(&b, b.dx, dx);
            const struct tensor dy = view(b.l.out, b.n, &b.dy);
            b.l.ops->forward(&b.l, x, x[0]);
            cr_assert_arr_eq(a.y.x, x[0].x, a.y.count * sizeof(float));
            dx[0] = dy;
            b.l.ops->backward(&b.l, x, x[0], dy, dx);
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
        const struct layer_case *c = &cases[i / 2];
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
        setup_case(&a, &cases[i / 2]);
        setup_case(&b, &cases[i / 2]);
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
            expect_bits(&a.dx[0], &b.dy, cases[i / 2].line, "dx[0]");
            for (int k = 1; k < a.l.ninputs; k++)
                expect_bits(&a.dx[k], k > 1 ? &b.dx[k] : &b.dy,
                            cases[i / 2].line, "dx");
            checked++;
        }
        teardown(&a);
        teardown(&b);
    }
    cr_assert_gt(checked, 1);
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

Test(layers, conv_is_the_direct_sum)
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

Test(layers, pools_take_the_largest_and_the_mean)
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

Test(layers, maxpool_gives_the_gradient_to_the_first_of_equal_ones)
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

Test(layers, relu_has_gradient_zero_at_zero)
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

Test(layers, dropout_is_identity_in_evaluation)
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

Test(layers, dropout_drops_its_rate_and_keeps_the_mean)
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

Test(layers, dropout_depends_on_seed_and_place_in_the_global_batch)
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

Test(layers, softmax_loss_stands_large_numbers)
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
