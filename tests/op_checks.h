/* SPDX-License-Identifier: MIT */
/* Claims about libcoll/op, apart from Criterion so that the runner for other
 * CPUs can use them too. Each prints the first case that contradicts it. */
#ifndef TESTS_OP_CHECKS_H
#define TESTS_OP_CHECKS_H

#include <stdbool.h>

/* Every kernel this CPU can run equals the scalar one on any length and
 * alignment, in place too, and writes nothing outside the result. */
bool kernels_equal_scalar(void);

/* Every dtype with every op equals arithmetic in wider types. */
bool scalar_equals_oracle(void);

/* An average divides like the oracle, integers towards zero. */
bool finish_equals_oracle(void);

/* All codes of the narrow floats widen exactly and come back. */
bool codes_survive_a_round_trip(void);

/* The middle of two neighbours goes to the even one, its neighbours apart. */
bool midpoints_round_to_even(void);

#endif
