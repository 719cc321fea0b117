/* SPDX-License-Identifier: MIT */
/* --kernel: which of the ways to convolve nets take. */
#ifndef TRAINER_KERNEL_CHOICE_H
#define TRAINER_KERNEL_CHOICE_H

#include <stddef.h>

/* "auto": by rule. "measured": each layer's passes are timed once on a machine,
 * and what was the fastest is kept in ~/.cache/libcoll/conv.txt (or
 * $XDG_CACHE_HOME/libcoll/conv.txt) for later runs. "gemm", "direct",
 * "winograd": that, where it can. For nets that are created afterwards; not
 * thread-safe. -1 with what is valid in error for other names. */
int kernel_choose(const char *name, char *error, size_t error_bytes);

#endif
