/* SPDX-License-Identifier: MIT */
#include "dist/codec.h"

#include <stdint.h>

#include "kernels/code.h"
#include "kernels/lanes.h"

static size_t whole_words(size_t bytes)
{
    return (bytes + 3) / 4 * 4;
}

/* --- bf16 ------------------------------------------------------------------
 */

static size_t bf16_bytes(size_t n)
{
    return whole_words(n * sizeof(uint16_t));
}

static void bf16_encode(const float *x, float *lost, size_t n, void *to)
{
    (void)lost;
    lanes()->code->to_bf16(x, n, to);
}

static void bf16_decode(const void *from, size_t n, float *x)
{
    lanes()->code->from_bf16(from, n, x);
}

static void bf16_add(const void *from, size_t n, float *x)
{
    lanes()->code->add_bf16(from, n, x);
}

const struct codec codec_bf16 = {
    .name = "bf16",
    .bytes = bf16_bytes,
    .encode = bf16_encode,
    .decode = bf16_decode,
    .add = bf16_add,
};

/* --- int8: a scale for each block, then all numbers ------------------------
 */

static size_t blocks(size_t n)
{
    return (n + CODE_BLOCK - 1) / CODE_BLOCK;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t int8_bytes(size_t n)
{
    return blocks(n) * sizeof(float) + whole_words(n);
}

static void int8_encode(const float *x, float *lost, size_t n, void *to)
{
    const struct code_loops *loops = lanes()->code;
    float *scale = to;
    int8_t *numbers = (int8_t *)(scale + blocks(n));
    for (size_t i = 0; i < n; i += CODE_BLOCK)
        *scale++ = loops->to_int8(x + i, lost + i, least(n - i, CODE_BLOCK),
                                  numbers + i);
}

static void int8_decode(const void *from, size_t n, float *x)
{
    const struct code_loops *loops = lanes()->code;
    const float *scale = from;
    const int8_t *numbers = (const int8_t *)(scale + blocks(n));
    for (size_t i = 0; i < n; i += CODE_BLOCK)
        loops->from_int8(numbers + i, *scale++, least(n - i, CODE_BLOCK),
                         x + i);
}

static void int8_add(const void *from, size_t n, float *x)
{
    const struct code_loops *loops = lanes()->code;
    const float *scale = from;
    const int8_t *numbers = (const int8_t *)(scale + blocks(n));
    for (size_t i = 0; i < n; i += CODE_BLOCK)
        loops->add_int8(numbers + i, *scale++, least(n - i, CODE_BLOCK), x + i);
}

const struct codec codec_int8 = {
    .name = "int8",
    .feeds_back = true,
    .bytes = int8_bytes,
    .encode = int8_encode,
    .decode = int8_decode,
    .add = int8_add,
};
