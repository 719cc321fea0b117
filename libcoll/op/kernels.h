/* SPDX-License-Identifier: MIT */
/* What the kernel files define, declared from the table op/kernels.def. */
#ifndef OP_KERNELS_H
#define OP_KERNELS_H

#include "op/op.h"

#define KERNEL(isa, dtype, op, function) reduce_fn function##_##isa;
#include "op/kernels.def"
#undef KERNEL

/* Whether this CPU, and its operating system, can run the kernels. */
bool has_avx512(void);
bool has_avx2(void);
bool has_neon(void);
bool has_scalar(void);

#endif
