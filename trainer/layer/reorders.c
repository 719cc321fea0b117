/* SPDX-License-Identifier: MIT */
#include "layer/reorders.h"

#include "kernels/conv.h"

extern const struct layer_ops layer_conv, layer_dense;

/* Each pass has to do with both sides of the layer. */
static size_t of_conv(const struct layer *l, bool data_gradient,
                      bool everywhere)
{
    const size_t sides =
        (l->plain ? 0 : shape_count(l->in)) + shape_count(l->out);
    size_t count = 0;
    for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++)
        if ((pass != CONV_BACKWARD_DATA || data_gradient)
            && (everywhere
                || l->option.window.methods[l->plain][pass] == &conv_gemm))
            count += sides;
    return count;
}

/* x forward and again backward, and dx. */
static size_t of_dense(const struct layer *l, bool data_gradient)
{
    return shape_plane(l->in) == 1
               ? 0
               : (data_gradient ? 3 : 2) * shape_count(l->in);
}

size_t layer_reorders(const struct layer *l, bool data_gradient,
                      bool everywhere)
{
    if (l->ops == &layer_conv)
        return of_conv(l, data_gradient, everywhere);
    return l->ops == &layer_dense ? of_dense(l, data_gradient) : 0;
}
