/* SPDX-License-Identifier: MIT */
/* A product of matrices on the mesh, by register messages (SUMMA), as swDNN
 * has it (Fang et al., IPDPS 2017): in step k, 0 to 7, the CPEs of column k
 * broadcast their blocks of a along their rows, those of row k their blocks
 * of w along their columns, and every CPE (row, column) adds
 *
 *     c(row, column) += w(k, column) a(row, k)
 *
 * Messages go from registers into registers: no LDM holds a foreign block. A
 * tile of 4 rows of 4 registers of c is kept in 16 registers, so a block of
 * a passes once for every 4 rows of c, and one of w for every 16 columns.
 */
#ifndef TRAINER_KERNELS_SW_SW_GEMM_H
#define TRAINER_KERNELS_SW_SW_GEMM_H

#include "kernels/sw/sw_port.h"

/* Of the blocks: c has n rows of m, w has n rows of k, a has k rows of m.
 * m is a multiple of SW_LANES. */
struct sw_block {
    int m, n, k;
};

/* All 64 call it with the same sizes. */
void sw_mesh_gemm(struct sw_cpe *, struct sw_block, const double *a,
                  const double *w, double *c);

/* What one call sends, all CPEs together. */
size_t sw_mesh_gemm_row_messages(struct sw_block);
size_t sw_mesh_gemm_column_messages(struct sw_block);
size_t sw_mesh_gemm_instructions(struct sw_block);

/* floats in LDM that DMA brought to the upper half of so many doubles become
 * these doubles; and back, to the lower half. Data are float in memory and
 * double in the LDM, as in swCaffe's kernels. */
void sw_widen(double *, int count);
void sw_narrow(double *, int count);

/* Where DMA brings the floats to. */
void *sw_upper_half(double *, int count);

#endif
