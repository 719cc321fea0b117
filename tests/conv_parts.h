/* SPDX-License-Identifier: MIT */
/* That parts of a convolution, images or shares of its outputs, are worked out
 * as all of it is, and outputs of bf16 as those that are rounded later. */
#ifndef TESTS_CONV_PARTS_H
#define TESTS_CONV_PARTS_H

#include <stdint.h>

#include "kernels/conv.h"

/* Of this shape, where the processor can. */
void halves_come_to_the_same(struct conv, uint64_t seed);

void no_image_depends_on_another(void);
void shares_have_the_same_bits(void);
void no_part_needs_more_scratch(void);

#endif
