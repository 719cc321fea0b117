/* SPDX-License-Identifier: MIT */
/* What Winograd's transforms do to one row or column of a tile, whose elements
 * are registers of channels: its products with A, B and G and with their
 * transposes.
 *
 * F(4, 3) has tiles 6 wide and the points 0, 1, -1, 2, -2 and infinity, F(4, 5)
 * has tiles 8 wide and 1/2 and -1/2 besides: with 3/2, 3/4 or 3 in place of one
 * of the pairs errors are larger.
 *
 * Where a tile has 3, 2 or 1 outputs at an edge, F(3, 3), F(2, 3) or F(1, 3) do
 * with the first of these points and infinity, and with the same kernels at
 * places, if what differs in their scale goes to the inputs: that of point p is
 * the product of p - q over the other points q. F(4, 5) has all at edges, too.
 */
#ifndef TRAINER_KERNELS_CONV_WINOGRAD_LINE_H
#define TRAINER_KERNELS_CONV_WINOGRAD_LINE_H

#include "kernels/reg.h"

enum { INFINITE = 5 }; /* of F(4, 3) */

#if WINOGRAD_WIDE == 6
#define HAS                                                                    \
    {                                                                          \
        0, 1 << INFINITE | 3, 1 << INFINITE | 7, 1 << INFINITE | 15, 63        \
    }
#else
#define HAS                                                                    \
    {                                                                          \
        0, 255, 255, 255, 255                                                  \
    }
#endif

/* The `wide` of a tile of inputs to places, of so many outputs. What these do
 * without is zeros, here and below. */
PER_CASE void times_b(const reg *d, reg *v, const int wide, int outputs)
{
    if (wide == 6 && outputs == 1) {
        v[0] = 4.f * (d[0] - d[1]);
        v[1] = -6.f * d[1];
        v[2] = v[3] = v[4] = (reg){0};
        v[INFINITE] = d[2] - d[1];
    } else if (wide == 6 && outputs == 2) {
        v[0] = 4.f * (d[0] - d[2]);
        v[1] = -3.f * (d[2] + d[1]);
        v[2] = -3.f * (d[2] - d[1]);
        v[3] = v[4] = (reg){0};
        v[INFINITE] = d[3] - d[1];
    } else if (wide == 6 && outputs == 3) {
        const reg a = d[3] - d[1], b = d[2] - d[0];
        v[0] = 2.f * a - 4.f * b;
        v[1] = 3.f * (a - d[2] - d[1]);
        v[2] = d[3] - 3.f * d[2] + 2.f * d[1];
        v[3] = 4.f * a;
        v[4] = (reg){0};
        v[INFINITE] = d[4] - d[2] - 2.f * a;
    } else if (wide == 6) {
        const reg a = d[4] - 4.f * d[2], b = d[3] - 4.f * d[1];
        const reg c = d[4] - d[2], e = d[3] - d[1];
        v[0] = 4.f * d[0] + (d[4] - 5.f * d[2]);
        v[1] = a + b;
        v[2] = a - b;
        v[3] = c + 2.f * e;
        v[4] = c - 2.f * e;
        v[5] = 4.f * d[1] + (d[5] - 5.f * d[3]);
    } else {
        const reg a = d[2] + d[6] - 4.25f * d[4];
        const reg b = d[1] + d[5] - 4.25f * d[3];
        const reg c = d[6] + .25f * d[2] - 1.25f * d[4];
        const reg e = .5f * d[1] + 2.f * d[5] - 2.5f * d[3];
        const reg f = d[6] + 4.f * d[2] - 5.f * d[4];
        const reg h = 2.f * d[1] + .5f * d[5] - 2.5f * d[3];
        v[0] = d[0] - d[6] + 5.25f * (d[4] - d[2]);
        v[1] = a + b;
        v[2] = a - b;
        v[3] = c + e;
        v[4] = c - e;
        v[5] = f + h;
        v[6] = f - h;
        v[7] = d[7] - d[1] + 5.25f * (d[3] - d[5]);
    }
}

PER_CASE void times_b_back(const reg *v, reg *d, const int wide, int outputs)
{
    if (wide == 6 && outputs == 1) {
        d[0] = 4.f * v[0];
        d[1] = -4.f * v[0] - 6.f * v[1] - v[INFINITE];
        d[2] = v[INFINITE];
        d[3] = d[4] = d[5] = (reg){0};
        return;
    }
    if (wide == 6 && outputs == 2) {
        d[0] = 4.f * v[0];
        d[1] = 3.f * (v[2] - v[1]) - v[INFINITE];
        d[2] = -4.f * v[0] - 3.f * (v[1] + v[2]);
        d[3] = v[INFINITE];
        d[4] = d[5] = (reg){0};
        return;
    }
    if (wide == 6 && outputs == 3) {
        d[0] = 4.f * v[0];
        d[1] = 2.f * (v[2] - v[0] + v[INFINITE]) - 6.f * v[1] - 4.f * v[3];
        d[2] = -4.f * v[0] - 3.f * (v[1] + v[2]) - v[INFINITE];
        d[3] = 2.f * (v[0] - v[INFINITE]) + 3.f * v[1] + v[2] + 4.f * v[3];
        d[4] = v[INFINITE];
        d[5] = (reg){0};
        return;
    }
    const reg a = v[1] + v[2], b = v[1] - v[2];
    const reg c = v[3] + v[4], e = v[3] - v[4];
    if (wide == 6) {
        d[0] = 4.f * v[0];
        d[1] = 4.f * (v[5] - b) - 2.f * e;
        d[2] = -5.f * v[0] - 4.f * a - c;
        d[3] = b + 2.f * e - 5.f * v[5];
        d[4] = v[0] + a + c;
        d[5] = v[5];
    } else {
        const reg f = v[5] + v[6], h = v[5] - v[6];
        d[0] = v[0];
        d[1] = b + .5f * e + 2.f * h - v[7];
        d[2] = a + .25f * c + 4.f * f - 5.25f * v[0];
        d[3] = 5.25f * v[7] - 4.25f * b - 2.5f * (e + h);
        d[4] = 5.25f * v[0] - 4.25f * a - 1.25f * c - 5.f * f;
        d[5] = b + 2.f * e + .5f * h - 5.25f * v[7];
        d[6] = a + c + f - v[0];
        d[7] = v[7];
    }
}

