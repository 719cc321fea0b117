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

/* What a kernel's window is like, known when it is compiled. */
struct ways {
    int kernel_h, kernel_w, stride_h, stride_w;
    size_t note_bytes;
    bool half;
};

/* No window has that many elements. */
INLINE int none(size_t note_bytes)
{
    return note_bytes == 1 ? 255 : -1;
}

/* Number `from` is where the window begins, which may lie before the plane. */
PER_CASE void largest(const float *x, ptrdiff_t from, ptrdiff_t row,
                      struct part rows, struct part columns, float *y,
                      ptrdiff_t to, unsigned char *notes, bool relu,
                      struct ways w)
{
    for (int k = 0; k < PARTS; k++, from += LANES, to += LANES) {
        reg best = {0};
        mask note = (mask){0} + none(w.note_bytes);
        if (!relu) {
            best = load_from(x, from + rows.first * row + columns.first * BLOCK,
                             w.half);
            note = (mask){0} + (rows.first * w.kernel_w + columns.first);
        }
        UNROLL(3)
        for (int i = rows.first; i < rows.end; i++) {
            UNROLL(3)
            for (int j = columns.first; j < columns.end; j++) {
                const reg v = load_from(x, from + i * row + j * BLOCK, w.half);
                const mask more = v > best;
                best = choose(more, v, best);
                note = (more & (i * w.kernel_w + j)) | (~more & note);
            }
        }
        store_from(y, to, best, w.half);
        put_note(notes + (size_t)to * w.note_bytes, note, w.note_bytes);
    }
}

