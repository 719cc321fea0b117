/* SPDX-License-Identifier: MIT */
/* Tensors that are (image, channel, place), one behind the other in each image,
 * and taken apart again: concat of the trainer, and its way back. */
#ifndef TRAINER_KERNELS_SW_SW_CONCAT_H
#define TRAINER_KERNELS_SW_SW_CONCAT_H

#include "kernels/sw/sw_port.h"

struct sw_part {
    float *x;
    int floats; /* of an image */
};

/* whole has the images of all parts side by side. */
const char *sw_concat(struct sw_machine *, int n, const struct sw_part *,
                      int nparts, float *whole);

/* The parts are written, but those that are NULL. */
const char *sw_split(struct sw_machine *, int n, const float *whole,
                     const struct sw_part *, int nparts);

#endif
