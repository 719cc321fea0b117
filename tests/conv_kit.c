/* SPDX-License-Identifier: MIT */
#include "conv_kit.h"

#include <math.h>

#include "exact.h"

const char *const isas[NISAS] = {
#define ISA(name) #name,
#include "kernels/isas.def"
#undef ISA
};
const char *only;

bool here(int isa)
{
    return (!only || !strcmp(only, isas[isa])) && conv_use(isas[isa]);
}

const struct conv_method *const methods[NMETHODS] = {
#ifndef CONV_AMX_STAND_IN
    &conv_direct, &conv_strassen, &conv_winograd,
#endif
    &conv_bf16};

/* Half of the test's time with sanitizers otherwise. */
__attribute__((no_sanitize("address", "undefined"))) void
reference(const struct conv *c, const float *x, const float *w,
          const float *bias, const float *dy, float *y, float *dx, float *dw)
{
    const int in = c->c / c->groups, per = c->k / c->groups;
    memset(dx, 0, conv_inputs(c) * sizeof(float));
    for (int n = 0; n < c->n; n++)
        for (int k = 0; k < c->k; k++)
            for (int r = 0; r < c->out_h; r++)
                for (int q = 0; q < c->out_w; q++, y++, dy++) {
                    const int top = r * c->stride_h - c->pad_h;
                    const int left = q * c->stride_w - c->pad_w;
                    *y = bias[k];
                    for (int ch = 0; ch < in; ch++)
                        for (int i = 0; i < c->kernel_h; i++) {
                            const int row = top + i * c->dilation_h;
                            const size_t a =
                                (((size_t)n * c->c + k / per * in + ch) * c->h
                                 + row)
                                * c->w;
                            const size_t b =
                                (((size_t)k * in + ch) * c->kernel_h + i)
                                * c->kernel_w;
                            for (int j = 0; j < c->kernel_w; j++) {
                                const int col = left + j * c->dilation_w;
                                if (row < 0 || row >= c->h || col < 0
                                    || col >= c->w)
                                    continue;
                                *y += x[a + col] * w[b + j];
                                dx[a + col] += *dy * w[b + j];
                                dw[b + j] += *dy * x[a + col];
                            }
                        }
                }
}

void equal(const float *found, const float *wanted, size_t count,
           const char *isa, const char *what, const char *shape)
{
    for (size_t i = 0; i < count; i++)
        require(found[i] == wanted[i], "%s: %s, %s[%zu] is %g, not %g", isa,
                shape, what, i, (double)found[i], (double)wanted[i]);
}

void lanes_are_zero(const float *blocked, int n, int c, size_t plane,
                    const char *shape)
{
    const int blocks = (c + CONV_BLOCK - 1) / CONV_BLOCK;
    for (int i = 0; i < n; i++)
        for (size_t p = 0; p < plane; p++)
            for (int lane = c - (blocks - 1) * CONV_BLOCK; lane < CONV_BLOCK;
                 lane++)
                require(blocked[(((size_t)i * blocks + blocks - 1) * plane + p)
                                    * CONV_BLOCK
                                + lane]
                            == 0,
                        "%s: a lane without a channel is not 0", shape);
}

float *scratch_of(const struct conv_method *m, const struct conv *c,
                  enum conv_pass pass)
{
    /* A short batch is to do with that of a full one. */
    struct conv full = *c;
    full.n *= 3;
    require(m->scratch(&full, pass) >= m->scratch(c, pass),
            "%s, pass %d: less scratch for more images", m->name, (int)pass);
    return unset(m->scratch(c, pass));
}

static const double rounding = 2e-5;

void near(const float *found, const float *wanted, size_t count,
          const char *isa, const char *what, int c, int k)
{
    double largest = 1, off = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)wanted[i]));
        off = fmax(off, fabs((double)found[i] - (double)wanted[i]));
    }
    require(off <= rounding * largest, "%s: %s of %d to %d channels: %g of %g",
            isa, what, c, k, off, largest);
}

float *uniform(size_t count, uint64_t seed)
{
    float *x = eighths(count, seed);
    for (size_t i = 0; i < count; i++)
        x[i] = 2 * random_unit(seed, i) - 1;
    return x;
}
