/* SPDX-License-Identifier: MIT */
/* Every operator on vectors of every element type.
 *
 * Signed integers share the unsigned operators wherever the bits come out the
 * same, which also keeps overflow defined. A comparison gives -1 for true.
 */
#ifndef OP_ARITH_H
#define OP_ARITH_H

#include "op/vector.h"

/* left and right are the elements, seen as x and y of type V. */
#define OPERATOR(name, V, expression)                                          \
    static inline vec name(vec left, vec right)                                \
    {                                                                          \
        const V x = (V)left, y = (V)right;                                     \
        return (vec)(expression);                                              \
    }

#define BIT_OPERATORS(bits, V)                                                 \
    OPERATOR(sum_##bits, V, x + y)                                             \
    OPERATOR(prod_##bits, V, x *y)                                             \
    OPERATOR(land_##bits, V, -((x != (V){0}) & (y != (V){0})))                 \
    OPERATOR(lor_##bits, V, -((x | y) != (V){0}))

BIT_OPERATORS(8, vec_u8)
BIT_OPERATORS(16, vec_u16)
BIT_OPERATORS(32, vec_u32)
BIT_OPERATORS(64, vec_u64)
OPERATOR(band, vec_u8, x &y)
OPERATOR(bor, vec_u8, x | y)
OPERATOR(bxor, vec_u8, x ^ y)

static inline vec choose(vec mask, vec yes, vec no)
{
    return (yes & mask) | (no & ~mask);
}

#define ORDER_OPERATORS(name, V)                                               \
    OPERATOR(min_##name, V, choose((vec)(x < y), left, right))                 \
    OPERATOR(max_##name, V, choose((vec)(x > y), left, right))

ORDER_OPERATORS(i8, vec_i8)
ORDER_OPERATORS(u8, vec_u8)
ORDER_OPERATORS(i16, vec_i16)
ORDER_OPERATORS(u16, vec_u16)
ORDER_OPERATORS(i32, vec_i32)
ORDER_OPERATORS(u32, vec_u32)
ORDER_OPERATORS(i64, vec_i64)
ORDER_OPERATORS(u64, vec_u64)

/* A NaN wins, and -0 is less than +0: the result must not depend on which
 * rank's element comes first. Equal numbers differ in no bit but the sign of
 * a zero, which "or" sets in the minimum, "and" clears in the maximum. */
#define FLOAT_OPERATORS(name, V)                                               \
    OPERATOR(sum_##name, V, x + y)                                             \
    OPERATOR(prod_##name, V, x *y)                                             \
    OPERATOR(min_##name, V,                                                    \
             choose((vec)((x < y) | (x != x)), left,                           \
                    right | (left & (vec)(x == y))))                           \
    OPERATOR(max_##name, V,                                                    \
             choose((vec)((x > y) | (x != x)), left,                           \
                    right &(left | ~(vec)(x == y))))

FLOAT_OPERATORS(f32, vec_f32)
FLOAT_OPERATORS(f64, vec_f64)

/* In type W, in which both the element and the divisor are exact. No CPU here
 * divides vectors of integers: a function, not to repeat it in every kernel. */
#define INTEGER_DIVISION(name, T, W)                                           \
    static __attribute__((noinline)) vec divide_##name(vec x, int divisor)     \
    {                                                                          \
        T elements[VECTOR_BYTES / sizeof(T)];                                  \
        memcpy(elements, &x, sizeof x);                                        \
        for (size_t i = 0; i < VECTOR_BYTES / sizeof(T); i++)                  \
            elements[i] = (T)((W)elements[i] / (W)divisor);                    \
        memcpy(&x, elements, sizeof x);                                        \
        return x;                                                              \
    }

INTEGER_DIVISION(i8, int8_t, int)
INTEGER_DIVISION(u8, uint8_t, unsigned)
INTEGER_DIVISION(i16, int16_t, int)
INTEGER_DIVISION(u16, uint16_t, unsigned)
INTEGER_DIVISION(i32, int32_t, int)
INTEGER_DIVISION(u32, uint32_t, unsigned)
INTEGER_DIVISION(i64, int64_t, int64_t)
INTEGER_DIVISION(u64, uint64_t, uint64_t)

static inline vec divide_f32(vec x, int divisor)
{
    return (vec)((vec_f32)x / (float)divisor);
}

static inline vec divide_f64(vec x, int divisor)
{
    return (vec)((vec_f64)x / (double)divisor);
}

#endif
