/* SPDX-License-Identifier: MIT */
/* Codes of floats: how far off they are, what becomes of odd numbers, and that
 * nothing is lost between a code and what is kept; on each instruction set. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dist/codec.h"
#include "draw.h"
#include "kernels/code.h"
#include "kernels/conv.h"

enum { MOST = 5 * CODE_BLOCK + 77 };

static const char *const isas[] = {
#define ISA(name) #name,
#include "kernels/isas.def"
#undef ISA
};
enum { NISAS = sizeof(isas) / sizeof(isas[0]) };

static float x[MOST], lost[MOST], back[MOST];
static _Alignas(8) unsigned char code[8 * MOST];

static float of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static float any_float(void)
{
    return of_bits((uint32_t)draw_from(&draw_state, UINT64_C(1) << 32));
}

/* In [-1, 1), times a power of two that differs from block to block. */
static float usual_float(size_t i)
{
    return ldexpf((float)draw(2001) / 1000 - 1, (int)(i / CODE_BLOCK) * 9 - 20);
}

static void fill(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = usual_float(i);
        lost[i] = draw(2) ? 0 : usual_float(i) / 128;
    }
}

/* The nearest of the two bf16 around x. */
static float nearest_bf16(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    const float down = of_bits(bits & 0xffff0000),
                up = of_bits((bits & 0xffff0000) + 0x10000);
    const double a = fabs((double)v - down);
    /* Above the largest all rounds as if there were one more. */
    const double b =
        isinf(up) ? ldexp(1, 128) - fabs((double)v) : fabs((double)up - v);
    return a < b || (a == b && !(bits >> 16 & 1)) ? down : up;
}

Test(codec, bf16_is_the_nearest)
{
    for (int isa = 0; isa < NISAS; isa++) {
        if (!conv_use(isas[isa]))
            continue;
        draw_state = 1;
        for (int turn = 0; turn < 200; turn++) {
            const size_t n = (size_t)draw(MOST) + 1;
            for (size_t i = 0; i < n; i++)
                x[i] = turn % 2 ? any_float()
                                : of_bits((uint32_t)draw(1 << 20) << 12);
            codec_bf16.encode(x, NULL, n, code);
            codec_bf16.decode(code, n, back);
            for (size_t i = 0; i < n; i++)
                cr_assert(isnan(x[i])   ? isnan(back[i])
                          : isinf(x[i]) ? back[i] == x[i]
                                        : back[i] == nearest_bf16(x[i]),
                          "%s: %a became %a", isas[isa], (double)x[i],
                          (double)back[i]);
            memcpy(lost, back, n * sizeof(float));
            codec_bf16.add(code, n, lost);
            for (size_t i = 0; i < n; i++)
                cr_assert(isnan(x[i]) || lost[i] == 2 * back[i]);
        }
    }
    cr_assert_eq(codec_bf16.bytes(1000), 2000);
}

/* Of the block that i is in. */
static double largest(const float *v, size_t n, size_t i)
{
    double most = 0;
    for (size_t k = i / CODE_BLOCK * CODE_BLOCK;
         k < n && k < (i / CODE_BLOCK + 1) * CODE_BLOCK; k++)
        most = fmax(most, fabs((double)v[k]));
    return most;
}

static void int8_of(size_t n, const char *isa)
{
    static float sum[MOST];
    static double kept[MOST];
    for (size_t i = 0; i < n; i++) {
        sum[i] = x[i] + lost[i];
        kept[i] = sum[i];
    }
    codec_int8.encode(x, lost, n, code);
    codec_int8.decode(code, n, back);
    for (size_t i = 0; i < n; i++) {
        const double most = largest(sum, n, i);
        cr_assert(fabs(kept[i] - back[i]) <= most / 254 * (1 + 1e-5),
                  "%s: %g of %zu became %g, the largest is %g", isa, kept[i], n,
                  (double)back[i], most);
        cr_assert(fabs(kept[i] - back[i] - lost[i]) <= most * 1e-7,
                  "%s: %g and %g are not %g", isa, (double)back[i],
                  (double)lost[i], kept[i]);
    }
    memcpy(sum, back, n * sizeof(float));
    codec_int8.add(code, n, sum);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(sum[i], 2 * back[i]);
}

Test(codec, int8_is_within_half_a_scale_and_loses_nothing)
{
    for (int isa = 0; isa < NISAS; isa++) {
        if (!conv_use(isas[isa]))
            continue;
        draw_state = 2;
        for (int turn = 0; turn < 200; turn++) {
            const size_t n = (size_t)draw(MOST) + 1;
            fill(n);
            int8_of(n, isas[isa]);
        }
    }
    cr_assert_eq(codec_int8.bytes(1024), 1024 + 4 * sizeof(float));
    cr_assert_eq(codec_int8.bytes(1), 8);
}

