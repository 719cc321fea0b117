/* SPDX-License-Identifier: MIT */
/* Sums with NEON, which every 64-bit Arm has. Whole vectors here, the rest in
 * the scalar kernel. */
#include "op/kernels.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <stdint.h>

bool has_neon(void)
{
    return true;
}

void sum_f32_neon(void *dst, const void *a, const void *b, size_t n)
{
    const float *const x = a, *const y = b;
    float *const z = dst;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const float32x4_t lo = vaddq_f32(vld1q_f32(x + i), vld1q_f32(y + i));
        const float32x4_t hi =
            vaddq_f32(vld1q_f32(x + i + 4), vld1q_f32(y + i + 4));
        vst1q_f32(z + i, lo);
        vst1q_f32(z + i + 4, hi);
    }
    for (; i < n; i++)
        z[i] = x[i] + y[i];
}

void sum_f64_neon(void *dst, const void *a, const void *b, size_t n)
{
    const double *const x = a, *const y = b;
    double *const z = dst;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const float64x2_t lo = vaddq_f64(vld1q_f64(x + i), vld1q_f64(y + i));
        const float64x2_t hi =
            vaddq_f64(vld1q_f64(x + i + 2), vld1q_f64(y + i + 2));
        vst1q_f64(z + i, lo);
        vst1q_f64(z + i + 2, hi);
    }
    for (; i < n; i++)
        z[i] = x[i] + y[i];
}

static inline float32x4_t load_bf16(const uint16_t *x)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(x), 16));
}

/* Rounds to nearest even. A NaN needs no care: as a sum of bf16 numbers it has
 * zeros where the rounding adds. */
static inline void store_bf16(uint16_t *z, float32x4_t x)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t half = vaddq_u32(odd, vdupq_n_u32(0x7fff));
    vst1_u16(z, vshrn_n_u32(vaddq_u32(bits, half), 16));
}

void sum_bf16_neon(void *dst, const void *a, const void *b, size_t n)
{
    const uint16_t *const x = a, *const y = b;
    uint16_t *const z = dst;
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        store_bf16(z + i, vaddq_f32(load_bf16(x + i), load_bf16(y + i)));
    sum_bf16_scalar(z + i, x + i, y + i, n - i);
}

static inline float32x4_t load_f16(const uint16_t *x)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x)));
}

void sum_f16_neon(void *dst, const void *a, const void *b, size_t n)
{
    const uint16_t *const x = a, *const y = b;
    uint16_t *const z = dst;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const float32x4_t sum = vaddq_f32(load_f16(x + i), load_f16(y + i));
        vst1_u16(z + i, vreinterpret_u16_f16(vcvt_f16_f32(sum)));
    }
    sum_f16_scalar(z + i, x + i, y + i, n - i);
}

#endif
