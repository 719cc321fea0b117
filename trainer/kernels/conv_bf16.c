/* SPDX-License-Identifier: MIT */
/* Direct convolution of operands that are rounded to bf16, with sums in float.
 * In memory weights and sums are float, and with AMX inputs and outputs what
 * the caller says: bands and weights are rounded when they are copied and
 * packed. Pairs that processors multiply at once are of channels, and for the
 * gradient of the weights of images, so that taps never part them; with AMX of
 * positions (conv_wide_weights.c). */
#include "kernels/conv_direct.h"
#include "kernels/conv_pack.h"
#include "kernels/conv_size.h"

static const char *cannot(const struct conv *c, enum conv_pass pass)
{
    return c->plain && !conv_isa_bf16()->wide
               ? "a plain input is rounded to bf16 for AMX only"
               : conv_direct.cannot(c, pass);
}

static bool is_wide(void)
{
    return conv_isa_bf16()->wide;
}

static size_t scratch_of(const struct conv *c, enum conv_pass pass)
{
    return direct_scratch(conv_isa_bf16(), c, pass);
}

static void forward(const struct conv *c, const float *x, const float *w,
                    const float *bias, float *y, float *scratch)
{
    direct_forward(conv_isa_bf16(), c, x, w, bias, y, scratch);
}

static void backward_data(const struct conv *c, const float *dy, const float *w,
                          float *dx, float *scratch)
{
    direct_backward_data(conv_isa_bf16(), c, dy, w, dx, scratch);
}

static void backward_weights(const struct conv *c, const float *x,
                             const float *dy, float *dw, float *scratch)
{
    const struct conv_isa *isa = conv_isa_bf16();
    (isa->wide ? wide_backward_weights : direct_backward_weights)(isa, c, x, dy,
                                                                  dw, scratch);
}

const struct conv_method conv_bf16 = {
    .name = "bf16",
    .adds = true,
    .shares = true,
    .halves = is_wide,
    .writes = is_wide,
    .relus = true,
    .gates = conv_reaches_all,
    .cannot = cannot,
    .scratch = scratch_of,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
};
