/* SPDX-License-Identifier: MIT */
/* 16 channels of an element, and as they lie in memory. */
#ifndef TRAINER_KERNELS_CONV_WINOGRAD_BLOCK_H
#define TRAINER_KERNELS_CONV_WINOGRAD_BLOCK_H

#define INLINE static inline __attribute__((always_inline))

typedef float block __attribute__((vector_size(64)));
typedef float loose __attribute__((vector_size(64), aligned(4), may_alias));

#endif
