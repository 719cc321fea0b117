/* SPDX-License-Identifier: MIT */
/* What the cores could do at best. */
#ifndef TRAINER_BENCH_PEAK_H
#define TRAINER_BENCH_PEAK_H

#include "bench/command_line.h"
#include "crew.h"

/* flops a second of multiply-adds in registers, of all threads together, with
 * an instruction set of kernels/isas.def that this machine has, of floats or of
 * bf16. Measured when first asked for, for 0.1 s or --seconds if that is less;
 * later calls are for the same threads. Not thread-safe. */
double peak_flops(const char *isa, bool bf16, const struct bench_options *,
                  struct crew *);

/* What --dtype allows at best. */
double peak_of_dtype(const struct bench_options *, struct crew *);

#endif
