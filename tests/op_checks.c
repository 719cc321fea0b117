/* SPDX-License-Identifier: MIT */
/* The oracle knows the formats by their definition, computes in 128 bits, and
 * rounds by searching for the nearest code: nothing in common with the code
 * under test. */
#include "op_checks.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/coll.h"
#include "op/convert.h"
#include "op/op.h"

__extension__ typedef __int128 wide_int;
#if defined(__aarch64__)
typedef long double wide_float;
#else
__extension__ typedef __float128 wide_float;
#endif

enum { LENGTHS = 68, OFFSETS = 5, GUARD = 64, ROOM = 1024 };

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static bool is_signed(coll_dtype d)
{
    return d == COLL_I8 || d == COLL_I16 || d == COLL_I32 || d == COLL_I64;
}

static bool is_float(coll_dtype d)
{
    return d >= COLL_F16;
}

static bool is_narrow(coll_dtype d)
{
    return is_float(d) && d != COLL_F32 && d != COLL_F64;
}

static uint64_t load(coll_dtype d, const void *x, size_t i)
{
    uint64_t code = 0; /* little endian, as every CPU this runs on */
    const size_t bytes = coll_dtype_bytes(d);
    memcpy(&code, (const char *)x + i * bytes, bytes);
    return code;
}

static void store(coll_dtype d, void *x, size_t i, uint64_t code)
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

static double decode(coll_dtype d, uint64_t code)
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
static uint64_t largest_code(coll_dtype d)
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
    const uint64_t largest = largest_code(d);
    const double last = decode(d, largest);
    const double beyond = last + (last - decode(d, largest - 1));
    uint64_t lo = 0, hi = largest + 1;
    if (v >= beyond)
        return hi;
    while (hi - lo > 1) {
        const uint64_t mid = (lo + hi) / 2;
        if (decode(d, mid) <= v)
            lo = mid;
        else
            hi = mid;
    }
    const wide_float below = v - decode(d, lo);
    const wide_float above = (hi > largest ? beyond : decode(d, hi)) - v;
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

static bool same(coll_dtype d, uint64_t x, uint64_t y)
{
    if (is_float(d) && isnan(decode(d, x)) && isnan(decode(d, y)))
        return true;
    const int bits = (int)coll_dtype_bytes(d) * 8;
    const uint64_t mask = bits == 64 ? ~(uint64_t)0 : (1ull << bits) - 1;
    return (x & mask) == (y & mask);
}

/* Operands: all codes of a byte, else the edges of the type and chance. */
static size_t operands(coll_dtype d, uint64_t *out)
{
    const int bits = (int)coll_dtype_bytes(d) * 8;
    size_t n = 0;
    if (bits == 8) {
        while (n < 256) {
            out[n] = n;
            n++;
        }
        return n;
    }
    for (int k = 0; k < bits; k++) { /* 2^k - 1 and its complement: the ends */
        out[n++] = (1ull << k) - 1;  /* of exponents, and integers' extremes */
        out[n++] = ~((1ull << k) - 1);
    }
    if (is_float(d)) {
        const uint64_t one = d == COLL_F16    ? 0x3c00
                             : d == COLL_BF16 ? 0x3f80
                             : d == COLL_F32  ? 0x3f800000
                                              : 0x3ff0000000000000;
        const uint64_t infinity = d == COLL_F16    ? 0x7c00
                                  : d == COLL_BF16 ? 0x7f80
                                  : d == COLL_F32  ? 0x7f800000
                                                   : 0x7ff0000000000000;
        for (uint64_t k = 0; k < 3; k++) {
            out[n++] = one + k;
            out[n++] = infinity - k; /* and the largest two */
        }
        out[n++] = infinity | 1ull << (bits - 1);
    }
    for (int k = 0; k < 40; k++)
        out[n++] = next_random();
    return n;
}

