/* SPDX-License-Identifier: MIT */
/* A net's parameters as a safetensors file, which other frameworks read:
 * u64 length of the header, a JSON header, the numbers, all little-endian
 * (https://github.com/huggingface/safetensors).
 *
 * Tensors are called "NAME.weight" and ".bias" with the layer's name, or
 * without one "NUMBER.KIND.weight" with the number counted from 0 over all
 * layers; a convolution's weight is (out, in, rows, columns), a dense layer's
 * (out, in). Batch normalisation has ".running_mean" and ".running_var"
 * besides. */
#ifndef TRAINER_NET_SAFETENSORS_H
#define TRAINER_NET_SAFETENSORS_H

#include <stdint.h>

#include "net/net.h"

/* Writes path whole or not at all. -1 with one line in error. */
int safetensors_write(const char *path, const struct net *, uint64_t step,
                      char *error, size_t error_bytes);

#endif
