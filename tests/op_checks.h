/* SPDX-License-Identifier: MIT */
/* Claims about libcoll/op, apart from Criterion so that the runner for other
 * CPUs can use them too. Each prints the first case that contradicts it. */
#ifndef TESTS_OP_CHECKS_H
#define TESTS_OP_CHECKS_H

#include <stdbool.h>

/* Every kernel this CPU can run equals the scalar one bit for bit: any length,
 * alignment, number of sources and destinations, in place, streaming or not.
 * It writes nothing but the result. */
bool kernels_equal_scalar(void);

/* The scalar ones equal a fold in wider types, rounded to f32 at each source
 * and to the narrow floats once. */
bool scalar_equals_oracle(void);

/* Every dtype with every op, on every instruction set, equals arithmetic in
 * wider types on the edges of the dtype. */
bool pairs_equal_oracle(void);

/* op_copy() equals memmove() to each destination. */
bool copies_reach_every_destination(void);

/* An average divides like the oracle, integers towards zero. */
bool finish_equals_oracle(void);

/* All codes of the narrow floats widen exactly and come back. */
bool codes_survive_a_round_trip(void);

/* The middle of two neighbours goes to the even one, its neighbours apart. */
bool midpoints_round_to_even(void);

#endif
