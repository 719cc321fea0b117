/* SPDX-License-Identifier: MIT */
#include "kernels/conv.h"

#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels/conv_amx.h"
#include "kernels/conv_pack.h"
#include "kernels/norm.h"

static const struct isa {
    const struct conv_isa *floats, *bf16;
    const struct norm_loops *norms, *half_norms;
    const char *name;
} all[] = {
#define ISA(name)                                                              \
    {&conv_isa_##name, &conv_isa_bf16_##name, &norm_##name, &norm_bf16_##name, \
     #name},
#include "kernels/isas.def"
#undef ISA
};
enum { NISAS = sizeof(all) / sizeof(all[0]) };

static const struct isa *isa;
static const struct conv_isa *bf16;         /* with it */
static const struct norm_loops *half_norms; /* with that */

static const struct isa *best_isa(const char *name)
{
    for (int i = 0; i < NISAS; i++) {
        const char *needs = all[i].name;
        bool has = true;
#if defined(__x86_64__)
        if (!strcmp(needs, "avx512"))
            has = __builtin_cpu_supports("avx512f")
                  && __builtin_cpu_supports("avx512vl")
                  && __builtin_cpu_supports("avx512dq")
                  && __builtin_cpu_supports("avx512bw");
        if (!strcmp(needs, "avx2"))
            has =
                __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
        if (has && (!name || !strcmp(needs, name)))
            return &all[i];
    }
    return NULL;
}

#if defined(__x86_64__)
/* What is compiled for AVX-512 needs AVX512-BF16 too. */
static const struct conv_isa *without_amx(const struct isa *i)
{
    return !strcmp(i->name, "avx512") && !__builtin_cpu_supports("avx512bf16")
               ? best_isa("avx2")->bf16
               : i->bf16;
}
#else
static const struct conv_isa *without_amx(const struct isa *i)
{
    return i->bf16;
}
#endif

#if defined(CONV_AMX_STAND_IN)
static bool has_amx(const struct conv_isa *set)
{
    return set != NULL;
}
#elif defined(__x86_64__)
/* The kernel keeps room for its registers if asked. */
static bool has_amx(const struct conv_isa *set)
{
    enum {
        LEAF = 7,
        BF16 = 1 << 22,
        TILE = 1 << 24,
        REQUEST = 0x1023,
        DATA = 18
    };
    unsigned a, b, c, d;
    return set == &conv_isa_bf16_avx512
           && __get_cpuid_count(LEAF, 0, &a, &b, &c, &d) && d & BF16 && d & TILE
           && !syscall(SYS_arch_prctl, REQUEST, DATA);
}
#endif

static const struct conv_isa *best_bf16(const struct isa *i)
{
    const struct conv_isa *set = without_amx(i);
#if defined(CONV_AMX_STAND_IN) || defined(__x86_64__)
    static struct conv_isa amx;
    if (has_amx(set)) {
        amx = *set;
        amx.name = "amx";
        amx.wide = &conv_wide_amx;
        for (int halves = 0; halves <= TILE_HALVES; halves++)
            amx.most[halves] =
                halves == 2 || halves == 4 ? WIDE_GROUPS * WIDE_POSITIONS : 0;
        return &amx;
    }
#endif
    return set;
}

static void use(const struct isa *found)
{
    isa = found;
    bf16 = best_bf16(found);
    half_norms =
        without_amx(found) == found->bf16 ? found->half_norms : found->norms;
}

const char *conv_use(const char *name)
{
    const struct isa *found = best_isa(name);
    if (found)
        use(found);
    return found ? found->name : NULL;
}

const struct conv_isa *conv_isa(void)
{
    if (!isa)
        use(best_isa(NULL));
    return isa->floats;
}

const struct conv_isa *conv_isa_bf16(void)
{
    if (!isa)
        use(best_isa(NULL));
    return bf16;
}

const char *conv_bf16_isa(void)
{
    return conv_isa_bf16()->name;
}

bool conv_bf16_fast(void)
{
    return conv_isa_bf16()->wide || !strcmp(conv_bf16_isa(), "avx512");
}

const struct lanes *lanes(void)
{
    return conv_isa()->lanes;
}

const struct norm_loops *norm_loops(const struct norm *n)
{
    if (!isa)
        use(best_isa(NULL));
    return n->half_x || n->half_y ? half_norms : isa->norms;
}

bool conv_set_outputs(struct conv *c)
{
    const int h = c->h + 2 * c->pad_h - (c->kernel_h - 1) * c->dilation_h - 1;
    const int w = c->w + 2 * c->pad_w - (c->kernel_w - 1) * c->dilation_w - 1;
    c->out_h = h < 0 ? 0 : h / c->stride_h + 1;
    c->out_w = w < 0 ? 0 : w / c->stride_w + 1;
    return h >= 0 && w >= 0;
}

size_t conv_blocked(int n, int c, int h, int w)
{
    return (size_t)n * (size_t)conv_blocks(c) * CONV_BLOCK * (size_t)h
           * (size_t)w;
}

/* --- layouts --------------------------------------------------------------
 */

/* 16 positions of a block: from plain, or back. */
static void reorder_square(float *plain, float *blocked, int lanes,
                           size_t plane, bool back)
{
    static float zeros[CONV_BLOCK];
    float *channels[CONV_BLOCK], *positions[CONV_BLOCK];
    for (int k = 0; k < CONV_BLOCK; k++) {
        channels[k] = plain + (size_t)k * plane;
        positions[k] = blocked + k * CONV_BLOCK;
    }
    for (int c = lanes; c < CONV_BLOCK; c++)
        channels[c] = back ? NULL : zeros;
    conv_isa()->turn->turn((const float **)(back ? positions : channels),
                           back ? channels : positions, false);
}

/* One block of an image. */
static void reorder(float *plain, float *blocked, int lanes, size_t plane,
                    bool back)
{
    size_t i = 0;
    for (; i + CONV_BLOCK <= plane; i += CONV_BLOCK)
        reorder_square(plain + i, blocked + i * CONV_BLOCK, lanes, plane, back);
    for (; i < plane; i++)
        for (int c = 0; c < CONV_BLOCK; c++)
            if (back && c < lanes)
                plain[(size_t)c * plane + i] = blocked[i * CONV_BLOCK + c];
            else if (!back)
                blocked[i * CONV_BLOCK + c] =
                    c < lanes ? plain[(size_t)c * plane + i] : 0;
}

static void reorder_all(float *plain, float *blocked, int n, int c, int h,
                        int w, bool back)
{
    const size_t plane = (size_t)h * (size_t)w;
    for (int i = 0; i < n; i++)
        for (int b = 0; b < c; b += CONV_BLOCK) {
            const int lanes = conv_least(CONV_BLOCK, c - b);
            reorder(plain, blocked, lanes, plane, back);
            plain += (size_t)lanes * plane;
            blocked += CONV_BLOCK * plane;
        }
}

void conv_to_blocked(const float *plain, float *blocked, int n, int c, int h,
                     int w)
{
    reorder_all((float *)(uintptr_t)plain, blocked, n, c, h, w, false);
}

void conv_to_plain(const float *blocked, float *plain, int n, int c, int h,
                   int w)
{
    reorder_all(plain, (float *)(uintptr_t)blocked, n, c, h, w, true);
}
