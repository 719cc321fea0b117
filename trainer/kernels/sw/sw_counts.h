/* SPDX-License-Identifier: MIT */
/* What was asked of a machine, by all CPEs together. */
#ifndef TRAINER_KERNELS_SW_SW_COUNTS_H
#define TRAINER_KERNELS_SW_SW_COUNTS_H

#include <stddef.h>

struct sw_counts {
    size_t get_bytes, put_bytes; /* of DMA */
    size_t transfers, blocks;    /* of DMA; a strided one has many blocks */
    size_t row_messages, column_messages; /* sent; a broadcast is one */
    size_t instructions;                  /* of arithmetic, on vectors */
    size_t covering; /* those of them that ran while a transfer was under way */
    size_t ldm_bytes; /* the most that a CPE had taken at a time */
    size_t spawns;
};

/* Of DMA, by formulas. */
struct sw_bytes {
    size_t get, put;
};

/* Sums, but of ldm_bytes the larger one. */
void sw_counts_add(struct sw_counts *sum, const struct sw_counts *one);

#endif
