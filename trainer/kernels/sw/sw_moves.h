/* SPDX-License-Identifier: MIT */
/* What kernels say often: floats that come or go, and are waited for. */
#ifndef TRAINER_KERNELS_SW_SW_MOVES_H
#define TRAINER_KERNELS_SW_SW_MOVES_H

#include "kernels/sw/sw_port.h"

/* 0 to 63: which of the CPEs, row by row. */
int sw_number(const struct sw_cpe *);

/* So many floats side by side; and rows of them, whose starts are `apart`. */
struct sw_stretch sw_run(size_t floats);
struct sw_stretch sw_rows(size_t rows, size_t columns, size_t apart);

/* A transfer, from its start to its end. None if there are no floats. */
void sw_bring(struct sw_cpe *, float *ldm, const float *memory, size_t floats);
void sw_take(struct sw_cpe *, const float *ldm, float *memory, size_t floats);
void sw_bring_rows(struct sw_cpe *, void *ldm, const float *memory,
                   struct sw_stretch);
void sw_take_rows(struct sw_cpe *, const void *ldm, float *memory,
                  struct sw_stretch);

#endif
