/* SPDX-License-Identifier: MIT */
#include "op_oracle.h"

#include <math.h>
#include <string.h>

__extension__ typedef __int128 wide_int;
#if defined(__aarch64__)
typedef long double wide_float;
#else
__extension__ typedef __float128 wide_float;
#endif

static bool is_signed(coll_dtype d)
{
    return d == COLL_I8 || d == COLL_I16 || d == COLL_I32 || d == COLL_I64;
}

bool oracle_is_float(coll_dtype d)
{
    return d >= COLL_F16;
}

bool oracle_is_narrow(coll_dtype d)
{
    return oracle_is_float(d) && d != COLL_F32 && d != COLL_F64;
}

uint64_t oracle_load(coll_dtype d, const void *x, size_t i)
{
    uint64_t code = 0; /* little endian, as every CPU this runs on */
    const size_t bytes = coll_dtype_bytes(d);
    memcpy(&code, (const char *)x + i * bytes, bytes);
    return code;
}

void oracle_store(coll_dtype d, void *x, size_t i, uint64_t code)
{
    const size_t bytes = coll_dtype_bytes(d);
    memcpy((char *)x + i * bytes, &code, bytes);
}

/* A narrow float by its definition. */
static double decode_parts(uint64_t code, int exponent_bits, int mantissa_bits,
                           bool has_infinity)
{
    const int top = (1 << exponent_bits) - 1;
    const int bias = top >> 1, scale = 1 << mantissa_bits;
    const int mantissa = (int)code & (scale - 1);
    const int exponent = (int)(code >> mantissa_bits) & top;
    const double sign = code >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
    if (has_infinity ? exponent == top
                     : exponent == top && mantissa == scale - 1)
        return copysign(has_infinity && !mantissa ? INFINITY : NAN, sign);
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(scale + mantissa, exponent - bias - mantissa_bits);
}

double oracle_decode(coll_dtype d, uint64_t code)
{
    float f;
    double x;
    switch (d) {
    case COLL_F16:
        return decode_parts(code, 5, 10, true);
    case COLL_BF16:
        return decode_parts(code, 8, 7, true);
    case COLL_F8E4M3:
        return decode_parts(code, 4, 3, false);
    case COLL_F8E5M2:
        return decode_parts(code, 5, 2, true);
    case COLL_F32:
        memcpy(&f, &code, sizeof f);
        return f;
    default:
        memcpy(&x, &code, sizeof x);
        return x;
    }
}

/* The largest finite code, and what stands for larger numbers. */
uint64_t oracle_largest(coll_dtype d)
{
    return d == COLL_F16      ? 0x7bff
           : d == COLL_BF16   ? 0x7f7f
           : d == COLL_F8E4M3 ? 0x7e
                              : 0x7b;
}

static uint64_t nan_code(coll_dtype d)
{
    return d == COLL_F16 ? 0x7e00 : d == COLL_BF16 ? 0x7fc0 : 0x7f;
}

/* The code nearest to v >= 0, of two the even one. The successor of the
 * largest code counts as a number while rounding. */
static uint64_t nearest_code(coll_dtype d, wide_float v)
{
    const uint64_t largest = oracle_largest(d);
    const double last = oracle_decode(d, largest);
    const double beyond = last + (last - oracle_decode(d, largest - 1));
    uint64_t lo = 0, hi = largest + 1;
    if (v >= beyond)
        return hi;
    while (hi - lo > 1) {
        const uint64_t mid = (lo + hi) / 2;
        if (oracle_decode(d, mid) <= v)
            lo = mid;
        else
            hi = mid;
    }
    const wide_float below = v - oracle_decode(d, lo);
    const wide_float above = (hi > largest ? beyond : oracle_decode(d, hi)) - v;
    if (below == above)
        return lo % 2 ? hi : lo;
    return below < above ? lo : hi;
}

static uint64_t encode(coll_dtype d, wide_float v)
{
    uint64_t code = 0;
    if (d == COLL_F64) {
        const double x = (double)v;
        memcpy(&code, &x, sizeof x);
        return code;
    }
    if (d == COLL_F32) {
        const float x = (float)v;
        memcpy(&code, &x, sizeof x);
        return code;
    }
    if (v != v)
        return nan_code(d);
    const bool negative = signbit((double)v);
    const int bits = (int)coll_dtype_bytes(d) * 8;
    return nearest_code(d, negative ? -v : v)
           | (uint64_t)negative << (bits - 1);
}

