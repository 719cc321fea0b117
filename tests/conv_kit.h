/* SPDX-License-Identifier: MIT */
/* What conv_test.c and conv_parts.c have in common: the ways and the
 * instruction sets, the definition of a convolution, and what is right. */
#ifndef TESTS_CONV_KIT_H
#define TESTS_CONV_KIT_H

#include "kernels/conv_size.h"
#include "kernels/conv_tile.h"
#include "shapes.h"

enum {
#define ISA(name) CONV_IS_##name,
#include "kernels/isas.def"
#undef ISA
    NISAS,
#ifdef CONV_AMX_STAND_IN
    NMETHODS = 1
#else
    NMETHODS = 4
#endif
};
extern const char *const isas[NISAS];
extern const struct conv_method *const methods[NMETHODS];
extern const char *only; /* of the instruction sets, or NULL: all */

/* Sets this one, where the processor has it and it is to be tried. */
bool here(int isa);

/* All three passes at once; each product counts for what it goes into. */
void reference(const struct conv *, const float *x, const float *w,
               const float *bias, const float *dy, float *y, float *dx,
               float *dw);

void equal(const float *found, const float *wanted, size_t count,
           const char *isa, const char *what, const char *shape);

/* Within a part of the largest: constants of Winograd's are none of float. */
void near(const float *found, const float *wanted, size_t count,
          const char *isa, const char *what, int c, int k);

/* Lanes beyond the channels are zero, and so stay they. */
void lanes_are_zero(const float *blocked, int n, int c, size_t plane,
                    const char *shape);

/* Exactly as much as is asked for, so that sanitizers see what lies beyond.
 * free() it, as below. */
float *scratch_of(const struct conv_method *, const struct conv *,
                  enum conv_pass);

/* From -1 to 1. */
float *uniform(size_t count, uint64_t seed);

#endif
