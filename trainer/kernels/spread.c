/* SPDX-License-Identifier: MIT */
/* As conv_tile.c: CONV_LANES floats in a register. */
#include "kernels/spread.h"

#include <string.h>

#include "kernels/reg.h"

#if defined(__AVX512F__) && CONV_LANES == 16

/* What a mask leaves out is not read. */
PER_CASE void by_masks(const struct spread_run *runs, int stride, int n,
                       float *to, const int nruns)
{
    const float *from[BLOCK];
    __mmask16 masks[BLOCK];
    UNROLL(4)
    for (int i = 0; i < nruns; i++) {
        from[i] = runs[i].from - runs[i].channel;
        masks[i] = (__mmask16)(((1U << runs[i].count) - 1) << runs[i].channel);
    }
    for (int q = 0; q < n; q++, to += BLOCK) {
        const ptrdiff_t at = (ptrdiff_t)q * stride;
        __m512 v = _mm512_setzero_ps();
        UNROLL(4)
        for (int i = 0; i < nruns; i++)
            v = _mm512_mask_loadu_ps(v, masks[i], from[i] + at);
        _mm512_storeu_ps(to, v);
    }
}

static void spread(const struct spread_run *runs, int nruns, int stride, int n,
                   float *to)
{
    if (nruns == 1)
        by_masks(runs, stride, n, to, 1);
    else if (nruns == 2)
        by_masks(runs, stride, n, to, 2);
    else if (nruns == 3)
        by_masks(runs, stride, n, to, 3);
    else
        by_masks(runs, stride, n, to, nruns);
}

#else

/* In fours where there are any. */
static void run(const float *from, int count, int stride, int n, float *to)
{
    for (int i = 0; i < count; i += count < 4 ? 1 : 4) {
        const int at = count >= 4 && i + 4 > count ? count - 4 : i;
        const float *x = from + at;
        float *y = to + at;
        for (int q = 0; q < n && count < 4; q++, x += stride, y += BLOCK)
            *y = *x;
        for (int q = 0; q < n && count >= 4; q++, x += stride, y += BLOCK)
            memcpy(y, x, 4 * sizeof(float));
    }
}

static void spread(const struct spread_run *runs, int nruns, int stride, int n,
                   float *to)
{
    memset(to, 0, (size_t)n * BLOCK * sizeof(float));
    for (int i = 0; i < nruns; i++)
        run(runs[i].from, runs[i].count, stride, n, to + runs[i].channel);
}

#endif

const struct spread_loops NAME(spread_, CONV_ISA) = {
    .spread = spread,
};