/* Places to 4 outputs, or fewer. */
PER_CASE void times_a(const reg *m, reg *y, const int wide, int outputs)
{
    if (wide == 6 && outputs == 1) {
        y[0] = m[0] + m[1] + m[INFINITE];
        y[1] = y[2] = y[3] = (reg){0};
        return;
    }
    if (wide == 6 && outputs == 2) {
        y[0] = m[0] + m[1] + m[2];
        y[1] = m[1] - m[2] + m[INFINITE];
        y[2] = y[3] = (reg){0};
        return;
    }
    if (wide == 6 && outputs == 3) {
        y[0] = m[0] + m[1] + m[2] + m[3];
        y[1] = m[1] - m[2] + 2.f * m[3];
        y[2] = m[1] + m[2] + 4.f * m[3] + m[INFINITE];
        y[3] = (reg){0};
        return;
    }
    const reg a = m[1] + m[2], b = m[1] - m[2];
    const reg c = m[3] + m[4], d = m[3] - m[4];
    y[0] = m[0] + a + c;
    y[1] = b + 2.f * d;
    y[2] = a + 4.f * c;
    y[3] = b + 8.f * d + m[wide - 1];
    if (wide == 8) {
        const reg e = m[5] + m[6], f = m[5] - m[6];
        y[0] += e;
        y[1] += .5f * f;
        y[2] += .25f * e;
        y[3] += .125f * f;
    }
}

PER_CASE void times_a_back(const reg *y, reg *m, const int wide, int outputs)
{
    if (wide == 6 && outputs < 4) {
        const reg a = outputs == 3 ? y[0] + y[2] : y[0];
        const reg b = outputs > 1 ? y[1] : (reg){0};
        m[0] = y[0];
        m[1] = a + b;
        m[2] = outputs > 1 ? a - b : (reg){0};
        m[3] = outputs == 3 ? a + 2.f * b + 3.f * y[2] : (reg){0};
        m[4] = (reg){0};
        m[INFINITE] = outputs == 1 ? a : outputs == 2 ? b : y[2];
        return;
    }
    const reg a = y[0] + y[2], b = y[1] + y[3];
    const reg c = y[0] + 4.f * y[2], d = 2.f * y[1] + 8.f * y[3];
    m[0] = y[0];
    m[1] = a + b;
    m[2] = a - b;
    m[3] = c + d;
    m[4] = c - d;
    if (wide == 8) {
        const reg e = y[0] + .25f * y[2], f = .5f * y[1] + .125f * y[3];
        m[5] = e + f;
        m[6] = e - f;
    }
    m[wide - 1] = y[3];
}

/* The `wide` - 3 of a kernel to places. */
PER_CASE void times_g(const reg *g, reg *u, const int wide)
{
    if (wide == 6) {
        const reg a = g[0] + g[2], c = g[0] + 4.f * g[2], d = 2.f * g[1];
        u[0] = g[0] * .25f;
        u[1] = (a + g[1]) * (-1.f / 6);
        u[2] = (a - g[1]) * (-1.f / 6);
        u[3] = (c + d) * (1.f / 24);
        u[4] = (c - d) * (1.f / 24);
        u[5] = g[2];
    } else {
        const reg a = g[0] + g[2] + g[4], b = g[1] + g[3];
        const reg c = g[0] + 4.f * g[2] + 16.f * g[4];
        const reg d = 2.f * g[1] + 8.f * g[3];
        const reg e = 16.f * g[0] + 4.f * g[2] + g[4];
        const reg f = 8.f * g[1] + 2.f * g[3];
        u[0] = g[0];
        u[1] = (a + b) * (-2.f / 9);
        u[2] = (a - b) * (-2.f / 9);
        u[3] = (c + d) * (1.f / 90);
        u[4] = (c - d) * (1.f / 90);
        u[5] = (e + f) * (2.f / 45);
        u[6] = (e - f) * (2.f / 45);
        u[7] = g[4];
    }
}

PER_CASE void times_g_back(const reg *u, reg *g, const int wide)
{
    if (wide == 6) {
        const reg a = (u[1] + u[2]) * (-1.f / 6);
        const reg b = (u[1] - u[2]) * (-1.f / 6);
        const reg c = (u[3] + u[4]) * (1.f / 24);
        const reg d = (u[3] - u[4]) * (1.f / 24);
        g[0] = u[0] * .25f + a + c;
        g[1] = b + 2.f * d;
        g[2] = a + 4.f * c + u[5];
    } else {
        const reg a = (u[1] + u[2]) * (-2.f / 9);
        const reg b = (u[1] - u[2]) * (-2.f / 9);
        const reg c = (u[3] + u[4]) * (1.f / 90);
        const reg d = (u[3] - u[4]) * (1.f / 90);
        const reg e = (u[5] + u[6]) * (2.f / 45);
        const reg f = (u[5] - u[6]) * (2.f / 45);
        g[0] = u[0] + a + c + 16.f * e;
        g[1] = b + 2.f * d + 8.f * f;
        g[2] = a + 4.f * c + 4.f * e;
        g[3] = b + 8.f * d + 2.f * f;
        g[4] = a + 16.f * c + e + u[7];
    }
}

#endif
