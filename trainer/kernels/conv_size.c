/* SPDX-License-Identifier: MIT */
#include "kernels/conv_size.h"

size_t conv_inputs(const struct conv *c)
{
    return (size_t)c->n * (size_t)c->c * (size_t)c->h * (size_t)c->w;
}

size_t conv_outputs(const struct conv *c)
{
    return (size_t)c->n * (size_t)c->k * (size_t)c->out_h * (size_t)c->out_w;
}

size_t conv_weights(const struct conv *c)
{
    return (size_t)c->k * (size_t)(c->c / c->groups)
           * (size_t)(c->kernel_h * c->kernel_w);
}

double conv_flops(const struct conv *c)
{
    return 2.0 * c->n * c->k * c->out_h * c->out_w * (c->c / c->groups)
           * c->kernel_h * c->kernel_w;
}

static bool gaps(int stride, int kernel, int dilation)
{
    return stride > 1 && (stride > kernel || dilation > 1);
}

bool conv_reaches_all(const struct conv *c)
{
    return !gaps(c->stride_h, c->kernel_h, c->dilation_h)
           && !gaps(c->stride_w, c->kernel_w, c->dilation_w);
}
