/* SPDX-License-Identifier: MIT */
/* Direct convolution, Strassen's and Winograd's on every instruction set of
 * this machine against loops as plain as the definition.
 *
 *   conv_test [SHAPES [SET [PRODUCTS]]]
 *
 * tries so many odd shapes, on all instruction sets or one, and of known nets'
 * layers those with so many products in a pass at most. amx_test is the
 * same of bf16 alone, with AMX's instructions in software. Needs no library, so
 * that tests/neon_cross.sh can run it for another processor. Speaks TAP.
 *
 * All numbers are multiples of 1/8 and at most 1, so products are multiples of
 * 1/64, and float has their sums whole: whatever the order, what is right is
 * equal.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conv_kit.h"
#include "conv_parts.h"
#include "exact.h"
#include "kernels/conv_amx.h"
#include "thorough.h"

/* y with a relu that the method does is what one does to y. */
static void relu_comes_to_the_same(const struct conv_method *m, struct conv c,
                                   const float *x, const float *w,
                                   const float *bias, const float *y,
                                   const char *name, const char *shape)
{
    const size_t count = conv_blocked(c.n, c.k, c.out_h, c.out_w);
    if (!m->relus)
        return;
    float *scratch = scratch_of(m, &c, CONV_FORWARD), *found = unset(count);
    float *wanted = unset(count);
    for (size_t i = 0; i < count; i++)
        wanted[i] = y[i] > 0 ? y[i] : 0;
    c.relu = true;
    m->forward(&c, x, w, bias, found, scratch);
    equal(found, wanted, count, name, "y of a relu", shape);
    free(scratch);
    free(found);
    free(wanted);
}

/* And dx through x as a gate, or what was added to x. */
static void gate_comes_to_the_same(const struct conv_method *m, struct conv c,
                                   const float *x, const float *w,
                                   const float *dy, const float *dx,
                                   const char *name, const char *shape)
{
    const size_t count = conv_blocked(c.n, c.c, c.h, c.w);
    if (!m->gates || !m->gates(&c))
        return;
    float *scratch = scratch_of(m, &c, CONV_BACKWARD_DATA);
    float *found = unset(count), *wanted = unset(count);
    for (size_t i = 0; i < count; i++) {
        wanted[i] = x[i] > 0 ? dx[i] : 0;
        found[i] = x[i];
    }
    c.gate = x;
    m->backward_data(&c, dy, w, found, scratch);
    equal(found, wanted, count, name, "dx of a relu", shape);
    free(scratch);
    free(found);
    free(wanted);
}