static wide_float reduce_float(coll_op op, double x, double y)
{
    if (op == COLL_SUM || op == COLL_AVG)
        return (wide_float)x + y;
    if (op == COLL_PROD)
        return (wide_float)x * y;
    if (isnan(x) || isnan(y))
        return NAN;
    if (x == 0 && y == 0)
        return op == COLL_MIN ? copysign(0, signbit(x) || signbit(y) ? -1 : 1)
                              : copysign(0, signbit(x) && signbit(y) ? -1 : 1);
    return op == COLL_MIN ? fmin(x, y) : fmax(x, y);
}

static wide_int read_int(coll_dtype d, uint64_t code)
{
    const int bits = (int)coll_dtype_bytes(d) * 8;
    wide_int v = code;
    if (is_signed(d) && code >> (bits - 1))
        v -= (wide_int)1 << bits;
    return v;
}

static wide_int reduce_int(coll_op op, wide_int x, wide_int y)
{
    switch (op) {
    case COLL_SUM:
    case COLL_AVG:
        return x + y;
    case COLL_PROD:
        return (wide_int)((uint64_t)x * (uint64_t)y);
    case COLL_MIN:
        return x < y ? x : y;
    case COLL_MAX:
        return x > y ? x : y;
    case COLL_BAND:
        return x & y;
    case COLL_BOR:
        return x | y;
    case COLL_BXOR:
        return x ^ y;
    case COLL_LAND:
        return x != 0 && y != 0;
    default:
        return x != 0 || y != 0;
    }
}

bool oracle_same(coll_dtype d, uint64_t x, uint64_t y)
{
    if (oracle_is_float(d) && isnan(oracle_decode(d, x))
        && isnan(oracle_decode(d, y)))
        return true;
    const int bits = (int)coll_dtype_bytes(d) * 8;
    const uint64_t mask = bits == 64 ? ~(uint64_t)0 : (1ull << bits) - 1;
    return (x & mask) == (y & mask);
}

uint64_t oracle_divided(coll_dtype d, uint64_t code, int nranks)
{
    if (oracle_is_float(d))
        return encode(d, (wide_float)oracle_decode(d, code) / nranks);
    return (uint64_t)(read_int(d, code) / nranks);
}

/* The first power of two, and the rest: in f32 but for f64. */
static double in_pairs(coll_dtype d, coll_op op, const uint64_t *x, int nsrc)
{
    int first = 1;
    if (nsrc == 1)
        return oracle_decode(d, x[0]);
    while (2 * first < nsrc)
        first *= 2;
    const double lower = in_pairs(d, op, x, first),
                 upper = in_pairs(d, op, x + first, nsrc - first);
    const wide_float both = reduce_float(op, lower, upper);
    return d == COLL_F64 ? (double)both : (double)(float)both;
}

/* Rounded once. */
static uint64_t fold_floats(coll_dtype d, coll_op op, const uint64_t *x,
                            int nsrc, int divisor)
{
    double acc = in_pairs(d, op, x, nsrc);
    if (op == COLL_AVG)
        acc = d == COLL_F64 ? acc / divisor
                            : (double)(float)((wide_float)acc / divisor);
    return encode(d, acc);
}

static uint64_t fold_ints(coll_dtype d, coll_op op, const uint64_t *x, int nsrc,
                          int divisor)
{
    const int bits = (int)coll_dtype_bytes(d) * 8;
    uint64_t acc = x[0];
    for (int s = 1; s < nsrc; s++)
        acc = (uint64_t)reduce_int(op, read_int(d, acc), read_int(d, x[s]))
              & ~(uint64_t)0 >> (64 - bits);
    return op == COLL_AVG ? oracle_divided(d, acc, divisor) : acc;
}

uint64_t oracle_pair(coll_dtype d, coll_op op, uint64_t x, uint64_t y)
{
    if (oracle_is_float(d))
        return encode(
            d, reduce_float(op, oracle_decode(d, x), oracle_decode(d, y)));
    return (uint64_t)reduce_int(op, read_int(d, x), read_int(d, y));
}

uint64_t oracle_fold(coll_dtype d, coll_op op, const uint64_t *x, int nsrc,
                     int divisor)
{
    return oracle_is_float(d) ? fold_floats(d, op, x, nsrc, divisor)
                              : fold_ints(d, op, x, nsrc, divisor);
}
