/* SPDX-License-Identifier: MIT */
/* Sums of quarters of matrices, compiled for each row of isas.def.
 *
 * A product C = A B of matrices that are cut into quarters takes 7 products of
 * quarters instead of 8 (V. Strassen, Gaussian elimination is not optimal,
 * 1969; here Winograd's form, with 15 sums):
 *
 *     S1 = A21 + A22   S2 = S1 - A11   S3 = A11 - A21   S4 = A12 - S2
 *     T1 = B12 - B11   T2 = B22 - T1   T3 = B22 - B12   T4 = B21 - T2
 *
 *     P1 = A11 B11     P2 = S2 T2      P3 = S1 T1       P4 = S3 T3
 *     U  = P1 + P2
 *     C11 = P1          + A12 B21
 *     C12 = U + P3      + S4 B22
 *     C21 = U      + P4 + A22 T4
 *     C22 = U + P3 + P4
 *
 * The last column is left to the kernels that multiply. Arrays have four
 * quarters, 11, 12, 21 and 22, or S1 to S4 and so on; they may be the same.
 */
#ifndef TRAINER_KERNELS_QUARTERS_H
#define TRAINER_KERNELS_QUARTERS_H

#include <stdbool.h>
#include <stddef.h>

enum { Q11, Q12, Q21, Q22, QUARTERS };

struct quarters_loops {
    /* Of n floats each, a multiple of 16. */
    void (*left)(const float *const a[QUARTERS], float *const s[QUARTERS],
                 size_t n);
    void (*right)(const float *const b[QUARTERS], float *const t[QUARTERS],
                  size_t n);
    /* C, but for its last column, plus 16 numbers for the upper quarters and 16
     * for the lower ones; NULL: plus what is there. C22, which is whole then,
     * ends as a conv_tile's y does: with a relu, and of a gate its part. */
    void (*meet)(const float *const p[QUARTERS], const float *const plus[2],
                 float *const c[QUARTERS], size_t positions, bool relu,
                 const float *gate);
};

#define ISA(name) extern const struct quarters_loops quarters_##name;
#include "kernels/isas.def"
#undef ISA

#endif