static void check(struct conv c, uint64_t seed)
{
    char shape[160];
    snprintf(shape, sizeof(shape),
             "%d of %dx%dx%d, %d outputs of %d groups, %dx%d stride %dx%d pad "
             "%dx%d dilation %dx%d%s",
             c.n, c.c, c.h, c.w, c.k, c.groups, c.kernel_h, c.kernel_w,
             c.stride_h, c.stride_w, c.pad_h, c.pad_w, c.dilation_h,
             c.dilation_w, c.plain ? ", plain" : "");
    if (!conv_set_outputs(&c))
        return;
    const char *cannot = conv_direct.cannot(&c, CONV_FORWARD);
    require(!cannot, "%s: %s", shape, cannot);
    const size_t nx = conv_inputs(&c), ny = conv_outputs(&c);
    const size_t nw = conv_weights(&c);
    const size_t bx = conv_blocked(c.n, c.c, c.h, c.w);
    const size_t by = conv_blocked(c.n, c.k, c.out_h, c.out_w);
    float *x = eighths(nx, seed), *w = eighths(nw, seed + 1);
    float *dy = eighths(ny, seed + 2), *bias = eighths((size_t)c.k, seed + 3);
    float *y = unset(ny), *dx = unset(nx), *dw = eighths(nw, seed + 4);
    float *dw0 = eighths(nw, seed + 4), *back = unset(nx > ny ? nx : ny);
    float *xb = unset(bx), *yb = unset(by), *dyb = unset(by), *dxb = unset(bx),
          *dwb = unset(nw);
    reference(&c, x, w, bias, dy, y, dx, dw);
    conv_to_blocked(x, xb, c.n, c.c, c.h, c.w);
    conv_to_blocked(dy, dyb, c.n, c.k, c.out_h, c.out_w);
    for (int i = 0; i < NMETHODS * NISAS; i++) {
        const struct conv_method *m = methods[i % NMETHODS];
        char isa[32];
        snprintf(isa, sizeof(isa), "%s on %s", m->name, isas[i / NMETHODS]);
        if (!here(i / NMETHODS) || m->cannot(&c, CONV_FORWARD)
            || (m == &conv_winograd && c.stride_h == 1)) /* has thirds */
            continue;
        float *scratch = scratch_of(m, &c, CONV_FORWARD);
        m->forward(&c, c.plain ? x : xb, w, bias, yb, scratch);
        conv_to_plain(yb, back, c.n, c.k, c.out_h, c.out_w);
        equal(back, y, ny, isa, "y", shape);
        lanes_are_zero(yb, c.n, c.k, (size_t)c.out_h * (size_t)c.out_w, shape);
        free(scratch);
        relu_comes_to_the_same(m, c, c.plain ? x : xb, w, bias, yb, isa, shape);
        scratch = scratch_of(m, &c, CONV_BACKWARD_WEIGHTS);
        memcpy(dwb, dw0, nw * sizeof(float));
        m->backward_weights(&c, c.plain ? x : xb, dyb, dwb, scratch);
        equal(dwb, dw, nw, isa, "dw", shape);
        free(scratch);
        if (c.plain)
            continue;
        scratch = scratch_of(m, &c, CONV_BACKWARD_DATA);
        memset(dxb, 0xff, bx * sizeof(float));
        m->backward_data(&c, dyb, w, dxb, scratch);
        conv_to_plain(dxb, back, c.n, c.c, c.h, c.w);
        equal(back, dx, nx, isa, "dx", shape);
        lanes_are_zero(dxb, c.n, c.c, (size_t)c.h * (size_t)c.w, shape);
        gate_comes_to_the_same(m, c, xb, w, dyb, dxb, isa, shape);
        /* To the images, for once. */
        struct conv adds = c;
        adds.add = true;
        memcpy(dxb, xb, bx * sizeof(float));
        m->backward_data(&adds, dyb, w, dxb, scratch);
        conv_to_plain(dxb, back, c.n, c.c, c.h, c.w);
        for (size_t j = 0; j < nx; j++)
            back[j] -= x[j];
        equal(back, dx, nx, isa, "dx that is added", shape);
        lanes_are_zero(dxb, c.n, c.c, (size_t)c.h * (size_t)c.w, shape);
        gate_comes_to_the_same(m, adds, xb, w, dyb, dxb, isa, shape);
        free(scratch);
    }
    halves_come_to_the_same(c, seed);
    float *all[] = {x,   w,    dy, bias, y,   dx,  dw,
                    dw0, back, xb, yb,   dyb, dxb, dwb};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

#ifndef CONV_AMX_STAND_IN
/* The direct kernels, which are right, on the same instruction set. */
static void winograd_as_direct(struct conv c, const char *isa, uint64_t seed)
{
    const struct conv_method *const method[] = {&conv_direct, &conv_winograd};
    conv_set_outputs(&c);
    const size_t nx = conv_blocked(c.n, c.c, c.h, c.w), nw = conv_weights(&c);
    const size_t ny = conv_blocked(c.n, c.k, c.out_h, c.out_w);
    float *px = eighths(conv_inputs(&c), seed);
    float *py = eighths(conv_outputs(&c), seed + 1);
    float *w = eighths(nw, seed + 2), *bias = eighths((size_t)c.k, seed + 3);
    float *x = unset(nx), *dy = unset(ny), *dw[2], *y[2], *dx[2], *sum[2];
    struct conv adds = c;
    adds.add = true;
    conv_to_blocked(px, x, c.n, c.c, c.h, c.w);
    conv_to_blocked(py, dy, c.n, c.k, c.out_h, c.out_w);
    for (int i = 0; i < 2; i++) {
        size_t most = 0;
        for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++) {
            const size_t floats = method[i]->scratch(&c, pass);
            most = floats > most ? floats : most;
        }
        float *scratch = unset(most);
        y[i] = unset(ny);
        dx[i] = unset(nx);
        sum[i] = unset(nx);
        dw[i] = eighths(nw, seed + 4);
        memcpy(sum[i], x, nx * sizeof(float));
        method[i]->forward(&c, x, w, bias, y[i], scratch);
        method[i]->backward_data(&c, dy, w, dx[i], scratch);
        method[i]->backward_data(&adds, dy, w, sum[i], scratch);
        method[i]->backward_weights(&c, x, dy, dw[i], scratch);
        free(scratch);
    }
    near(y[1], y[0], ny, isa, "y", c.c, c.k);
    near(dx[1], dx[0], nx, isa, "dx", c.c, c.k);
    near(sum[1], sum[0], nx, isa, "dx that is added", c.c, c.k);
    near(dw[1], dw[0], nw, isa, "dw", c.c, c.k);
    relu_comes_to_the_same(&conv_winograd, c, x, w, bias, y[1], isa,
                           "Winograd's");
    gate_comes_to_the_same(&conv_winograd, c, x, w, dy, dx[1], isa,
                           "Winograd's");
    gate_comes_to_the_same(&conv_winograd, adds, x, w, dy, sum[1], isa,
                           "Winograd's");
    float *all[] = {px,   py,    w,     bias,   x,      dy,    y[0],
                    y[1], dx[0], dx[1], sum[0], sum[1], dw[0], dw[1]};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

static void winograd_comes_to_the_same(void)
{
    static const struct conv some[] = {
        SHAPE(1, 16, 4, 4, 16, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(2, 16, 6, 6, 32, 1, 3, 3, 1, 1, 0, 0, 1, 1),
        SHAPE(3, 20, 7, 9, 50, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(1, 64, 14, 14, 96, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(0, 32, 8, 8, 32, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(1, 33, 5, 23, 17, 1, 3, 3, 1, 1, 2, 3, 1, 1),
        SHAPE(4, 128, 13, 13, 48, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(2, 64, 7, 9, 96, 2, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(1, 96, 5, 4, 48, 3, 3, 3, 1, 1, 0, 1, 1, 1),
        SHAPE(2, 20, 12, 12, 50, 1, 5, 5, 1, 1, 0, 0, 1, 1),
        SHAPE(1, 64, 27, 27, 32, 1, 5, 5, 1, 1, 2, 2, 1, 1),
        SHAPE(3, 17, 5, 6, 33, 1, 5, 5, 1, 1, 4, 1, 1, 1),
        SHAPE(2, 64, 7, 9, 96, 2, 5, 5, 1, 1, 2, 2, 1, 1),
        /* all tiles at once, outputs by parts */
        SHAPE(1, 48, 7, 7, 150, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(2, 64, 6, 7, 224, 2, 3, 3, 1, 1, 1, 1, 1, 1),
    };
    for (int i = 0; i < NISAS; i++)
        for (size_t k = 0; k < sizeof(some) / sizeof(some[0]); k++)
            if (here(i))
                winograd_as_direct(some[k], isas[i], 100 * k);
}

/* Tiles at edges have as many outputs as are left, and images more of them than
 * are done at once. */
static void edges_come_to_the_same(void)
{
    const struct conv many = SHAPE(30, 16, 7, 6, 16, 1, 3, 3, 1, 1, 1, 1, 1, 1);
    struct conv c = SHAPE(2, 16, 0, 0, 32, 1, 3, 3, 1, 1, 0, 0, 1, 1);
    for (int i = 0; i < NISAS; i++) {
        if (!here(i))
            continue;
        for (c.kernel_h = c.kernel_w = 3; c.kernel_h <= 5;
             c.kernel_h = c.kernel_w += 2)
            for (c.pad_h = c.pad_w = 0; c.pad_h < 2; c.pad_w = ++c.pad_h)
                for (c.h = c.kernel_h; c.h < c.kernel_h + 6; c.h++)
                    for (c.w = c.kernel_w; c.w < c.kernel_w + 6; c.w++)
                        winograd_as_direct(c, isas[i], (uint64_t)(c.h * c.w));
        winograd_as_direct(many, isas[i], 1);
    }
}
#endif

/* --- bf16 ----------------------------------------------------------------- */

/* By the definition: of the two numbers of 8 bits beside x the nearer one, or
 * the one that ends in 0. */
static float to_bf16(float x)
{
    int exponent;
    if (!isfinite(x) || x == 0)
        return x;
    const double m = frexp((double)x, &exponent);
    return (float)ldexp(nearbyint(ldexp(m, 8)), exponent - 8);
}

/* One channel and a weight of 1, so that y and dx are what x and dy become. */
static void numbers_are_rounded(void)
{
    static const float some[] = {0,
                                 -0.0F,
                                 1,
                                 0x1.00fffep0F,
                                 0x1.01p0F,
                                 0x1.010002p0F,
                                 0x1.02p0F,
                                 0x1.03p0F,
                                 -0x1.01p0F,
                                 -0x1.03p0F,
                                 0x1.fep0F,
                                 0x1.ffp0F,
                                 0x1.fffp-100F,
                                 0x1.fep127F,
                                 0x1.ff0002p127F,
                                 0x1.fffffep127F,
                                 -0x1.fffffep127F,
                                 INFINITY,
                                 -INFINITY,
                                 1e-37F,
                                 3,
                                 -7.77F,
                                 1e30F};
    enum { N = sizeof(some) / sizeof(some[0]) };
    struct conv c = SHAPE(1, 1, 1, N + 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1);
    const float one = 1;
    float x[(N + 1) * CONV_BLOCK] = {0}, y[(N + 1) * CONV_BLOCK];
    conv_set_outputs(&c);
    for (int i = 0; i <= N; i++)
        x[i * CONV_BLOCK] = i < N ? some[i] : 0;
    const uint32_t nan = 0x7f800001; /* were it cut off, it would be infinite */
    memcpy(x + N * CONV_BLOCK, &nan, sizeof(nan));
    for (int i = 0; i < 2 * NISAS; i++) {
        if (!here(i / 2))
            continue;
        float *scratch = scratch_of(&conv_bf16, &c, i % 2);
        if (i % 2 == CONV_FORWARD)
            conv_bf16.forward(&c, x, &one, NULL, y, scratch);
        else
            conv_bf16.backward_data(&c, x, &one, y, scratch);
        for (int k = 0; k < N; k++)
            require(y[k * CONV_BLOCK] == to_bf16(some[k]),
                    "%s: %a became %a, not %a", isas[i / 2], (double)some[k],
                    (double)y[k * CONV_BLOCK], (double)to_bf16(some[k]));
        require(isnan(y[N * CONV_BLOCK]), "%s: NaN became %g", isas[i / 2],
                (double)y[N * CONV_BLOCK]);
        free(scratch);
    }
}

static void round_all(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = to_bf16(x[i]);
}

/* Products of numbers that are none of bf16 are those of what they become. */
static void products_are_of_rounded_numbers(void)
{
    struct conv c = SHAPE(3, 35, 9, 10, 37, 1, 3, 3, 2, 1, 1, 1, 1, 1);
    conv_set_outputs(&c);
    const size_t nx = conv_inputs(&c), ny = conv_outputs(&c);
    const size_t nw = conv_weights(&c);
    const size_t bx = conv_blocked(c.n, c.c, c.h, c.w);
    const size_t by = conv_blocked(c.n, c.k, c.out_h, c.out_w);
    float *x = uniform(nx, 1), *w = uniform(nw, 2), *dy = uniform(ny, 3);
    float *bias = uniform((size_t)c.k, 4), *dw0 = uniform(nw, 5);
    float *rounded_w = uniform(nw, 2), *dw = uniform(nw, 5);
    float *y = unset(ny), *dx = unset(nx), *xb = unset(bx), *dyb = unset(by);
    float *yb = unset(by), *dxb = unset(bx), *dwb = unset(nw);
    float *back = unset(nx > ny ? nx : ny);
    conv_to_blocked(x, xb, c.n, c.c, c.h, c.w);
    conv_to_blocked(dy, dyb, c.n, c.k, c.out_h, c.out_w);
    round_all(x, nx);
    round_all(dy, ny);
    round_all(rounded_w, nw);
    reference(&c, x, rounded_w, bias, dy, y, dx, dw);
    for (int i = 0; i < NISAS; i++) {
        float *scratch[CONV_PASSES];
        if (!here(i))
            continue;
        for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++)
            scratch[pass] = scratch_of(&conv_bf16, &c, pass);
        memcpy(dwb, dw0, nw * sizeof(float));
        conv_bf16.forward(&c, xb, w, bias, yb, scratch[CONV_FORWARD]);
        conv_bf16.backward_data(&c, dyb, w, dxb, scratch[CONV_BACKWARD_DATA]);
        conv_bf16.backward_weights(&c, xb, dyb, dwb,
                                   scratch[CONV_BACKWARD_WEIGHTS]);
        conv_to_plain(yb, back, c.n, c.k, c.out_h, c.out_w);
        near(back, y, ny, isas[i], "y in bf16", c.c, c.k);
        conv_to_plain(dxb, back, c.n, c.c, c.h, c.w);
        near(back, dx, nx, isas[i], "dx in bf16", c.c, c.k);
        near(dwb, dw, nw, isas[i], "dw in bf16", c.c, c.k);
        for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++)
            free(scratch[pass]);
    }
    float *all[] = {x,  w,  dy,  bias, dw0, rounded_w, dw,  y,
                    dx, xb, dyb, yb,   dxb, dwb,       back};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

static double most_products = INFINITY; /* of a layer of known nets */

/* Of a pass. */
static double products(const struct conv *c)
{
    return (double)conv_outputs(c) * (c->c / c->groups) * c->kernel_h
           * c->kernel_w;
}

/* The kinds of layers that nets have, small. */
static void layers_of_known_nets(void)
{
    static const struct conv some[] = {
        SHAPE(2, 16, 8, 8, 16, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(1, 32, 14, 14, 64, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(3, 48, 7, 7, 80, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(2, 64, 7, 7, 64, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(2, 32, 28, 28, 48, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(3, 400, 14, 14, 24, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(1, 32, 14, 14, 48, 1, 1, 1, 2, 2, 0, 0, 1, 1),
        SHAPE(2, 32, 13, 13, 32, 1, 3, 3, 2, 2, 1, 1, 1, 1),
        SHAPE(1, 64, 13, 13, 96, 2, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(1, 32, 27, 27, 32, 1, 5, 5, 1, 1, 2, 2, 1, 1),
        PLAIN(1, 3, 35, 35, 64, 1, 11, 11, 4, 4, 2, 2, 1, 1),
        PLAIN(2, 3, 20, 20, 24, 1, 7, 7, 2, 2, 3, 3, 1, 1),
        PLAIN(2, 1, 28, 28, 20, 1, 5, 5, 1, 1, 0, 0, 1, 1),
        PLAIN(1, 3, 7, 150, 20, 1, 3, 5, 2, 2, 1, 2, 1, 1),
        SHAPE(2, 20, 12, 12, 50, 1, 5, 5, 1, 1, 0, 0, 1, 1),
        SHAPE(2, 96, 9, 9, 20, 1, 5, 5, 1, 1, 2, 2, 1, 1),
        SHAPE(2, 20, 9, 9, 96, 1, 5, 5, 1, 1, 2, 2, 1, 1),
        SHAPE(1, 16, 11, 9, 16, 1, 3, 3, 1, 1, 2, 2, 2, 2),
        SHAPE(5, 272, 3, 3, 16, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(1, 208, 56, 56, 80, 1, 5, 5, 8, 8, 2, 2, 1, 1),
        SHAPE(3, 64, 7, 7, 96, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(9, 96, 3, 3, 64, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(2, 32, 1, 1, 32, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(0, 64, 4, 4, 32, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(1, 320, 23, 19, 32, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(2, 640, 14, 14, 32, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(3, 64, 9, 12, 96, 1, 1, 1, 2, 2, 0, 0, 1, 1),
        SHAPE(5, 32, 7, 10, 64, 1, 1, 1, 3, 1, 0, 0, 1, 1),
        SHAPE(2, 64, 6, 9, 32, 1, 1, 1, 1, 2, 0, 0, 1, 1),
        SHAPE(3, 544, 21, 19, 32, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(1, 560, 7, 7, 560, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(3, 64, 41, 38, 32, 1, 1, 1, 2, 2, 0, 0, 1, 1),
        SHAPE(2, 48, 41, 38, 32, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(2, 304, 12, 10, 48, 1, 1, 1, 2, 2, 0, 0, 1, 1),
        SHAPE(2, 32, 9, 7, 320, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(2, 32, 9, 7, 544, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(2, 33, 9, 12, 47, 1, 3, 3, 2, 2, 1, 1, 1, 1),
        SHAPE(3, 64, 6, 5, 96, 2, 3, 3, 2, 2, 0, 2, 1, 1),
        SHAPE(1, 16, 3, 3, 16, 1, 3, 3, 2, 2, 0, 0, 1, 1),
        SHAPE(0, 16, 8, 8, 32, 1, 3, 3, 2, 2, 1, 1, 1, 1),
        SHAPE(9, 160, 7, 7, 80, 1, 3, 3, 2, 2, 1, 1, 1, 1),
    };
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        struct conv c = some[i];
        conv_set_outputs(&c);
        if (products(&c) <= most_products)
            check(c, 100 * i);
    }
}

static unsigned shapes;

static void odd_shapes(void)
{
    for (uint64_t seed = 0; seed < shapes; seed++) {
        struct conv c = {
            .n = pick(seed, 0, 0, 3),
            .c = pick(seed, 1, 1, 40),
            .h = pick(seed, 2, 1, 20),
            .w = pick(seed, 3, 1, 33),
            .k = pick(seed, 4, 1, 70),
            .groups = 1,
            .kernel_h = pick(seed, 5, 1, 5),
            .kernel_w = pick(seed, 6, 1, 5),
            .stride_h = pick(seed, 7, 1, 4),
            .stride_w = pick(seed, 8, 1, 4),
            .pad_h = pick(seed, 9, 0, 4),
            .pad_w = pick(seed, 10, 0, 4),
            .dilation_h = pick(seed, 11, 1, 3),
            .dilation_w = pick(seed, 12, 1, 3),
        };
        c.plain = c.c < CONV_BLOCK && pick(seed, 13, 0, 1);
        if (pick(seed, 14, 0, 5) == 0 && !c.plain) {
            c.groups = pick(seed, 15, 2, 3);
            c.c = 16 * c.groups;
            c.k = 32 * c.groups;
        }
        check(c, seed << 8);
    }
}

static void they_know_what_they_cannot_do(void)
{
    const struct conv good = SHAPE(1, 32, 8, 8, 32, 2, 3, 3, 1, 1, 1, 1, 1, 1);
    struct conv c = good;
    require(!conv_direct.cannot(&c, CONV_FORWARD), "it can");
    c.groups = 4;
    require(conv_direct.cannot(&c, CONV_FORWARD) != NULL, "it cannot");
    c = good;
    c.kernel_h = 20;
    c.kernel_w = 13;
    require(conv_direct.cannot(&c, CONV_FORWARD) != NULL, "it cannot");
    c = good;
    c.plain = true;
    require(conv_direct.cannot(&c, CONV_FORWARD) != NULL, "it cannot");
    c.c = 3;
    c.groups = 1;
    require(!conv_direct.cannot(&c, CONV_FORWARD), "it can");
    conv_use("scalar");
    require((conv_bf16.cannot(&c, CONV_FORWARD) == NULL) == (NMETHODS == 1),
            "with AMX it can, else it cannot");
    require(conv_direct.cannot(&c, CONV_BACKWARD_DATA) != NULL, "it cannot");
    struct conv point = SHAPE(1, 32, 8, 8, 64, 1, 1, 1, 2, 2, 0, 0, 1, 1);
    require(!conv_strassen.cannot(&point, CONV_FORWARD), "it can");
    point.pad_w = 1;
    require(conv_strassen.cannot(&point, CONV_FORWARD) != NULL, "it cannot");
    point.pad_w = 0;
    point.k = 48;
    require(conv_strassen.cannot(&point, CONV_FORWARD) != NULL, "it cannot");
    point.k = 64;
    point.groups = 2;
    require(conv_strassen.cannot(&point, CONV_FORWARD) != NULL, "it cannot");
    struct conv strides = SHAPE(1, 32, 8, 8, 64, 1, 3, 3, 2, 2, 1, 1, 1, 1);
    require(!conv_winograd.cannot(&strides, CONV_FORWARD), "it can");
    strides.stride_h = 1;
    require(conv_winograd.cannot(&strides, CONV_FORWARD) != NULL, "it cannot");
    strides.stride_h = strides.stride_w = 3;
    require(conv_winograd.cannot(&strides, CONV_FORWARD) != NULL, "it cannot");
    strides.stride_h = strides.stride_w = 2;
    strides.kernel_h = strides.kernel_w = 5;
    require(conv_winograd.cannot(&strides, CONV_FORWARD) != NULL, "it cannot");
    c.kernel_h = 12; /* larger than image and padding */
    require(!conv_set_outputs(&c), "there is no window");
    require(!conv_use("mmx"), "it can");
    require(!strcmp(conv_use("scalar"), "scalar"), "scalar");
}

#ifdef CONV_AMX_STAND_IN
/* One round adds so many products of one number to each sum. */
static void peak_is_done(void)
{
    float x[CONV_PEAK_FLOATS];
    for (int i = 0; i < CONV_PEAK_FLOATS; i++)
        x[i] = (float)i;
    conv_peak_amx.run(3, 0.5F, 0.25F, x);
    for (int i = 0; i < CONV_PEAK_FLOATS; i++)
        require(x[i] == (float)i + 3 * 16 * 0.125F, "peak: %g", (double)x[i]);
}
#endif

int main(int argc, char **argv)
{
    static const struct check checks[] = {
        {"layers of known nets",              layers_of_known_nets           },
        {"odd shapes",                        odd_shapes                     },
#ifdef CONV_AMX_STAND_IN
        {"what is measured as the peak is",   peak_is_done                   },
#else
        {"Winograd's comes to the same", winograd_comes_to_the_same},
        {"edges of Winograd's do", edges_come_to_the_same},
        {"no image depends on another", no_image_depends_on_another},
#endif
        {"shares have the same bits",         shares_have_the_same_bits      },
        {"no part needs more scratch",        no_part_needs_more_scratch     },
        {"numbers are rounded to bf16",       numbers_are_rounded            },
        {"products are of rounded numbers",   products_are_of_rounded_numbers},
        {"the ways know what they cannot do", they_know_what_they_cannot_do  },
    };
    shapes = argc > 1 ? (unsigned)atoi(argv[1]) : cases(2000, 50);
    only = argc > 2 ? argv[2] : NULL;
    if (argc > 3)
        most_products = atof(argv[3]);
    require(most_products >= 1, "no layer has as few products as \"%s\"",
            argc > 3 ? argv[3] : "");
    int tried = 0;
    for (int i = 0; i < NISAS; i++) {
        const bool is = here(i);
        printf("# %s: %s\n", isas[i], is ? "tried" : "not tried");
        tried += is;
    }
    if (!tried) {
        printf("Bail out! no %s here\n", only);
        return 1;
    }
    return run_checks(checks, sizeof(checks) / sizeof(checks[0]));
}
