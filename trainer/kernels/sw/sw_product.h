/* SPDX-License-Identifier: MIT */
/* A product of matrices in memory, block by block on the mesh. */
#ifndef TRAINER_KERNELS_SW_SW_PRODUCT_H
#define TRAINER_KERNELS_SW_SW_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/sw/sw_port.h"

/* c (n rows of m) = w (n rows of k) a (k rows of m), or added to c. n and k
 * are multiples of 8, m is one of 32. */
struct sw_product {
    const float *w, *a;
    float *c;
    int n, k, m;
    bool adds;
};
const char *sw_product(struct sw_machine *, const struct sw_product *);

/* What it moves by DMA. */
size_t sw_product_get_bytes(const struct sw_product *);
size_t sw_product_put_bytes(const struct sw_product *);

/* And what it sends. */
size_t sw_product_row_messages(const struct sw_product *);
size_t sw_product_column_messages(const struct sw_product *);

#endif
