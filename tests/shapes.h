/* SPDX-License-Identifier: MIT */
/* Shapes of convolutions: images, channels, rows, columns, outputs, groups,
 * kernel, strides, padding and dilation; blocked, or of a plain input. */
#ifndef TESTS_SHAPES_H
#define TESTS_SHAPES_H

#include "kernels/conv.h"

#define SHAPE(N, C, H, W, K, G, KH, KW, SH, SW, PH, PW, DH, DW)                \
    {                                                                          \
        .n = N, .c = C, .h = H, .w = W, .k = K, .groups = G, .kernel_h = KH,   \
        .kernel_w = KW, .stride_h = SH, .stride_w = SW, .pad_h = PH,           \
        .pad_w = PW, .dilation_h = DH, .dilation_w = DW                        \
    }
#define PLAIN(N, C, H, W, K, G, KH, KW, SH, SW, PH, PW, DH, DW)                \
    {                                                                          \
        .n = N, .c = C, .h = H, .w = W, .k = K, .groups = G, .kernel_h = KH,   \
        .kernel_w = KW, .stride_h = SH, .stride_w = SW, .pad_h = PH,           \
        .pad_w = PW, .dilation_h = DH, .dilation_w = DW, .plain = true         \
    }

#endif
