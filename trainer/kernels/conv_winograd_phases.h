/* SPDX-License-Identifier: MIT */
/* As conv_winograd_line.h, for 2 outputs of kernels of 3 with strides of 2,
 * which read 5 numbers. What the kernel's middle meets lies apart from what its
 * ends meet, so outputs are sums of two convolutions with strides of 1:
 *
 *     y[i] = d[2 i] g[0] + d[2 i + 2] g[2]     ends: F(2, 2), points 0, 1 and
 *          + d[2 i + 1] g[1]                   infinity: 3 products, not 4
 *
 * Nothing is multiplied, so errors are hardly more than of the definition. One
 * output at an edge is as it is defined.
 */
#ifndef TRAINER_KERNELS_CONV_WINOGRAD_PHASES_H
#define TRAINER_KERNELS_CONV_WINOGRAD_PHASES_H

#include "kernels/reg.h"

#define HAS                                                                    \
    {                                                                          \
        0, 1 << 0 | 1 << 2 | 1 << 3, 31                                        \
    }

PER_CASE void times_b(const reg *d, reg *v, const int wide, int outputs)
{
    (void)wide;
    if (outputs == 1) {
        v[0] = d[0];
        v[2] = d[2];
        v[3] = d[1];
        v[1] = v[4] = (reg){0};
        return;
    }
    v[0] = d[0] - d[2];
    v[1] = d[2];
    v[2] = d[4] - d[2];
    v[3] = d[1];
    v[4] = d[3];
}

PER_CASE void times_b_back(const reg *v, reg *d, const int wide, int outputs)
{
    (void)wide;
    d[0] = v[0];
    d[1] = v[3];
    if (outputs == 1) {
        d[2] = v[2];
        d[3] = d[4] = (reg){0};
        return;
    }
    d[2] = v[1] - v[0] - v[2];
    d[3] = v[4];
    d[4] = v[2];
}

PER_CASE void times_a(const reg *m, reg *y, const int wide, int outputs)
{
    (void)wide;
    if (outputs == 1) {
        y[0] = m[0] + m[2] + m[3];
        y[1] = (reg){0};
        return;
    }
    y[0] = m[0] + m[1] + m[3];
    y[1] = m[1] + m[2] + m[4];
}

PER_CASE void times_a_back(const reg *y, reg *m, const int wide, int outputs)
{
    (void)wide;
    if (outputs == 1) {
        m[0] = m[2] = m[3] = y[0];
        m[1] = m[4] = (reg){0};
        return;
    }
    m[0] = m[3] = y[0];
    m[1] = y[0] + y[1];
    m[2] = m[4] = y[1];
}

PER_CASE void times_g(const reg *g, reg *u, const int wide)
{
    (void)wide;
    u[0] = g[0];
    u[1] = g[0] + g[2];
    u[2] = g[2];
    u[3] = u[4] = g[1];
}

PER_CASE void times_g_back(const reg *u, reg *g, const int wide)
{
    (void)wide;
    g[0] = u[0] + u[1];
    g[1] = u[3] + u[4];
    g[2] = u[1] + u[2];
}

#endif
