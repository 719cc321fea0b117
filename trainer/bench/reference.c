/* SPDX-License-Identifier: MIT */
#include "bench/reference.h"

/* Where one weight takes part: of image n, output channel k and input channel
 * c, window row i and column j. */
struct place {
    int n, k, c, i, j;
    size_t w; /* the index of that weight */
};

struct sum {
    const struct conv *conv;
    enum conv_pass pass;
    const float *x, *y, *w;
    double *result;
};

/* Over all positions of the window. */
static void add_weight(const struct sum *s, const struct place *p)
{
    const struct conv *c = s->conv;
    for (int r = 0; r < c->out_h; r++) {
        const int row = r * c->stride_h - c->pad_h + p->i * c->dilation_h;
        if (row < 0 || row >= c->h)
            continue;
        const size_t out =
            (((size_t)p->n * c->k + p->k) * c->out_h + r) * c->out_w;
        const size_t in = (((size_t)p->n * c->c + p->c) * c->h + row) * c->w;
        for (int q = 0; q < c->out_w; q++) {
            const int col = q * c->stride_w - c->pad_w + p->j * c->dilation_w;
            if (col < 0 || col >= c->w)
                continue;
            const size_t y = out + (size_t)q, x = in + (size_t)col;
            if (s->pass == CONV_FORWARD)
                s->result[y] += (double)s->x[x] * (double)s->w[p->w];
            else if (s->pass == CONV_BACKWARD_DATA)
                s->result[x] += (double)s->y[y] * (double)s->w[p->w];
            else
                s->result[p->w] += (double)s->y[y] * (double)s->x[x];
        }
    }
}

static void add_bias(const struct conv *c, const float *bias, double *y)
{
    const size_t plane = (size_t)c->out_h * (size_t)c->out_w;
    for (int n = 0; n < c->n; n++)
        for (int k = 0; k < c->k; k++)
            for (size_t p = 0; p < plane; p++)
                *y++ += (double)bias[k];
}

void reference(const struct conv *c, enum conv_pass pass, const float *x,
               const float *y, const float *w, const float *bias,
               double *result)
{
    const int in = c->c / c->groups, out = c->k / c->groups;
    const struct sum s = {c, pass, x, y, w, result};
    if (pass == CONV_FORWARD && bias)
        add_bias(c, bias, result);
    for (int n = 0; n < c->n; n++)
        for (int k = 0; k < c->k; k++) {
            struct place p = {.n = n, .k = k};
            p.w = (size_t)k * in * c->kernel_h * c->kernel_w;
            for (int m = 0; m < in; m++)
                for (p.i = 0; p.i < c->kernel_h; p.i++)
                    for (p.j = 0; p.j < c->kernel_w; p.j++, p.w++) {
                        p.c = k / out * in + m;
                        add_weight(&s, &p);
                    }
        }
}
