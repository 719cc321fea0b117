/* SPDX-License-Identifier: MIT */
/* A net's parameters as a safetensors file, which other frameworks read:
 * u64 length of the header, a JSON header, the numbers, all little-endian
 * (https://github.com/huggingface/safetensors).
 *
 * Tensors are called "LAYER.NAME.weight" and ".bias" with LAYER counted from
 * 0 over all layers; a convolution's weight is (out, in, rows, columns), a
 * dense layer's (out, in). */
#ifndef TRAINER_NET_SAFETENSORS_H
#define TRAINER_NET_SAFETENSORS_H

#include <stdint.h>

#include "net/net.h"

/* Writes path whole or not at all. -1 with one line in error. */
int safetensors_write(const char *path, const struct net *, uint64_t step,
                      char *error, size_t error_bytes);

#endif
