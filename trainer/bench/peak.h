/* SPDX-License-Identifier: MIT */
/* What one core could do at best. */
#ifndef TRAINER_BENCH_PEAK_H
#define TRAINER_BENCH_PEAK_H

/* flops a second of multiply-adds in registers, with an instruction set of
 * kernels/isas.def that this machine has. Measured when first asked for, which
 * takes 0.1 s. Not thread-safe. */
double peak_flops(const char *isa);

#endif
