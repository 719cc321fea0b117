/* SPDX-License-Identifier: MIT */
/* --kernel: which of the ways to convolve nets take. */
#ifndef TRAINER_KERNEL_CHOICE_H
#define TRAINER_KERNEL_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/coll.h"

/* "auto": by rule. "measured": each layer's passes are timed once on a machine,
 * and what was the fastest is kept in ~/.cache/libcoll (or
 * $XDG_CACHE_HOME/libcoll), in a file for each kind of machine and instruction
 * set, for later runs. "gemm", "direct",
 * "winograd", "strassen": that, where it can. For nets that are created afterwards, whose
 * images are shared out over so many threads, and what conv_allow_bf16() has
 * set: with it "direct" is conv_bf16, and the other three are not valid. Not
 * thread-safe. -1 with what is valid in error for other names. */
int kernel_choose(const char *name, int nthreads, char *error,
                  size_t error_bytes);

/* Lets all ranks take what rank 0 has measured, so that all do the same and
 * their results fit together, and nobody measures while others compute. To be
 * called by all before they create the net, and by all after; does nothing
 * where nothing is measured. Fails as coll_broadcast() does. */
coll_status kernel_agree(coll_comm *, bool has_net);

#endif
