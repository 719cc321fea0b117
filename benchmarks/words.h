/* SPDX-License-Identifier: MIT */
/* The words on the command line that name collectives, algorithms and modes.
 * What is none of them ends the program with a sentence that says what is
 * valid. */
#ifndef WORDS_H
#define WORDS_H

#include "bench.h"
#include "programs/options.h"

/* Adds "|word" to a list, without the bar at first. */
enum { WORDS_BYTES = 1024 };
void words_add(char list[WORDS_BYTES], const char *word);

/* Adds all types, then those with another name in nccl-tests, which will do. */
void words_dtypes(char list[WORDS_BYTES]);
coll_dtype words_dtype(const char *name); /* of that list */

/* Fills o->collectives; operands are those of the program. */
void words_collective(const struct program *, struct bench_options *o,
                      int noperands, char **operands);

/* Checks o->algorithms, for the collectives that are to be measured. */
void words_algorithms(const struct program *, const struct bench_options *o);

/* Fills o->modes from o->determinism. */
void words_modes(const struct program *, struct bench_options *o);

#endif
