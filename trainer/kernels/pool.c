/* SPDX-License-Identifier: MIT */
/* As conv_tile.c: CONV_LANES floats in a register. */
#include "kernels/pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/reg.h"

typedef unsigned char bytes
    __attribute__((vector_size(CONV_LANES), aligned(1), may_alias));
typedef int ints
    __attribute__((vector_size(4 * CONV_LANES), aligned(4), may_alias));

/* To bytes, and from them: one instruction or three, for which GCC 12 takes
 * dozens. */
INLINE void narrow(unsigned char *to, mask note)
{
#if defined(__AVX2__) && CONV_LANES == 8
    const __m256i wide = (__m256i)note;
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(wide),
                                           _mm256_extracti128_si256(wide, 1));
    _mm_storel_epi64((void *)to, _mm_packus_epi16(words, words));
#else
    *(bytes *)to = __builtin_convertvector(note, bytes);
#endif
}

INLINE void put_note(unsigned char *to, mask note, size_t note_bytes)
{
    if (note_bytes == 1)
        narrow(to, note);
    else
        *(ints *)to = note;
}

INLINE mask widened(const unsigned char *from)
{
#if defined(__AVX512F__) && CONV_LANES == 16
    return (mask)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)from));
#elif defined(__AVX2__) && CONV_LANES == 8
    return (mask)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)from));
#else
    return __builtin_convertvector(*(const bytes *)from, mask);
#endif
}

INLINE mask get_note(const unsigned char *from, size_t note_bytes)
{
    return note_bytes == 1 ? widened(from) : (mask) * (const ints *)from;
}

/* Rows or columns first to end - 1 of a window lie inside. */
struct part {
    int first, end;
};

/* Of window i along a side. */
INLINE struct part inside(int i, int kernel, int stride, int pad, int length)
{
    const long long start = (long long)i * stride - pad,
                    left = (long long)length - start;
    return (struct part){start < 0 ? (int)-start : 0,
                         left < kernel ? (int)left : kernel};
}

/* x is where the window begins, which may lie before the plane. */
INLINE void largest(const float *x, size_t row, struct part rows,
                    struct part columns, int kernel_w, float *y,
                    unsigned char *notes, size_t note_bytes)
{
    for (int k = 0; k < PARTS; k++) {
        const float *from = x + k * LANES;
        reg best = load(from + (ptrdiff_t)rows.first * (ptrdiff_t)row
                        + columns.first * BLOCK);
        mask note = (mask){0} + (rows.first * kernel_w + columns.first);
#pragma GCC unroll 3
        for (int i = rows.first; i < rows.end; i++)
#pragma GCC unroll 3
            for (int j = columns.first; j < columns.end; j++) {
                const reg v =
                    load(from + (ptrdiff_t)i * (ptrdiff_t)row + j * BLOCK);
                const mask more = v > best;
                best = choose(more, v, best);
                note = (more & (i * kernel_w + j)) | (~more & note);
            }
        store(y + k * LANES, best);
        put_note(notes + (size_t)(k * LANES) * note_bytes, note, note_bytes);
    }
}

INLINE void forward_of(const struct pool *p, const float *x, float *y,
                       unsigned char *notes, int kernel_h, int kernel_w,
                       int stride_w, size_t note_bytes)
{
    const size_t row = (size_t)p->w * BLOCK;
    const struct part whole = {0, kernel_w};
    /* What the next row of windows begins to read. */
    const int ahead = stride_w <= 2 ? stride_w * stride_w : 0;
    for (int i = 0; i < p->out_h; i++) {
        const struct part rows = inside(i, kernel_h, p->stride_h, p->pad, p->h);
        const float *at =
            x + ((ptrdiff_t)i * p->stride_h - p->pad) * (ptrdiff_t)row
            - (ptrdiff_t)p->pad * BLOCK;
        const bool high = rows.first == 0 && rows.end == kernel_h;
        for (int j = 0; j < p->out_w; j++) {
            const struct part columns =
                inside(j, kernel_w, stride_w, p->pad, p->w);
            for (int q = 0; q < ahead; q++)
                __builtin_prefetch(
                    at + (ptrdiff_t)(kernel_h + q / stride_w) * (ptrdiff_t)row
                    + q % stride_w * BLOCK);
            if (high && columns.first == 0 && columns.end == kernel_w)
                largest(at, row, (struct part){0, kernel_h}, whole, kernel_w, y,
                        notes, note_bytes);
            else
                largest(at, row, rows, columns, kernel_w, y, notes, note_bytes);
            at += (ptrdiff_t)stride_w * BLOCK;
            y += BLOCK;
            notes += BLOCK * note_bytes;
        }
    }
}

/* The windows that element i of a side lies in; there may be none. */
INLINE struct part around(int i, int kernel, int stride, int pad, int count)
{
    const long long first = (long long)i + pad - kernel + 1;
    const int last = (int)(((long long)i + pad) / stride);
    return (struct part){first > 0 ? (int)((first + stride - 1) / stride) : 0,
                         last < count ? last + 1 : count};
}

/* Adds to sum what window (i, j), at this place of dy, gives to its element. */
INLINE reg given(const unsigned char *notes, const float *dy, ptrdiff_t at,
                 int element, size_t note_bytes, reg sum)
{
    const mask won =
        get_note(notes + at * (ptrdiff_t)note_bytes, note_bytes) == element;
    return sum + choose(won, load(dy + at), (reg){0});
}

