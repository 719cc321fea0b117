/* SPDX-License-Identifier: MIT */
#include "op_checks.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/coll.h"
#include "op/op.h"
#include "op_oracle.h"
#include "thorough.h"

#define VECTOR_BYTES 8 /* as "scalar" has them */
#include "op/convert.h"

enum { MOST_SRC = 23, MOST_DST = 4, LONGEST = 2100, GUARD = 64, LINE = 64 };

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
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
    if (oracle_is_float(d)) {
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

/* All pairs of operands. */
static bool pairs_agree(const char *isa, coll_dtype d, coll_op op,
                        combine_fn *combine)
{
    uint64_t codes[256];
    char row[256 * 8], column[256 * 8], result[256 * 8];
    void *const dst = result;
    const void *const src[] = {row, column};
    const size_t n = operands(d, codes);
    for (size_t i = 0; i < n; i++)
        oracle_store(d, row, i, codes[i]);
    for (size_t j = 0; j < n; j++) {
        for (size_t i = 0; i < n; i++)
            oracle_store(d, column, i, codes[j]);
        combine(&dst, 1, src, 2, n, 1, false);
        for (size_t i = 0; i < n; i++) {
            const uint64_t x = oracle_load(d, row, i),
                           y = oracle_load(d, column, i);
            const uint64_t expected = oracle_pair(d, op, x, y);
            const uint64_t got = oracle_load(d, result, i);
            if (!oracle_same(d, got, expected)) {
                fprintf(stderr,
                        "%s %s %s: %#llx op %#llx is %#llx, not %#llx\n", isa,
                        coll_dtype_name(d), coll_op_name(op),
                        (unsigned long long)x, (unsigned long long)y,
                        (unsigned long long)expected, (unsigned long long)got);
                return false;
            }
        }
    }
    return true;
}

/* In the fast suite with the widest vectors and with none. */
bool pairs_equal_oracle(void)
{
    bool ok = true;
    for (int k = 0; k < nop_isas; k++) {
        const struct op_isa *const isa = &op_isas[k];
        if (!thorough() && k > 0 && k < nop_isas - 1)
            continue;
        for (int d = COLL_I8; d <= COLL_F8E5M2; d++) {
            for (int op = COLL_SUM; op <= COLL_LOR; op++) {
                combine_fn *const combine = isa->kernels[d][op];
                const bool defined = op < COLL_BAND || !oracle_is_float(d);
                if ((combine != NULL) != defined) {
                    fprintf(stderr, "%s %s: defined? expected %d\n",
                            coll_dtype_name(d), coll_op_name(op), defined);
                    ok = false;
                } else if (defined && isa->supported()) {
                    ok = pairs_agree(isa->name, d, op, combine) && ok;
                }
            }
        }
    }
    return ok;
}

static coll_dtype oracle_dtype;
static coll_op oracle_op;

/* The oracle as a combine_fn, for them. */
static void oracle(void *const *dst, int ndst, const void *const *src, int nsrc,
                   size_t n, int divisor, bool stream)
{
    (void)stream;
    for (size_t i = 0; i < n; i++) {
        uint64_t x[MOST_SRC];
        for (int s = 0; s < nsrc; s++)
            x[s] = oracle_load(oracle_dtype, src[s], i);
        const uint64_t result =
            oracle_fold(oracle_dtype, oracle_op, x, nsrc, divisor);
        for (int j = 0; j < ndst; j++)
            oracle_store(oracle_dtype, dst[j], i, result);
    }
}

/* Any bits, or a float near one: with those, sums need rounding. */
static uint64_t random_code(coll_dtype d)
{
    const uint64_t x = next_random();
    const int bits = (int)coll_dtype_bytes(d) * 8;
    const int mantissa = d == COLL_F16      ? 10
                         : d == COLL_BF16   ? 7
                         : d == COLL_F32    ? 23
                         : d == COLL_F64    ? 52
                         : d == COLL_F8E4M3 ? 3
                                            : 2;
    if (!oracle_is_float(d) || x % 4 == 0)
        return x;
    const int bias = (1 << (bits - 2 - mantissa)) - 1;
    return (x >> 8 & ((1ull << (mantissa + 3)) - 1))
           + ((uint64_t)(bias - 4) << mantissa) + ((x >> 4 & 1) << (bits - 1));
}

/* One call: operands in an array each, with bytes in front and behind that must
 * stay. */
struct trial {
    int nsrc, ndst, divisor;
    size_t n;
    bool stream;
    size_t src_at[MOST_SRC], dst_at[MOST_DST]; /* elements behind the guard */
    int dst_array[MOST_DST]; /* below MOST_SRC: in place of that source */
};
typedef char arena[MOST_SRC + MOST_DST][LONGEST * 8 + 2 * GUARD + 2 * LINE];

static struct trial draw_trial(coll_dtype d, size_t n)
{
    const size_t line = LINE / coll_dtype_bytes(d);
    struct trial t = {.nsrc = 1 + (int)(next_random() % MOST_SRC),
                      .ndst = 1 + (int)(next_random() % MOST_DST),
                      .divisor = 1 + (int)(next_random() % 400),
                      .n = n,
                      .stream = next_random() % 2};
    const uint64_t style = next_random();
    if (style & 1) /* the case that has its own loop */
        t.nsrc = 2;
    for (int s = 0; s < t.nsrc; s++)
        t.src_at[s] = style & 2 ? 0 : next_random() % line;
    for (int j = 0; j < t.ndst; j++) {
        t.dst_array[j] = MOST_SRC + j;
        t.dst_at[j] = j && style & 4 ? t.dst_at[0] : next_random() % line;
        if (next_random() % 4 == 0) {
            t.dst_array[j] = (int)(next_random() % (unsigned)t.nsrc);
            t.dst_at[j] = t.src_at[t.dst_array[j]];
        }
    }
    return t;
}

static void run_trial(coll_dtype d, const struct trial *t, arena a,
                      combine_fn *combine)
{
    const size_t bytes = coll_dtype_bytes(d);
    void *dst[MOST_DST] = {NULL};
    const void *src[MOST_SRC] = {NULL};
    for (int j = 0; j < t->ndst; j++)
        dst[j] = a[t->dst_array[j]] + GUARD + t->dst_at[j] * bytes;
    for (int s = 0; s < t->nsrc; s++)
        src[s] = a[s] + GUARD + t->src_at[s] * bytes;
    combine(dst, t->ndst, src, t->nsrc, t->n, t->divisor, t->stream);
}

/* As many elements as an arena's row has, by chance: from a pool, as what is
 * drawn for each row takes longer than what is tried. */
static void fill(coll_dtype d, char *row, size_t bytes)
{
    enum { POOL = 4 * sizeof((*(arena *)NULL)[0]) };
    static char pools[COLL_F8E5M2 + 1][POOL];
    static bool drawn[COLL_F8E5M2 + 1];
    const size_t width = coll_dtype_bytes(d);
    if (!drawn[d])
        for (size_t i = 0; i < POOL / width; i++)
            oracle_store(d, pools[d], i, random_code(d));
    drawn[d] = true;
    memcpy(row, pools[d] + next_random() % ((POOL - bytes) / width) * width,
           bytes);
}

/* Any NaN is as good as another, so equal elements are made the same. */
static bool results_agree(coll_dtype d, const struct trial *t, arena got,
                          arena expected, size_t used)
{
    for (int j = 0; j < t->ndst; j++) {
        const size_t at = GUARD + t->dst_at[j] * coll_dtype_bytes(d);
        char *const x = got[t->dst_array[j]] + at;
        const char *const y = expected[t->dst_array[j]] + at;
        if (!memcmp(x, y, t->n * coll_dtype_bytes(d)))
            continue;
        for (size_t i = 0; i < t->n; i++) {
            if (!oracle_same(d, oracle_load(d, x, i), oracle_load(d, y, i)))
                return false;
            oracle_store(d, x, i, oracle_load(d, y, i));
        }
    }
    for (int k = 0; k < MOST_SRC + MOST_DST; k++)
        if (memcmp(got[k], expected[k], used))
            return false;
    return true;
}

static bool trial_agrees(coll_dtype d, size_t n, combine_fn *kernel,
                         combine_fn *reference)
{
    static _Alignas(LINE) arena got, expected;
    const size_t bytes = coll_dtype_bytes(d);
    const size_t used = n * bytes + 2 * GUARD + 2 * LINE;
    const struct trial t = draw_trial(d, n);
    for (int k = 0; k < MOST_SRC + MOST_DST; k++) {
        if (k < t.nsrc)
            fill(d, got[k], used);
        else
            memset(got[k], 0x5a, used);
        memcpy(expected[k], got[k], used);
    }
    run_trial(d, &t, got, kernel);
    run_trial(d, &t, expected, reference);
    if (results_agree(d, &t, got, expected, used))
        return true;
    fprintf(stderr,
            "%zu elements, %d sources, %d destinations, first at %zu "
            "in array %d, divisor %d, stream %d\n",
            n, t.nsrc, t.ndst, t.dst_at[0], t.dst_array[0], t.divisor,
            t.stream);
    return false;
}

/* Lengths from 0 to 300, in the fast suite a third of as many bytes but 22
 * elements at least, and some long ones; the rest by chance. */
static bool kernel_agrees(const char *isa, coll_dtype d, coll_op op,
                          combine_fn *kernel, combine_fn *reference)
{
    enum { SOME = 12 };
    const unsigned part = 301 / (unsigned)coll_dtype_bytes(d);
    const size_t all = cases(301, part > 68 ? part / 3 : 23);
    for (size_t n = 0; n < all + SOME; n++) {
        const size_t count =
            n < all ? n : all + next_random() % (LONGEST - all);
        if (!trial_agrees(d, count, kernel, reference)) {
            fprintf(stderr, "%s %s %s differs\n", isa, coll_dtype_name(d),
                    coll_op_name(op));
            return false;
        }
    }
    return true;
}

bool kernels_equal_scalar(void)
{
    const struct op_isa *const scalar = &op_isas[nop_isas - 1];
    bool ok = true;
    for (const struct op_isa *isa = op_isas; isa < scalar; isa++) {
        if (!isa->supported()) {
            fprintf(stderr, "%s: not on this CPU\n", isa->name);
            continue;
        }
        for (int d = COLL_I8; d <= COLL_F8E5M2; d++)
            for (int op = COLL_SUM; op <= COLL_LOR; op++)
                if (isa->kernels[d][op])
                    ok = kernel_agrees(isa->name, d, op, isa->kernels[d][op],
                                       scalar->kernels[d][op])
                         && ok;
    }
    return ok;
}

bool scalar_equals_oracle(void)
{
    const struct op_isa *const scalar = &op_isas[nop_isas - 1];
    bool ok = true;
    for (int d = COLL_I8; d <= COLL_F8E5M2; d++)
        for (int op = COLL_SUM; op <= COLL_LOR; op++) {
            oracle_dtype = d;
            oracle_op = op;
            for (size_t n = 0; ok && scalar->kernels[d][op] && n < 70; n++)
                ok = trial_agrees(d, n, scalar->kernels[d][op], oracle);
            if (!ok) {
                fprintf(stderr, "%s %s: scalar is wrong\n", coll_dtype_name(d),
                        coll_op_name(op));
                return false;
            }
        }
    return ok;
}

static void copy(void *const *dst, int ndst, const void *const *src, int nsrc,
                 size_t n, int divisor, bool stream)
{
    (void)nsrc;
    (void)divisor;
    op_copy(dst, ndst, src[0], n, stream);
}

static void copy_bytes(void *const *dst, int ndst, const void *const *src,
                       int nsrc, size_t n, int divisor, bool stream)
{
    (void)nsrc;
    (void)divisor;
    (void)stream;
    for (int j = 0; j < ndst; j++)
        memmove(dst[j], src[0], n);
}

bool copies_reach_every_destination(void)
{
    for (int repeat = 0; repeat < 3; repeat++)
        if (!kernel_agrees("copy", COLL_U8, COLL_BOR, copy, copy_bytes))
            return false;
    return true;
}

bool finish_equals_oracle(void)
{
    static const int sizes[] = {1, 2, 3, 7, 300};
    bool ok = true;
    for (int d = COLL_I8; d <= COLL_F8E5M2; d++) {
        for (int s = 0; s < 5; s++) {
            uint64_t codes[256];
            char x[256 * 8], summed[256 * 8];
            const size_t n = operands(d, codes);
            for (size_t i = 0; i < n; i++)
                oracle_store(d, x, i, codes[i]);
            memcpy(summed, x, sizeof x);
            op_finish(d, COLL_SUM, summed, n, sizes[s]);
            ok = ok && memcmp(summed, x, n * coll_dtype_bytes(d)) == 0;
            op_finish(d, COLL_AVG, x, n, sizes[s]);
            for (size_t i = 0; i < n; i++)
                if (!oracle_same(d, oracle_load(d, x, i),
                                 oracle_divided(d, oracle_load(d, summed, i),
                                                sizes[s]))) {
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
    const vec wide = (vec)(vec_f32){x}, parts[4] = {wide, wide, wide, wide};
    return d == COLL_F16 ? narrow_f16(wide)[0]
           : d == COLL_BF16
               ? (uint16_t)((vec_u16)narrow_bf16(parts))[1]
               : (uint8_t)narrow_f8(d == COLL_F8E4M3 ? &format_f8e4m3
                                                     : &format_f8e5m2,
                                    parts)[3];
}

/* A copy widens and narrows. */
static bool codes_survive(const char *isa, coll_dtype d, combine_fn *combine)
{
    static uint64_t in[65536 / 4], out[65536 / 4];
    const size_t ncodes = (size_t)1 << coll_dtype_bytes(d) * 8;
    void *const dst = out;
    const void *const src = in;
    for (size_t code = 0; code < ncodes; code++)
        oracle_store(d, in, code, code);
    combine(&dst, 1, &src, 1, ncodes, 1, false);
    for (size_t code = 0; code < ncodes; code++) {
        const uint64_t back = oracle_load(d, out, code);
        if (!oracle_same(d, back, code)
            || (back ^ code) >> (coll_dtype_bytes(d) * 8 - 1)) {
            fprintf(stderr, "%s %s: %#zx comes back as %#llx\n", isa,
                    coll_dtype_name(d), code, (unsigned long long)back);
            return false;
        }
    }
    return true;
}

bool codes_survive_a_round_trip(void)
{
    bool ok = true;
    for (int k = 0; k < nop_isas; k++)
        for (int d = COLL_F16; d <= COLL_F8E5M2; d++)
            if (oracle_is_narrow(d) && op_isas[k].supported())
                ok = codes_survive(op_isas[k].name, d,
                                   op_isas[k].kernels[d][COLL_SUM])
                     && ok;
    return ok;
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
        if (!oracle_is_narrow(d))
            continue;
        const uint64_t largest = oracle_largest(d);
        const double last = oracle_decode(d, largest);
        for (uint64_t code = 0; code <= largest; code++) {
            const double lo = oracle_decode(d, code);
            const double hi =
                code < largest ? oracle_decode(d, code + 1)
                               : last + (last - oracle_decode(d, largest - 1));
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
