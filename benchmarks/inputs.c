/* SPDX-License-Identifier: MIT */
/* Exactness: sums and products of small whole numbers, and so few nonzero ones
 * at each position that no partial sum needs more digits than the dtype has,
 * in any order and on any number of ranks. */
#include "inputs.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"

static bool is_float(coll_dtype d)
{
    return d == COLL_F16 || d == COLL_BF16 || d == COLL_F32 || d == COLL_F64
           || d == COLL_F8E4M3 || d == COLL_F8E5M2;
}

static bool is_signed(coll_dtype d)
{
    return is_float(d) || d == COLL_I8 || d == COLL_I16 || d == COLL_I32
           || d == COLL_I64;
}

/* Up to here every whole number is exact. */
static int64_t exact_up_to(coll_dtype d)
{
    switch (d) {
    case COLL_F8E5M2:
        return 8;
    case COLL_F8E4M3:
        return 16;
    case COLL_I8:
    case COLL_U8:
        return 127;
    case COLL_BF16:
        return 256;
    case COLL_F16:
        return 2048;
    default:
        return 30000;
    }
}

static uint64_t chance(int rank, int i)
{
    uint64_t x = ((uint64_t)rank << 32 | (uint64_t)i) + 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9; /* SplitMix64, Steele 2014 */
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static int64_t value_of(coll_dtype d, coll_op op, int rank, int nranks, int i)
{
    const uint64_t x = chance(rank, i);
    const int64_t exact = exact_up_to(d), largest = exact > 16 ? 15 : 1;
    const int turn = (rank + i) % nranks;
    switch (op) {
    case COLL_SUM:
    case COLL_AVG:
        return turn < exact / largest ? (int64_t)(x % (uint64_t)(largest + 1))
                                      : 0;
    case COLL_PROD: /* at most 2^6: within the range of every dtype */
        return turn < 6 ? 1 + (int64_t)(x & 1) : 1;
    case COLL_MIN:
    case COLL_MAX:
        return (int64_t)(x % 8) - (is_signed(d) ? 4 : 0);
    case COLL_LAND: /* mostly true, else hardly any result is */
        return x % 8 != 0;
    case COLL_LOR:
        return x % 8 == 0;
    default:
        return (int64_t)x;
    }
}

static int64_t combine(coll_op op, int64_t x, int64_t y)
{
    switch (op) {
    case COLL_PROD:
        return x * y;
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
        return x && y;
    case COLL_LOR:
        return x || y;
    default:
        return x + y;
    }
}

/* x as a float of so many bits, rounded to nearest even; no overflow. */
static uint64_t encode(double x, int exponent_bits, int mantissa_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const uint64_t sign = signbit(x) ? 1 : 0;
    int exponent = x == 0 ? 1 - bias : ilogb(x);
    if (exponent < 1 - bias)
        exponent = 1 - bias;
    const double steps = nearbyint(ldexp(fabs(x), mantissa_bits - exponent));
    return (sign << (exponent_bits + mantissa_bits))
           + ((uint64_t)(exponent + bias - 1) << mantissa_bits)
           + (uint64_t)steps;
}

static uint64_t encode_float(coll_dtype d, double x)
{
    switch (d) {
    case COLL_F16:
        return encode(x, 5, 10);
    case COLL_BF16:
        return encode(x, 8, 7);
    case COLL_F8E4M3:
        return encode(x, 4, 3);
    case COLL_F8E5M2:
        return encode(x, 5, 2);
    case COLL_F32:
        return encode(x, 8, 23);
    default:
        return encode(x, 11, 52);
    }
}

static void store(unsigned char *to, size_t bytes, uint64_t code)
{
    const uint8_t x8 = (uint8_t)code;
    const uint16_t x16 = (uint16_t)code;
    const uint32_t x32 = (uint32_t)code;
    memcpy(to,
           bytes == 1   ? (const void *)&x8
           : bytes == 2 ? (const void *)&x16
           : bytes == 4 ? (const void *)&x32
                        : (const void *)&code,
           bytes);
}

/* The narrow floats divide in f32 and then round, as libcoll says. */
static double average(coll_dtype d, int64_t sum, int nranks)
{
    return d == COLL_F64 ? (double)sum / nranks
                         : (double)((float)sum / (float)nranks);
}

/* Each element of the reduction of all ranks' blocks, and of this rank's. */
static void fill_reduction(struct inputs *in)
{
    const struct shape *const s = &in->shape;
    const size_t bytes = in->elem_bytes;
    const bool floating = is_float(s->dtype);
    for (int i = 0; i < INPUTS_PERIOD; i++) {
        const int64_t mine = value_of(s->dtype, s->op, s->rank, s->nranks, i);
        int64_t all = value_of(s->dtype, s->op, 0, s->nranks, i);
        for (int r = 1; r < s->nranks; r++)
            all =
                combine(s->op, all, value_of(s->dtype, s->op, r, s->nranks, i));
        const double exact =
            s->op == COLL_AVG ? average(s->dtype, all, s->nranks) : (double)all;
        if (s->op == COLL_AVG)
            all /= s->nranks;
        store(in->mine + (size_t)i * bytes, bytes,
              floating ? encode_float(s->dtype, (double)mine) : (uint64_t)mine);
        store(in->expected + (size_t)i * bytes, bytes,
              floating ? encode_float(s->dtype, exact) : (uint64_t)all);
    }
}

/* What is only moved may be any bits, NaNs too. */
static void fill_random(unsigned char *block, size_t bytes, int rank)
{
    for (int i = 0; i < INPUTS_PERIOD; i++)
        store(block + (size_t)i * bytes, bytes, chance(rank, i));
}

/* Whether what a rank gets is a part of each rank's input. */
static bool from_all(enum collective kind)
{
    const enum collective c = collective_even(kind);
    return c == ALLGATHER || c == GATHER || c == ALLTOALL;
}

/* Of what is moved from one rank alone. */
static int source(const struct shape *s)
{
    const enum collective c = s->collective;
    return c == SENDRECV || c == PINGPONG ? shape_source(s) : s->root;
}

static void fill_moved(struct inputs *in)
{
    const struct shape *const s = &in->shape;
    const size_t block = INPUTS_PERIOD * in->elem_bytes;
    fill_random(in->mine, in->elem_bytes, s->rank);
    if (from_all(s->collective))
        for (int r = 0; r < s->nranks; r++)
            fill_random(in->expected + (size_t)r * block, in->elem_bytes, r);
    else
        fill_random(in->expected, in->elem_bytes, source(s));
}

void inputs_create(struct inputs *in, const struct shape *shape)
{
    const size_t bytes = coll_dtype_bytes(shape->dtype);
    const size_t block = INPUTS_PERIOD * bytes;
    const bool parts = from_all(shape->collective);
    const size_t nblocks = parts ? (size_t)shape->nranks : 1;
    *in = (struct inputs){.shape = *shape, .elem_bytes = bytes};
    in->mine = job_alloc(block);
    in->expected = job_alloc(nblocks * block);
    if (collective_reduces(shape->collective))
        fill_reduction(in);
    else
        fill_moved(in);
    if (!shape_gets_nothing(shape))
        return;
    memset(in->expected, INPUTS_UNTOUCHED, nblocks * block);
    if (shape->in_place)
        memcpy(in->expected + (parts ? (size_t)shape->rank * block : 0),
               in->mine, block);
}

void inputs_free(struct inputs *in)
{
    free(in->mine);
    free(in->expected);
    *in = (struct inputs){0};
}

/* The piece of the block that belongs at element i; its length, at most left.
 */
static size_t piece(size_t i, size_t left, long iteration, size_t *from)
{
    *from = (i + (size_t)iteration) % INPUTS_PERIOD;
    const size_t rest = INPUTS_PERIOD - *from;
    return rest < left ? rest : left;
}

void inputs_write(const struct inputs *in, void *send, size_t count,
                  long iteration)
{
    const size_t bytes = in->elem_bytes;
    const size_t all = shape_sends(&in->shape, count);
    size_t from;
    for (size_t i = 0, n; i < all; i += n) {
        n = piece(i, all - i, iteration, &from);
        memcpy((char *)send + i * bytes, in->mine + from * bytes, n * bytes);
    }
}

void inputs_read(const void *recv, size_t bytes)
{
    const volatile unsigned char *const x = recv;
    unsigned char seen = 0;
    for (size_t i = 0; i < bytes; i += 64)
        seen ^= x[i];
    (void)seen;
}

/* Of count elements at got, which repeat a block from its element first. */
static size_t wrong_in(const unsigned char *block, size_t bytes,
                       const char *got, size_t first, size_t count,
                       long iteration)
{
    size_t wrong = 0, from;
    for (size_t i = 0, n; i < count; i += n) {
        n = piece(first + i, count - i, iteration, &from);
        const char *const is = got + i * bytes;
        const unsigned char *const must = block + from * bytes;
        if (memcmp(is, must, n * bytes) == 0)
            continue;
        for (size_t k = 0; k < n; k++)
            wrong += memcmp(is + k * bytes, must + k * bytes, bytes) != 0;
    }
    return wrong;
}

/* Of the part of each rank's input. */
static size_t wrong_parts(const struct inputs *in, const char *recv,
                          size_t count, long iteration)
{
    const struct shape *const s = &in->shape;
    const size_t bytes = in->elem_bytes, all = (size_t)s->nranks * count;
    const bool cut = collective_even(s->collective) == ALLTOALL;
    size_t wrong = 0;
    for (int r = 0; r < s->nranks; r++)
        wrong +=
            wrong_in(in->expected + (size_t)r * INPUTS_PERIOD * bytes, bytes,
                     recv + shape_part_begin(s, all, s->rank, r) * bytes,
                     cut ? shape_part_begin(s, all, r, s->rank) : 0,
                     shape_part(s, all, s->rank, r), iteration);
    return wrong;
}

size_t inputs_changed(const struct inputs *in, const void *send, size_t count,
                      long iteration)
{
    return wrong_in(in->mine, in->elem_bytes, send, 0,
                    shape_sends(&in->shape, count), iteration);
}

size_t inputs_wrong(const struct inputs *in, const void *recv, size_t count,
                    long iteration)
{
    const struct shape *const s = &in->shape;
    if (from_all(s->collective))
        return wrong_parts(in, recv, count, iteration);
    const size_t touched =
        shape_gets_nothing(s) ? count : shape_receives(s, count);
    return wrong_in(in->expected, in->elem_bytes, recv,
                    shape_recv_offset(s, count), touched, iteration);
}
