/* SPDX-License-Identifier: MIT */
/* Every kernel for one instruction set: compiled once for each row of
 * op/isas.def, with OP_ISA its name, VECTOR_BYTES the size of its registers
 * and the flags that let the compiler use them.
 *
 * A kernel keeps some vectors of the result in registers, goes through the
 * sources by fours, then through the destinations. That loop is written once;
 * what tells the kernels apart is constant where it is inlined.
 */
#include "op/arith.h"
#include "op/convert.h"
#include "op/isas.h"

/* With sanitizers' checks in it the code that each kernel has to itself would
 * take minutes to compile, so there all share it. */
#ifdef KERNELS_SHARE
#define INLINED static
#else
#define INLINED static inline __attribute__((always_inline))
#endif

/* LEVELS: as many as there are bits in the number of fours of sources. */
enum { LINE = 64, MOST_PARTS = 4, LEVELS = 30 };

/* How elements lie in memory, and come into vectors and back: bytes of them, as
 * many as a vector there has or fewer. It becomes so many parts, vectors of f32
 * or of what it has. */
struct layout {
    size_t elem_bytes, vector_bytes; /* in memory */
    int nvectors;                    /* at a time */
    int nparts;
    vec (*load)(const char *, size_t bytes, int part);
    void (*store)(char *, const vec *parts, size_t bytes, bool stream);
};

