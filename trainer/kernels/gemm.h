/* SPDX-License-Identifier: MIT */
/* Products of matrices stored by rows, done by OpenBLAS. */
#ifndef TRAINER_KERNELS_GEMM_H
#define TRAINER_KERNELS_GEMM_H

#include <stdbool.h>

/* rows and columns as stored; a transposed one is read the other way. */
struct matrix {
    const float *x;
    int rows, columns;
    bool transposed;
    int stride; /* floats to the next row; 0: columns */
};

/* c = a b + beta c, with rows of c so many floats apart. beta is 0 (then c
 * need not be set) or 1. */
void gemm(struct matrix a, struct matrix b, float beta, float *c, int stride);

/* From now on each product takes the thread that asks for it and no other:
 * ranks share machines, threads of a crew do products side by side, and one
 * thread gives the same bits always. For the whole process; not thread-safe. */
void gemm_alone(void);

/* For what processor OpenBLAS has chosen its kernels, in its words; and their
 * instruction set in those of kernels/isas.def, "avx" or "sse" below them, NULL
 * if that is not known. */
const char *gemm_core(void);
const char *gemm_isa(void);

#endif
