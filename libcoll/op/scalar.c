/* SPDX-License-Identifier: MIT */
/* Every operator on every dtype in plain C: what the other kernels must equal,
 * and what runs where no other kernel exists.
 *
 * The loops differ only in type and expression, so macros stamp them out; the
 * compiler vectorises most. Signed integers share the unsigned loops wherever
 * the bits come out the same, which also keeps overflow defined. The narrow
 * floats are widened a block at a time, reduced in f32 and rounded back: f32
 * has more than twice their digits, so rounding twice equals rounding once.
 */
#include <math.h>
#include <stdint.h>

#include "op/convert.h"
#include "op/kernels.h"

enum { BLOCK = 256 }; /* three blocks of f32 fit in the first-level cache */

/* x and y are the elements, of type T. */
#define LOOP(name, T, expression)                                              \
    static void name(void *dst, const void *a, const void *b, size_t n)        \
    {                                                                          \
        const T *const xs = a, *const ys = b;                                  \
        T *const zs = dst;                                                     \
        for (size_t i = 0; i < n; i++) {                                       \
            const T x = xs[i], y = ys[i];                                      \
            zs[i] = (T)(expression);                                           \
        }                                                                      \
    }

/* Sums and products in W: u16 * u16 in int would overflow. */
#define BIT_LOOPS(bits, T, W)                                                  \
    LOOP(sum_##bits, T, (W)x + (W)y)                                           \
    LOOP(prod_##bits, T, (W)x *(W)y)                                           \
    LOOP(band_##bits, T, x &y)                                                 \
    LOOP(bor_##bits, T, x | y)                                                 \
    LOOP(bxor_##bits, T, x ^ y)                                                \
    LOOP(land_##bits, T, x != 0 && y != 0)                                     \
    LOOP(lor_##bits, T, x != 0 || y != 0)

#define ORDER_LOOPS(name, T)                                                   \
    LOOP(min_##name, T, x < y ? x : y)                                         \
    LOOP(max_##name, T, x > y ? x : y)

BIT_LOOPS(8, uint8_t, unsigned)
BIT_LOOPS(16, uint16_t, unsigned)
BIT_LOOPS(32, uint32_t, uint32_t)
BIT_LOOPS(64, uint64_t, uint64_t)
ORDER_LOOPS(i8, int8_t)
ORDER_LOOPS(u8, uint8_t)
ORDER_LOOPS(i16, int16_t)
ORDER_LOOPS(u16, uint16_t)
ORDER_LOOPS(i32, int32_t)
ORDER_LOOPS(u32, uint32_t)
ORDER_LOOPS(i64, int64_t)
ORDER_LOOPS(u64, uint64_t)

/* A NaN wins, and -0 is less than +0: the result must not depend on which
 * rank's element comes first. */
static inline double min_of(double x, double y)
{
    if (x == y)
        return signbit(x) ? x : y;
    return x < y || x != x ? x : y;
}

static inline double max_of(double x, double y)
{
    if (x == y)
        return signbit(x) ? y : x;
    return x > y || x != x ? x : y;
}

LOOP(sum_f32, float, x + y)
LOOP(prod_f32, float, x *y)
LOOP(min_f32, float, min_of(x, y))
LOOP(max_f32, float, max_of(x, y))
LOOP(sum_f64, double, x + y)
LOOP(prod_f64, double, x *y)
LOOP(min_f64, double, min_of(x, y))
LOOP(max_f64, double, max_of(x, y))

static void reduce_narrow(coll_dtype dtype, reduce_fn *reduce, void *dst,
                          const void *a, const void *b, size_t n)
{
    const size_t bytes = dtype == COLL_F16 || dtype == COLL_BF16 ? 2 : 1;
    float x[BLOCK], y[BLOCK];
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t m = n - i < BLOCK ? n - i : BLOCK;
        convert_widen(dtype, x, (const char *)a + i * bytes, m);
        convert_widen(dtype, y, (const char *)b + i * bytes, m);
        reduce(x, x, y, m);
        convert_narrow(dtype, (char *)dst + i * bytes, x, m);
    }
}

#define NARROW(name, dtype, wide)                                              \
    static void name(void *dst, const void *a, const void *b, size_t n)        \
    {                                                                          \
        reduce_narrow(dtype, wide, dst, a, b, n);                              \
    }
#define NARROW_LOOPS(name, dtype)                                              \
    NARROW(sum_##name, dtype, sum_f32)                                         \
    NARROW(prod_##name, dtype, prod_f32)                                       \
    NARROW(min_##name, dtype, min_f32)                                         \
    NARROW(max_##name, dtype, max_f32)

NARROW_LOOPS(f16, COLL_F16)
NARROW_LOOPS(bf16, COLL_BF16)
NARROW_LOOPS(f8e4m3, COLL_F8E4M3)
NARROW_LOOPS(f8e5m2, COLL_F8E5M2)

#define INTEGER(name, bits)                                                    \
    {                                                                          \
        sum_##bits, prod_##bits, min_##name, max_##name, sum_##bits,           \
            band_##bits, bor_##bits, bxor_##bits, land_##bits, lor_##bits      \
    }
#define FLOATING(name)                                                         \
    {                                                                          \
        sum_##name, prod_##name, min_##name, max_##name, sum_##name            \
    }

static reduce_fn *const table[][COLL_LOR + 1] = {
    [COLL_I8] = INTEGER(i8, 8),       [COLL_U8] = INTEGER(u8, 8),
    [COLL_I16] = INTEGER(i16, 16),    [COLL_U16] = INTEGER(u16, 16),
    [COLL_I32] = INTEGER(i32, 32),    [COLL_U32] = INTEGER(u32, 32),
    [COLL_I64] = INTEGER(i64, 64),    [COLL_U64] = INTEGER(u64, 64),
    [COLL_F16] = FLOATING(f16),       [COLL_BF16] = FLOATING(bf16),
    [COLL_F32] = FLOATING(f32),       [COLL_F64] = FLOATING(f64),
    [COLL_F8E4M3] = FLOATING(f8e4m3), [COLL_F8E5M2] = FLOATING(f8e5m2),
};

reduce_fn *op_reduce_scalar(coll_dtype dtype, coll_op op)
{
    if ((unsigned)dtype > COLL_F8E5M2 || (unsigned)op > COLL_LOR)
        return NULL;
    return table[dtype][op];
}

bool has_scalar(void)
{
    return true;
}

void sum_f32_scalar(void *dst, const void *a, const void *b, size_t n)
{
    sum_f32(dst, a, b, n);
}

void sum_f64_scalar(void *dst, const void *a, const void *b, size_t n)
{
    sum_f64(dst, a, b, n);
}

void sum_bf16_scalar(void *dst, const void *a, const void *b, size_t n)
{
    sum_bf16(dst, a, b, n);
}

void sum_f16_scalar(void *dst, const void *a, const void *b, size_t n)
{
    sum_f16(dst, a, b, n);
}
