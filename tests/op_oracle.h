/* SPDX-License-Identifier: MIT */
/* What the kernels must give. The oracle knows the formats by their definition,
 * computes in 128 bits, and rounds by searching for the nearest code: nothing
 * in common with the code under test. A code is the bits of one element. */
#ifndef TESTS_OP_ORACLE_H
#define TESTS_OP_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/types.h"

bool oracle_is_float(coll_dtype);
bool oracle_is_narrow(coll_dtype); /* a float, but not f32 or f64 */

/* Element i of a vector. */
uint64_t oracle_load(coll_dtype, const void *x, size_t i);
void oracle_store(coll_dtype, void *x, size_t i, uint64_t code);

double oracle_decode(coll_dtype, uint64_t code); /* of a float */
uint64_t oracle_largest(coll_dtype); /* finite code of a narrow float */
bool oracle_same(coll_dtype, uint64_t x, uint64_t y); /* all NaNs are */

/* x op y; all of x[0] to x[nsrc - 1] in pairs, in f32 but for f64, rounded once;
 * code / nranks. */
uint64_t oracle_pair(coll_dtype, coll_op, uint64_t x, uint64_t y);
uint64_t oracle_fold(coll_dtype, coll_op, const uint64_t *x, int nsrc,
                     int divisor);
uint64_t oracle_divided(coll_dtype, uint64_t code, int nranks);

#endif
