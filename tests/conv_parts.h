/* SPDX-License-Identifier: MIT */
/* That parts of a convolution, images or shares of its outputs, are worked out
 * as all of it is. */
#ifndef TESTS_CONV_PARTS_H
#define TESTS_CONV_PARTS_H

void no_image_depends_on_another(void);
void shares_have_the_same_bits(void);
void no_part_needs_more_scratch(void);

#endif