PER_CASE void forward_of(const struct pool *p, const float *x, float *y,
                         unsigned char *notes, struct ways w)
{
    const ptrdiff_t row = (ptrdiff_t)p->w * BLOCK;
    const struct part whole[] = {
        {0, w.kernel_h},
        {0, w.kernel_w}
    };
    /* What the next row of windows begins to read. */
    const int ahead = w.stride_w <= 2 ? w.stride_w * w.stride_w : 0;
    ptrdiff_t to = 0;
    for (int i = 0; i < p->out_h; i++) {
        const struct part rows =
            inside(i, w.kernel_h, p->stride_h, p->pad, p->h);
        ptrdiff_t at = ((ptrdiff_t)i * p->stride_h - p->pad) * row
                       - (ptrdiff_t)p->pad * BLOCK;
        const bool high = rows.first == 0 && rows.end == w.kernel_h;
        for (int j = 0; j < p->out_w; j++) {
            const struct part columns =
                inside(j, w.kernel_w, w.stride_w, p->pad, p->w);
            for (int q = 0; q < ahead; q++)
                __builtin_prefetch(x
                                   + ((at + (w.kernel_h + q / w.stride_w) * row
                                       + q % w.stride_w * BLOCK)
                                      >> w.half));
            if (high && columns.first == 0 && columns.end == w.kernel_w)
                largest(x, at, row, whole[0], whole[1], y, to, notes, p->relu,
                        w);
            else
                largest(x, at, row, rows, columns, y, to, notes, p->relu, w);
            at += (ptrdiff_t)w.stride_w * BLOCK;
            to += BLOCK;
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

/* Adds to sum what window (i, j), at this number of dy, gives to its element.
 */
INLINE reg given(const unsigned char *notes, const float *dy, ptrdiff_t at,
                 int element, struct ways w, reg sum)
{
    const mask won =
        get_note(notes + at * (ptrdiff_t)w.note_bytes, w.note_bytes) == element;
    return sum + choose(won, load_from(dy, at, w.half), (reg){0});
}

/* Element (r, c), of any window, to number `to` of dx. */
PER_CASE void gather(const struct pool *p, const unsigned char *notes,
                     const float *dy, float *dx, ptrdiff_t to, int r, int c,
                     struct ways w)
{
    const struct part rows =
                          around(r, w.kernel_h, w.stride_h, p->pad, p->out_h),
                      columns =
                          around(c, w.kernel_w, w.stride_w, p->pad, p->out_w);
    for (int k = 0; k < PARTS; k++) {
        reg sum = {0};
        for (int i = rows.first; i < rows.end; i++)
            for (int j = columns.first; j < columns.end; j++)
                sum = given(notes, dy,
                            ((ptrdiff_t)i * p->out_w + j) * BLOCK + k * LANES,
                            (r + p->pad - i * w.stride_h) * w.kernel_w
                                + (c + p->pad - j * w.stride_w),
                            w, sum);
        store_from(dx, to + k * LANES, sum, w.half);
    }
}

/* Elements of a row from number `to` of dx on, where the last window that has
 * the first is at number `at` of dy, of square windows that all lie inside:
 * `down` is the row of that window. Takes `periods` times as many as the
 * stride. */
PER_CASE void gather_row(const unsigned char *notes, const float *dy,
                         ptrdiff_t at, ptrdiff_t row, float *dx, ptrdiff_t to,
                         int periods, int down, struct ways w)
{
    const int kernel = w.kernel_h, stride = w.stride_h;
    for (int n = 0; n < periods; n++, at += BLOCK) {
        UNROLL(4)
        for (int right = 0; right < stride; right++, to += BLOCK)
            for (int k = 0; k < PARTS; k++) {
                reg sum = {0};
                UNROLL(4)
                for (int i = (kernel - 1 - down) / stride; i >= 0; i--) {
                    UNROLL(4)
                    for (int j = (kernel - 1 - right) / stride; j >= 0; j--)
                        sum = given(
                            notes, dy, at + k * LANES - i * row - j * BLOCK,
                            (down + i * stride) * kernel + right + j * stride,
                            w, sum);
                }
                store_from(dx, to + k * LANES, sum, w.half);
            }
    }
}

PER_CASE void square_backward(const struct pool *p, const unsigned char *notes,
                              const float *dy, float *dx, struct ways w)
{
    const int kernel = w.kernel_h, stride = w.stride_h;
    const ptrdiff_t row = (ptrdiff_t)p->out_w * BLOCK;
    const int before = (kernel - 1) / stride; /* windows that share elements */
    const int first = before * stride > p->pad
                          ? before * stride - p->pad
                          : (stride - p->pad % stride) % stride;
    const int j = (first + p->pad) / stride;
    const int periods =
        j < p->out_w ? least(p->out_w - j, (p->w - first) / stride) : 0;
    for (int r = 0; r < p->h; r++) {
        const int i = (r + p->pad) / stride, down = (r + p->pad) % stride;
        const ptrdiff_t at = i * row + (ptrdiff_t)j * BLOCK;
        const bool inner = i >= before && i < p->out_h && periods > 0;
        const int end = inner ? first + periods * stride : 0;
        const ptrdiff_t to = (ptrdiff_t)r * p->w * BLOCK;
        for (int c = 0; inner && c < first; c++)
            gather(p, notes, dy, dx, to + c * BLOCK, r, c, w);
        UNROLL(4)
        for (int q = 0; inner && q < stride; q++)
            if (q == down)
                gather_row(notes, dy, at, row, dx, to + first * BLOCK, periods,
                           q, w);
        for (int c = end; c < p->w; c++)
            gather(p, notes, dy, dx, to + c * BLOCK, r, c, w);
    }
}

PER_CASE void any_backward(const struct pool *p, const unsigned char *notes,
                           const float *dy, float *dx, struct ways w)
{
    ptrdiff_t to = 0;
    for (int r = 0; r < p->h; r++)
        for (int c = 0; c < p->w; c++, to += BLOCK)
            gather(p, notes, dy, dx, to, r, c, w);
}

static bool is(const struct pool *p, int kernel, int stride)
{
    return p->kernel_h == kernel && p->kernel_w == kernel
           && p->stride_h == stride && p->stride_w == stride;
}

#define SQUARE(kernel, stride, half)                                           \
    (struct ways)                                                              \
    {                                                                          \
        kernel, kernel, stride, stride, 1, half                                \
    }

INLINE void forward_by(const struct pool *p, const float *x, float *y,
                       unsigned char *notes, struct ways any)
{
    if (is(p, 2, 2))
        forward_of(p, x, y, notes, SQUARE(2, 2, any.half));
    else if (is(p, 3, 2))
        forward_of(p, x, y, notes, SQUARE(3, 2, any.half));
    else if (is(p, 3, 1))
        forward_of(p, x, y, notes, SQUARE(3, 1, any.half));
    else
        forward_of(p, x, y, notes, any);
}

INLINE void backward_by(const struct pool *p, const unsigned char *notes,
                        const float *dy, float *dx, struct ways any)
{
    if (is(p, 2, 2))
        square_backward(p, notes, dy, dx, SQUARE(2, 2, any.half));
    else if (is(p, 3, 2))
        square_backward(p, notes, dy, dx, SQUARE(3, 2, any.half));
    else if (is(p, 3, 1))
        square_backward(p, notes, dy, dx, SQUARE(3, 1, any.half));
    else
        any_backward(p, notes, dy, dx, any);
}

INLINE struct ways ways_of(const struct pool *p, bool half)
{
    return (struct ways){p->kernel_h,
                         p->kernel_w,
                         p->stride_h,
                         p->stride_w,
                         pool_note_bytes(p->kernel_h, p->kernel_w),
                         half};
}

static void forward(const struct pool *p, const float *x, float *y,
                    unsigned char *notes)
{
    if (p->half)
        forward_by(p, x, y, notes, ways_of(p, true));
    else
        forward_by(p, x, y, notes, ways_of(p, false));
}

static void backward(const struct pool *p, const unsigned char *notes,
                     const float *dy, float *dx)
{
    if (p->half)
        backward_by(p, notes, dy, dx, ways_of(p, true));
    else
        backward_by(p, notes, dy, dx, ways_of(p, false));
}

const struct pool_loops NAME(pool_, CONV_ISA) = {
    .forward = forward,
    .backward = backward,
};
