/* SPDX-License-Identifier: MIT */
/* The functions that run on CPEs, of sw_kernels.def. */
#ifndef TRAINER_KERNELS_SW_SW_KERNELS_H
#define TRAINER_KERNELS_SW_SW_KERNELS_H

#include "kernels/sw/sw_port.h"

#define SW_KERNEL(name) void name(struct sw_cpe *, const void *argument);
#include "kernels/sw/sw_kernels.def"
#undef SW_KERNEL

#endif
