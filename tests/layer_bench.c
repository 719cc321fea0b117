/* SPDX-License-Identifier: MIT */
#include "layer_bench.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/conv.h"
#include "random.h"

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

void fill(float *x, size_t count, bool different, uint64_t seed)
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

bool is_number(struct shape s, size_t i)
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

void put(struct arena *a, struct shape s, const float *plain)
{
    conv_to_blocked(plain, a->x, s.n, s.c, s.h, s.w);
}

void expect_plain(const struct arena *a, struct shape s, const float *wanted)
{
    float *plain = malloc(shape_count(s) * sizeof(float));
    conv_to_plain(a->x, plain, s.n, s.c, s.h, s.w);
    for (size_t i = 0; i < shape_count(s); i++)
        cr_assert_eq(plain[i], wanted[i], "number %zu is %g, not %g", i,
                     plain[i], wanted[i]);
    free(plain);
}

void setup_more(struct bench *b, const char *line, struct shape in, int n,
                const int *more)
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

void setup(struct bench *b, const char *line, struct shape in, int n)
{
    setup_more(b, line, in, n, NULL);
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

void teardown(struct bench *b)
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

struct tensor view(struct shape s, int n, struct arena *a)
{
    return (struct tensor){of(s, n), a->x};
}

void views(struct bench *b, struct arena *of_inputs, struct tensor *to)
{
    for (int k = 0; k < b->l.ninputs; k++)
        to[k] = view(b->l.ins[k], b->n, &of_inputs[k]);
}

void run_forward(struct bench *b)
{
    struct tensor x[LAYER_INPUTS];
    views(b, b->x, x);
    b->l.ops->forward(&b->l, x, view(b->l.out, b->n, &b->y));
}

void run_backward(struct bench *b, bool with_dx)
{
    struct tensor x[LAYER_INPUTS], dx[LAYER_INPUTS] = {0},
                                   y = view(b->l.out, b->n, &b->y);
    views(b, b->x, x);
    if (with_dx)
        views(b, b->dx, dx);
    for (int k = 0; k < b->l.ninputs; k++)
        x[k].x = layer_reads(&b->l) & READS_X ? x[k].x : NULL;
    y.x = layer_reads(&b->l) & READS_Y ? y.x : NULL;
    const struct tensor dy = view(b->l.out, b->n, &b->dy);
    if (b->l.ops->gradients)
        b->l.ops->gradients(&b->l, x, dy);
    if (with_dx || !b->l.ops->gradients)
        b->l.ops->backward(&b->l, x, y, dy, dx);
}