/* From the smallest that is not 0 to the largest. */
Test(codec, int8_of_any_size)
{
    for (int isa = 0; isa < NISAS; isa++)
        for (int power = -149; power < 128 && conv_use(isas[isa]); power++) {
            fill(CODE_BLOCK);
            for (size_t i = 0; i < CODE_BLOCK; i++) {
                x[i] = ldexpf((float)draw(3) - 1, power);
                lost[i] = 0;
            }
            codec_int8.encode(x, lost, CODE_BLOCK, code);
            codec_int8.decode(code, CODE_BLOCK, back);
            for (size_t i = 0; i < CODE_BLOCK; i++) {
                cr_assert(isfinite(back[i]));
                cr_assert(fabsf(x[i] - back[i] - lost[i])
                              <= fabsf(x[i]) * 1e-6f,
                          "%s: 2^%d: %g + %g", isas[isa], power,
                          (double)back[i], (double)lost[i]);
            }
        }
}

Test(codec, int8_tells_of_what_is_no_number)
{
    const float odd[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (int isa = 0; isa < NISAS; isa++)
        for (int k = 0; k < 4 && conv_use(isas[isa]); k++) {
            const size_t n = 3 * CODE_BLOCK - 5;
            fill(n);
            x[CODE_BLOCK + 7 * k] = odd[k];
            codec_int8.encode(x, lost, n, code);
            codec_int8.decode(code, n, back);
            for (size_t i = 0; i < n; i++)
                cr_assert_eq((bool)isnan(back[i]), i / CODE_BLOCK == 1);
        }
}

/* All instruction sets of this machine, so that hosts may differ. */
Test(codec, decoding_gives_the_same_bits_everywhere)
{
    static float first[MOST];
    for (int kind = 0; kind < 2; kind++) {
        const struct codec *c = kind ? &codec_int8 : &codec_bf16;
        fill(MOST);
        c->encode(x, lost, MOST, code);
        c->decode(code, MOST, first);
        for (int isa = 0; isa < NISAS; isa++) {
            if (!conv_use(isas[isa]))
                continue;
            c->decode(code, MOST, back);
            cr_assert(!memcmp(back, first, sizeof(first)));
        }
    }
}

/* The number of sum[0..n-1] that come before number i. */
static size_t rank_of(const float *sum, size_t n, size_t i)
{
    size_t before = 0;
    for (size_t k = 0; k < n; k++)
        before += fabsf(sum[k]) > fabsf(sum[i])
                  || (fabsf(sum[k]) == fabsf(sum[i]) && k < i);
    return before;
}

Test(codec, topk_takes_the_largest_and_keeps_the_rest)
{
    static float sum[MOST];
    draw_state = 4;
    for (int turn = 0; turn < 60; turn++) {
        const size_t n = (size_t)draw(600) + 1, k = (size_t)draw((int)n) + 1;
        fill(n);
        for (size_t i = 0; i < n; i++) {
            if (turn % 3 == 0) /* with many alike */
                x[i] = (float)draw(5) - 2;
            lost[i] = turn % 3 ? lost[i] : 0;
            sum[i] = x[i] + lost[i];
        }
        topk_encode(x, lost, n, k, code);
        memset(back, 0, sizeof(back));
        topk_add(code, k, back);
        for (size_t i = 0; i < n; i++) {
            const bool taken = rank_of(sum, n, i) < k;
            cr_assert_eq(back[i], taken ? sum[i] : 0, "%zu of %zu, number %zu",
                         k, n, i);
            cr_assert_eq(lost[i], taken ? 0 : sum[i]);
        }
    }
}

Test(codec, topk_takes_what_is_no_number_first)
{
    const float odd[] = {INFINITY, NAN, -INFINITY};
    fill(MOST);
    for (size_t i = 0; i < 3; i++)
        x[100 * i + 50] = odd[i];
    topk_encode(x, lost, MOST, 3, code);
    memset(back, 0, sizeof(back));
    topk_add(code, 3, back);
    cr_assert(isnan(back[150]) && back[50] == INFINITY
              && back[250] == -INFINITY);
}

Test(codec, topk_counts)
{
    cr_assert_eq(topk_count(1000, 1), 10);
    cr_assert_eq(topk_count(1001, 1), 11);
    cr_assert_eq(topk_count(1000, 0.001), 1);
    cr_assert_eq(topk_count(1000, 100), 1000);
    cr_assert_eq(topk_count(0, 1), 0);
    cr_assert_eq(topk_bytes(11), 88);
}