static bool oracle_agrees(coll_dtype d, coll_op op, reduce_fn *reduce)
{
    uint64_t codes[256];
    char row[256 * 8], column[256 * 8], result[256 * 8];
    const size_t n = operands(d, codes);
    for (size_t i = 0; i < n; i++)
        store(d, row, i, codes[i]);
    for (size_t j = 0; j < n; j++) {
        for (size_t i = 0; i < n; i++)
            store(d, column, i, codes[j]);
        reduce(result, row, column, n);
        for (size_t i = 0; i < n; i++) {
            const uint64_t x = load(d, row, i), y = load(d, column, i);
            const uint64_t expected =
                is_float(d)
                    ? encode(d, reduce_float(op, decode(d, x), decode(d, y)))
                    : (uint64_t)reduce_int(op, read_int(d, x), read_int(d, y));
            const uint64_t got = load(d, result, i);
            if (!same(d, got, expected)) {
                fprintf(stderr, "%s %s: %#llx op %#llx is %#llx, not %#llx\n",
                        coll_dtype_name(d), coll_op_name(op),
                        (unsigned long long)x, (unsigned long long)y,
                        (unsigned long long)expected, (unsigned long long)got);
                return false;
            }
        }
    }
    return true;
}

bool scalar_equals_oracle(void)
{
    bool ok = true;
    for (int d = COLL_I8; d <= COLL_F8E5M2; d++) {
        for (int op = COLL_SUM; op <= COLL_LOR; op++) {
            reduce_fn *const reduce = op_reduce_scalar(d, op);
            const bool defined = op < COLL_BAND || !is_float(d);
            if ((reduce != NULL) != defined) {
                fprintf(stderr, "%s %s: defined? expected %d\n",
                        coll_dtype_name(d), coll_op_name(op), defined);
                ok = false;
            } else if (defined) {
                ok = oracle_agrees(d, op, reduce) && ok;
            }
        }
    }
    return ok;
}

/* One length and placement: result in place of a (1), of b (2) or apart (0). */
static bool kernel_agrees(coll_dtype d, reduce_fn *scalar, reduce_fn *kernel,
                          size_t n, size_t offset, int in_place)
{
    static char a[ROOM], b[ROOM], dst[ROOM], expected[ROOM];
    const size_t bytes = coll_dtype_bytes(d);
    for (size_t i = 0; i + 8 <= ROOM; i += 8) {
        store(COLL_U64, a + i, 0, next_random());
        store(COLL_U64, b + i, 0, next_random());
    }
    memset(dst, 0x5a, ROOM);
    char *const target = in_place == 1 ? a : in_place == 2 ? b : dst;
    const size_t at = GUARD + offset * bytes; /* b and dst lie otherwise */
    memcpy(expected, target, ROOM);
    const size_t to = in_place == 1 ? at : at + bytes;
    scalar(expected + to, a + at, b + at + bytes, n);
    kernel(target + to, a + at, b + at + bytes, n);
    for (size_t i = 0; i < n; i++)
        if (!same(d, load(d, target + to, i), load(d, expected + to, i)))
            return false;
    return memcmp(target, expected, to) == 0
           && memcmp(target + to + n * bytes, expected + to + n * bytes,
                     ROOM - to - n * bytes)
                  == 0;
}

static bool kernel_equals_scalar(const char *isa, coll_dtype d, coll_op op,
                                 reduce_fn *kernel)
{
    reduce_fn *const scalar = op_reduce_scalar(d, op);
    for (size_t n = 0; n < LENGTHS; n++)
        for (size_t offset = 0; offset < OFFSETS; offset++)
            for (int in_place = 0; in_place < 3; in_place++)
                if (!kernel_agrees(d, scalar, kernel, n, offset, in_place)) {
                    fprintf(stderr,
                            "%s %s %s: length %zu at element %zu, in place "
                            "%d, differs from scalar\n",
                            isa, coll_dtype_name(d), coll_op_name(op), n,
                            offset, in_place);
                    return false;
                }
    return true;
}

bool kernels_equal_scalar(void)
{
    bool ok = true;
    for (int k = 0; k < nop_kernels; k++) {
        const struct op_kernel *const row = &op_kernels[k];
        if (row->supported())
            ok =
                kernel_equals_scalar(row->isa, row->dtype, row->op, row->reduce)
                && ok;
        else
            fprintf(stderr, "%s %s: not on this CPU\n", row->isa,
                    coll_dtype_name(row->dtype));
    }
    for (int d = COLL_I8; d <= COLL_F8E5M2; d++)
        for (int op = COLL_SUM; op <= COLL_LOR; op++)
            if (op_reduce(d, op))
                ok = kernel_equals_scalar("chosen", d, op, op_reduce(d, op))
                     && ok;
    return ok;
}