/* widen: a part of x; narrow: all parts. */
#define LAYOUT(name, memory, elem_bytes, nvectors, nparts, widen, narrow)      \
    INLINED vec load_##name(const char *p, size_t bytes, int part)             \
    {                                                                          \
        memory x;                                                              \
        (void)part;                                                            \
        if (bytes == sizeof x)                                                 \
            memcpy(&x, p, sizeof x);                                           \
        else                                                                   \
            load_part(&x, sizeof x, p, bytes);                                 \
        return widen;                                                          \
    }                                                                          \
    INLINED void store_##name(char *p, const vec *parts, size_t bytes,         \
                              bool stream)                                     \
    {                                                                          \
        const memory x = narrow;                                               \
        if (bytes != sizeof x)                                                 \
            store_part(p, &x, sizeof x, bytes);                                \
        else if (stream)                                                       \
            stream_bytes(p, &x, sizeof x);                                     \
        else                                                                   \
            memcpy(p, &x, sizeof x);                                           \
    }                                                                          \
    static const struct layout name = {elem_bytes,  sizeof(memory),            \
                                       nvectors,    nparts,                    \
                                       load_##name, store_##name};

/* Converting takes registers and instructions: fewer vectors at a time. */
LAYOUT(whole8, vec, 1, 4, 1, x, parts[0])
LAYOUT(whole16, vec, 2, 4, 1, x, parts[0])
LAYOUT(whole32, vec, 4, 4, 1, x, parts[0])
LAYOUT(whole64, vec, 8, 4, 1, x, parts[0])
LAYOUT(f16, half_u16, 2, 2, 1, widen_f16(x), narrow_f16(parts[0]))
LAYOUT(bf16, vec, 2, 2, 2, widen_bf16(x, part), narrow_bf16(parts))
LAYOUT(f8e4m3, vec, 1, 1, 4, widen_f8(&format_f8e4m3, x, part),
       narrow_f8(&format_f8e4m3, parts))
LAYOUT(f8e5m2, vec, 1, 1, 4, widen_f8(&format_f8e5m2, x, part),
       narrow_f8(&format_f8e5m2, parts))

struct operands {
    void *const *dst;
    const void *const *src;
    int ndst, nsrc, divisor;
    bool stream;
};

/* What lies at so many bytes from the start of each operand. */
struct block {
    const struct operands *o;
    size_t at, bytes;
};

INLINED void load(const struct layout *m, const struct block *b, int source,
                  int k, vec *x)
{
    const char *p = (const char *)b->o->src[source] + b->at;
    for (int v = 0; v < k; v++)
        x[v] = m->load(p + (size_t)(v / m->nparts) * b->bytes, b->bytes,
                       v % m->nparts);
}

INLINED void operate(vec (*op)(vec, vec), const vec *x, const vec *y, int k,
                     vec *result)
{
    for (int v = 0; v < k; v++)
        result[v] = op(x[v], y[v]);
}

/* Four sources from `first` on, or as many as there are. */
INLINED void combine_four(const struct layout *m, vec (*op)(vec, vec),
                          const struct block *b, int first, int k, vec *acc)
{
    const int n = b->o->nsrc - first;
    vec x[MOST_PARTS], y[MOST_PARTS];
    load(m, b, first, k, acc);
    if (n == 1)
        return;
    load(m, b, first + 1, k, x);
    operate(op, acc, x, k, acc);
    if (n == 2)
        return;
    load(m, b, first + 2, k, x);
    if (n > 3) {
        load(m, b, first + 3, k, y);
        operate(op, x, y, k, x);
    }
    operate(op, acc, x, k, acc);
}

/* All of them, as one counts in binary: what comes of as many sources is put
 * together, and at last what is left over. */
INLINED void combine_all(const struct layout *m, vec (*op)(vec, vec),
                         const struct block *b, int k, vec *acc)
{
    vec before[LEVELS][MOST_PARTS];
    int depth = 0;
    for (int fours = 0;; fours++) {
        const bool last = b->o->nsrc - 4 * fours <= 4;
        combine_four(m, op, b, 4 * fours, k, acc);
        for (int bits = fours; depth && (last || bits % 2); bits /= 2) {
            depth--;
            operate(op, before[depth], acc, k, acc);
        }
        if (last)
            return;
        for (int v = 0; v < k; v++)
            before[depth][v] = acc[v];
        depth++;
    }
}

/* Combines what lies at so many bytes from the start of each operand. */
INLINED void step(const struct layout *m, vec (*op)(vec, vec),
                  vec (*divide)(vec, int), const struct operands *o, size_t at,
                  int nvectors, size_t bytes, bool stream)
{
    vec acc[MOST_PARTS];
    const int k = m->nparts;
    combine_all(m, op, &(struct block){o, at, bytes}, nvectors * k, acc);
    for (int v = 0; divide && v < nvectors * k; v++)
        acc[v] = divide(acc[v], o->divisor);
    for (int j = 0; j < o->ndst; j++) {
        char *const to = (char *)o->dst[j] + at;
        if (stream && (uintptr_t)to % m->vector_bytes == 0)
            for (int v = 0; v < nvectors; v++)
                m->store(to + (size_t)v * bytes, acc + v * k, bytes, true);
        else
            for (int v = 0; v < nvectors; v++)
                m->store(to + (size_t)v * bytes, acc + v * k, bytes, false);
    }
}

/* Whether any part of a vector is taken at once: where there are masks, or
 * where converting costs more than a way through memory. */
INLINED bool takes_any(const struct layout *m)
{
    return MASKED || m->nparts > 2;
}

/* How many bytes to take of a rest that is not a block of vectors. */
INLINED size_t part_of(const struct layout *m, size_t rest)
{
    if (takes_any(m) || rest >= m->vector_bytes)
        return rest < m->vector_bytes ? rest : m->vector_bytes;
    return rest >= WORD ? WORD : m->elem_bytes;
}

/* Blocks of vectors, and smaller parts in front of them, up to where a line of
 * dst[0] starts if the stores stream, and behind them. A block of one vector is
 * a part like others. */
INLINED void loop(const struct layout *m, vec (*op)(vec, vec),
                  vec (*divide)(vec, int), const struct operands *o, size_t end)
{
    const size_t whole = m->vector_bytes, elem = m->elem_bytes;
    const size_t block = whole * (size_t)m->nvectors;
    const bool blocks = m->nvectors > 1;
    const size_t to_line = -(uintptr_t)o->dst[0] % LINE;
    size_t edge = !o->stream ? 0 : to_line < end ? to_line : end;
    size_t at = 0;
    for (;;) {
        for (size_t bytes; at < edge; at += bytes) {
            bytes = part_of(m, edge - at);
            if (takes_any(m))
                step(m, op, divide, o, at, 1, bytes, !blocks && o->stream);
            else if (bytes == whole)
                step(m, op, divide, o, at, 1, whole, false);
            else if (WORD < whole && WORD > elem && bytes == WORD)
                step(m, op, divide, o, at, 1, WORD, false);
            else
                step(m, op, divide, o, at, 1, elem, false);
        }
        if (at == end)
            break;
        for (; blocks && end - at >= block; at += block)
            step(m, op, divide, o, at, m->nvectors, whole, o->stream);
        edge = end;
    }
    if (o->stream)
        stream_end();
}

/* busy: two sources and one or two destinations deserve a loop of their own,
 * which keeps the pointers in registers. */
INLINED void combine(const struct layout *m, vec (*op)(vec, vec),
                     vec (*divide)(vec, int), bool busy,
                     const struct operands *o, size_t n)
{
    const size_t bytes = n * m->elem_bytes;
    if (busy && o->nsrc == 2 && o->ndst <= 2) {
        void *const dst[] = {o->dst[0], o->dst[o->ndst - 1]};
        const void *const src[] = {o->src[0], o->src[1]};
        struct operands few = {dst, src, 1, 2, o->divisor, o->stream};
        if (o->ndst == 1) {
            loop(m, op, divide, &few, bytes);
        } else {
            few.ndst = 2;
            loop(m, op, divide, &few, bytes);
        }
    } else {
        loop(m, op, divide, o, bytes);
    }
}

#define KERNEL_ARGUMENTS                                                       \
    void *const *dst, int ndst, const void *const *src, int nsrc, size_t n,    \
        int divisor, bool stream

#define KERNEL(name, layout, op, busy)                                         \
    static void name(KERNEL_ARGUMENTS)                                         \
    {                                                                          \
        const struct operands o = {dst, src, ndst, nsrc, divisor, stream};     \
        combine(&layout, op, NULL, busy, &o, n);                               \
    }

/* Who divides later asks for the sum. */
#define AVERAGE_KERNEL(name, layout, op, sum, divide)                          \
    static void name(KERNEL_ARGUMENTS)                                         \
    {                                                                          \
        const struct operands o = {dst, src, ndst, nsrc, divisor, stream};     \
        if (divisor == 1)                                                      \
            sum(dst, ndst, src, nsrc, n, divisor, stream);                     \
        else                                                                   \
            combine(&layout, op, divide, false, &o, n);                        \
    }

#define BIT_KERNELS(bits)                                                      \
    KERNEL(sum_bits##bits, whole##bits, sum_##bits, false)                     \
    KERNEL(prod_bits##bits, whole##bits, prod_##bits, false)                   \
    KERNEL(land_bits##bits, whole##bits, land_##bits, false)                   \
    KERNEL(lor_bits##bits, whole##bits, lor_##bits, false)

#define ORDER_KERNELS(name, bits)                                              \
    KERNEL(name##_min, whole##bits, min_##name, false)                         \
    KERNEL(name##_max, whole##bits, max_##name, false)                         \
    AVERAGE_KERNEL(name##_avg, whole##bits, sum_##bits, sum_bits##bits,        \
                   divide_##name)

/* wide: what it is computed in. */
#define FLOAT_KERNELS(name, layout, wide, busy)                                \
    KERNEL(name##_sum, layout, sum_##wide, busy)                               \
    KERNEL(name##_prod, layout, prod_##wide, false)                            \
    KERNEL(name##_min, layout, min_##wide, false)                              \
    KERNEL(name##_max, layout, max_##wide, false)                              \
    AVERAGE_KERNEL(name##_avg, layout, sum_##wide, name##_sum, divide_##wide)

/* The same in numbers of any size. */
#define WIDER_KERNEL(name, bits)                                               \
    static void name##_bits##bits(KERNEL_ARGUMENTS)                            \
    {                                                                          \
        name##_bits8(dst, ndst, src, nsrc, n *(bits / 8), divisor, stream);    \
    }
#define WIDER_KERNELS(name)                                                    \
    KERNEL(name##_bits8, whole8, name, false)                                  \
    WIDER_KERNEL(name, 16)                                                     \
    WIDER_KERNEL(name, 32)                                                     \
    WIDER_KERNEL(name, 64)

WIDER_KERNELS(band)
WIDER_KERNELS(bor)
WIDER_KERNELS(bxor)
BIT_KERNELS(8)
BIT_KERNELS(16)
BIT_KERNELS(32)
BIT_KERNELS(64)
ORDER_KERNELS(i8, 8)
ORDER_KERNELS(u8, 8)
ORDER_KERNELS(i16, 16)
ORDER_KERNELS(u16, 16)
ORDER_KERNELS(i32, 32)
ORDER_KERNELS(u32, 32)
ORDER_KERNELS(i64, 64)
ORDER_KERNELS(u64, 64)
FLOAT_KERNELS(f16, f16, f32, true)
FLOAT_KERNELS(bf16, bf16, f32, true)
FLOAT_KERNELS(f8e4m3, f8e4m3, f32, false)
FLOAT_KERNELS(f8e5m2, f8e5m2, f32, false)
FLOAT_KERNELS(f32, whole32, f32, true)
FLOAT_KERNELS(f64, whole64, f64, true)

/* In the order of enum coll_op. */
#define INTEGER(name, bits)                                                    \
    {                                                                          \
        sum_bits##bits, prod_bits##bits, name##_min, name##_max, name##_avg,   \
            band_bits##bits, bor_bits##bits, bxor_bits##bits, land_bits##bits, \
            lor_bits##bits                                                     \
    }
#define FLOATING(name)                                                         \
    {                                                                          \
        name##_sum, name##_prod, name##_min, name##_max, name##_avg            \
    }

#define TABLE_OF(isa) combine_##isa
#define TABLE(isa)    TABLE_OF(isa)

combine_fn *const TABLE(OP_ISA)[OP_NDTYPES][OP_NOPS] = {
    [COLL_I8] = INTEGER(i8, 8),       [COLL_U8] = INTEGER(u8, 8),
    [COLL_I16] = INTEGER(i16, 16),    [COLL_U16] = INTEGER(u16, 16),
    [COLL_I32] = INTEGER(i32, 32),    [COLL_U32] = INTEGER(u32, 32),
    [COLL_I64] = INTEGER(i64, 64),    [COLL_U64] = INTEGER(u64, 64),
    [COLL_F16] = FLOATING(f16),       [COLL_BF16] = FLOATING(bf16),
    [COLL_F32] = FLOATING(f32),       [COLL_F64] = FLOATING(f64),
    [COLL_F8E4M3] = FLOATING(f8e4m3), [COLL_F8E5M2] = FLOATING(f8e5m2),
};