/* Element (r, c), of any window. */
INLINE void gather(const struct pool *p, const unsigned char *notes,
                   const float *dy, float *dx, int r, int c, int kernel_h,
                   int kernel_w, int stride_h, int stride_w, size_t note_bytes)
{
    const struct part rows = around(r, kernel_h, stride_h, p->pad, p->out_h),
                      columns = around(c, kernel_w, stride_w, p->pad, p->out_w);
    for (int k = 0; k < PARTS; k++) {
        reg sum = {0};
        for (int i = rows.first; i < rows.end; i++)
            for (int j = columns.first; j < columns.end; j++)
                sum = given(notes, dy,
                            ((ptrdiff_t)i * p->out_w + j) * BLOCK + k * LANES,
                            (r + p->pad - i * stride_h) * kernel_w
                                + (c + p->pad - j * stride_w),
                            note_bytes, sum);
        store(dx + k * LANES, sum);
    }
}

/* Elements of row r from column c on, where the last window that has the first
 * is the j-th of row i, of square windows that all lie inside: `down` is the
 * row of that window. Takes `periods` times as many as the stride. */
INLINE void gather_row(const unsigned char *notes, const float *dy, size_t row,
                       float *dx, int periods, int kernel, int stride, int down)
{
    for (int n = 0; n < periods; n++, notes += BLOCK, dy += BLOCK)
#pragma GCC unroll 4
        for (int right = 0; right < stride; right++, dx += BLOCK)
            for (int k = 0; k < PARTS; k++) {
                reg sum = {0};
#pragma GCC unroll 4
                for (int i = (kernel - 1 - down) / stride; i >= 0; i--)
#pragma GCC unroll 4
                    for (int j = (kernel - 1 - right) / stride; j >= 0; j--)
                        sum = given(notes, dy,
                                    k * LANES - i * (ptrdiff_t)row - j * BLOCK,
                                    (down + i * stride) * kernel + right
                                        + j * stride,
                                    1, sum);
                store(dx + k * LANES, sum);
            }
}

INLINE void square_backward(const struct pool *p, const unsigned char *notes,
                            const float *dy, float *dx, int kernel, int stride)
{
    const size_t row = (size_t)p->out_w * BLOCK;
    const int before = (kernel - 1) / stride; /* windows that share elements */
    const int first = before * stride > p->pad
                          ? before * stride - p->pad
                          : (stride - p->pad % stride) % stride;
    const int j = (first + p->pad) / stride;
    const int periods =
        j < p->out_w ? least(p->out_w - j, (p->w - first) / stride) : 0;
    for (int r = 0; r < p->h; r++) {
        const int i = (r + p->pad) / stride, down = (r + p->pad) % stride;
        const size_t at = (size_t)i * row + (size_t)j * BLOCK;
        const bool inner = i >= before && i < p->out_h && periods > 0;
        const int end = inner ? first + periods * stride : 0;
        float *to = dx + (size_t)r * (size_t)p->w * BLOCK;
        for (int c = 0; inner && c < first; c++)
            gather(p, notes, dy, to + c * BLOCK, r, c, kernel, kernel, stride,
                   stride, 1);
#pragma GCC unroll 4
        for (int q = 0; inner && q < stride; q++)
            if (q == down)
                gather_row(notes + at, dy + at, row, to + first * BLOCK,
                           periods, kernel, stride, q);
        for (int c = end; c < p->w; c++)
            gather(p, notes, dy, to + c * BLOCK, r, c, kernel, kernel, stride,
                   stride, 1);
    }
}

static void backward_of(const struct pool *p, const unsigned char *notes,
                        const float *dy, float *dx)
{
    for (int r = 0; r < p->h; r++)
        for (int c = 0; c < p->w; c++, dx += BLOCK)
            gather(p, notes, dy, dx, r, c, p->kernel_h, p->kernel_w,
                   p->stride_h, p->stride_w,
                   pool_note_bytes(p->kernel_h, p->kernel_w));
}

static bool is(const struct pool *p, int kernel, int stride)
{
    return p->kernel_h == kernel && p->kernel_w == kernel
           && p->stride_h == stride && p->stride_w == stride;
}

static void forward(const struct pool *p, const float *x, float *y,
                    unsigned char *notes)
{
    if (is(p, 2, 2))
        forward_of(p, x, y, notes, 2, 2, 2, 1);
    else if (is(p, 3, 2))
        forward_of(p, x, y, notes, 3, 3, 2, 1);
    else if (is(p, 3, 1))
        forward_of(p, x, y, notes, 3, 3, 1, 1);
    else
        forward_of(p, x, y, notes, p->kernel_h, p->kernel_w, p->stride_w,
                   pool_note_bytes(p->kernel_h, p->kernel_w));
}

static void backward(const struct pool *p, const unsigned char *notes,
                     const float *dy, float *dx)
{
    if (is(p, 2, 2))
        square_backward(p, notes, dy, dx, 2, 2);
    else if (is(p, 3, 2))
        square_backward(p, notes, dy, dx, 3, 2);
    else if (is(p, 3, 1))
        square_backward(p, notes, dy, dx, 3, 1);
    else
        backward_of(p, notes, dy, dx);
}

const struct pool_loops NAME(pool_, CONV_ISA) = {
    .forward = forward,
    .backward = backward,
};
