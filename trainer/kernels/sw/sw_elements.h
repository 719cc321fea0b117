/* SPDX-License-Identifier: MIT */
/* Element by element: blocks of 4096 numbers are dealt to the CPEs, three of
 * which, at 16 KB each, are in the LDM at a time. */
#ifndef TRAINER_KERNELS_SW_SW_ELEMENTS_H
#define TRAINER_KERNELS_SW_SW_ELEMENTS_H

#include <stddef.h>

#include "kernels/sw/sw_port.h"

enum sw_element_op {
    SW_ADD,           /* to = a + b */
    SW_SUBTRACT,      /* a - b */
    SW_MULTIPLY,      /* a b */
    SW_DIVIDE,        /* a / b */
    SW_SQUARE,        /* a a */
    SW_ROOT,          /* of a */
    SW_SCALE,         /* by * a */
    SW_SCALE_AND_ADD, /* by * a + b */
    SW_COPY,          /* a */
    SW_RELU,          /* the larger of a and 0 */
    SW_RELU_BACKWARD, /* a where b > 0, else 0 */
    SW_ELEMENT_OPS
};

/* b is read by those that name it; to may be a or b. */
struct sw_elements {
    enum sw_element_op op;
    const float *a, *b;
    float *to, by;
    size_t count;
};
const char *sw_elements(struct sw_machine *, const struct sw_elements *);

/* Between float and double in memory. */
const char *sw_to_double(struct sw_machine *, const float *, double *,
                         size_t count);
const char *sw_to_float(struct sw_machine *, const double *, float *,
                        size_t count);

#endif
