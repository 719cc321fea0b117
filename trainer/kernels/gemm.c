/* SPDX-License-Identifier: MIT */
#include "kernels/gemm.h"

#include <assert.h>
#include <cblas.h>

void gemm(struct matrix a, struct matrix b, float beta, float *c, int stride)
{
    const int m = a.transposed ? a.columns : a.rows;
    const int k = a.transposed ? a.rows : a.columns;
    const int n = b.transposed ? b.rows : b.columns;
    assert(k == (b.transposed ? b.columns : b.rows));
    if (m && n)
        cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
                    b.transposed ? CblasTrans : CblasNoTrans, m, n, k, 1, a.x,
                    a.stride ? a.stride : a.columns, b.x,
                    b.stride ? b.stride : b.columns, beta, c, stride);
}

void gemm_alone(void)
{
    openblas_set_num_threads(1);
}
