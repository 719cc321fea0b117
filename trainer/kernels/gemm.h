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

/* c = a b + beta c, with rows of c so many floats apart. beta is 0 (then c need
 * not be set) or 1. */
void gemm(struct matrix a, struct matrix b, float beta, float *c, int stride);

/* Threads of all later products of this process. 0: one, unless the
 * environment has OPENBLAS_NUM_THREADS. A net asks for 0 when it is created:
 * ranks usually share the machine, and one thread gives the same bits always.
 */
void gemm_threads(int nthreads);

#endif