static uint64_t divided(coll_dtype d, uint64_t code, int nranks)
{
    if (is_float(d))
        return encode(d, (wide_float)decode(d, code) / nranks);
    return (uint64_t)(read_int(d, code) / nranks);
}

bool finish_equals_oracle(void)
{
    static const int sizes[] = {1, 2, 3, 7};
    bool ok = true;
    for (int d = COLL_I8; d <= COLL_F8E5M2; d++) {
        for (int s = 0; s < 4; s++) {
            uint64_t codes[256];
            char x[256 * 8], summed[256 * 8];
            const size_t n = operands(d, codes);
            for (size_t i = 0; i < n; i++)
                store(d, x, i, codes[i]);
            memcpy(summed, x, sizeof x);
            op_finish(d, COLL_SUM, summed, n, sizes[s]);
            ok = ok && memcmp(summed, x, n * coll_dtype_bytes(d)) == 0;
            op_finish(d, COLL_AVG, x, n, sizes[s]);
            for (size_t i = 0; i < n; i++)
                if (!same(d, load(d, x, i),
                          divided(d, load(d, summed, i), sizes[s]))) {
                    fprintf(stderr, "%s: %#llx / %d\n", coll_dtype_name(d),
                            (unsigned long long)codes[i], sizes[s]);
                    return false;
                }
        }
    }
    return ok;
}

static uint64_t narrow_one(coll_dtype d, float x)
{
    uint64_t code = 0;
    convert_narrow(d, &code, &x, 1);
    return code;
}

bool codes_survive_a_round_trip(void)
{
    for (int d = COLL_F16; d <= COLL_F8E5M2; d++) {
        if (!is_narrow(d))
            continue;
        const uint64_t ncodes = 1ull << coll_dtype_bytes(d) * 8;
        for (uint64_t code = 0; code < ncodes; code++) {
            float x;
            convert_widen(d, &x, &code, 1);
            const double exact = decode(d, code);
            const uint64_t back = narrow_one(d, x);
            const bool ok = isnan(exact) ? isnan(x) && isnan(decode(d, back))
                                         : x == exact && back == code;
            if (!ok || !signbit(x) != !signbit(exact)
                || (back ^ code) >> (coll_dtype_bytes(d) * 8 - 1)) {
                fprintf(stderr, "%s: %#llx is %g, widened %g, back %#llx\n",
                        coll_dtype_name(d), (unsigned long long)code, exact,
                        (double)x, (unsigned long long)back);
                return false;
            }
        }
    }
    return true;
}

static bool rounds_to(coll_dtype d, float x, uint64_t code)
{
    const uint64_t sign = 1ull << (coll_dtype_bytes(d) * 8 - 1);
    const uint64_t up = narrow_one(d, x), down = narrow_one(d, -x);
    if (up == code && down == (code | sign))
        return true;
    fprintf(stderr, "%s: +-%a becomes %#llx and %#llx, not +-%#llx\n",
            coll_dtype_name(d), (double)x, (unsigned long long)up,
            (unsigned long long)down, (unsigned long long)code);
    return false;
}

bool midpoints_round_to_even(void)
{
    for (int d = COLL_F16; d <= COLL_F8E5M2; d++) {
        if (!is_narrow(d))
            continue;
        const uint64_t largest = largest_code(d);
        const double last = decode(d, largest);
        for (uint64_t code = 0; code <= largest; code++) {
            const double lo = decode(d, code);
            const double hi = code < largest
                                  ? decode(d, code + 1)
                                  : last + (last - decode(d, largest - 1));
            const float mid = (float)(lo + (hi - lo) / 2);
            if (!rounds_to(d, mid, code + code % 2)
                || !rounds_to(d, nextafterf(mid, 0), code)
                || !rounds_to(d, nextafterf(mid, INFINITY), code + 1))
                return false;
        }
        if (!rounds_to(d, INFINITY, largest + 1)
            || !rounds_to(d, 3.4e38f, largest + 1))
            return false;
    }
    return true;
}
