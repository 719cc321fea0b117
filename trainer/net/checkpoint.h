/* SPDX-License-Identifier: MIT */
/* A training run in one file: the net's text, where training is, parameters
 * and the optimiser's state, and what the net keeps without learning it.
 *
 *     0     "COLLCKPT"
 *     8     u32 version, u32 0x01020304 in the writer's byte order
 *     16    u64 bytes of the text, u64 bytes of struct checkpoint_state,
 *           u64 parameters, u64 floats of optimiser state, u64 floats of what
 *           is kept, u64 bytes in all
 *     64    u32 0, u32 CRC-32 (zlib's) of the file with this field zero
 *     72    text, struct checkpoint_state, parameters, optimiser state, kept
 */
#ifndef TRAINER_NET_CHECKPOINT_H
#define TRAINER_NET_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

/* Every member is 8 bytes or a multiple, so that the layout has no holes. */
struct checkpoint_state {
    uint64_t step, epoch;  /* steps done; epoch the next one is in */
    uint64_t seed, images; /* images in the training set */
    uint64_t global_batch, nranks;
    uint64_t every, warmup, total;
    double lr, gamma, momentum, weight_decay;
    double average; /* above 0: optim ends in the mean of the parameters */
    char schedule[16], optimiser[16], strategy[32], data[128];
};

struct checkpoint {
    struct checkpoint_state state;
    char *text;                   /* of the net */
    float *params, *optim, *kept; /* kept: net.state */
    size_t nparams, noptim, nkept;
    uint32_t crc; /* set by reading: names the content */
    void *own;    /* of a checkpoint read: frees the above */
};

/* Writes path whole or not at all. -1 with one line in error. */
int checkpoint_write(const char *path, const struct checkpoint *, char *error,
                     size_t error_bytes);

/* Reads and checks everything: -1 with one line in error that names file,
 * offset, what was found and what is valid. Never takes more memory than the
 * file is long. */
int checkpoint_read(struct checkpoint *, const char *path, char *error,
                    size_t error_bytes);
void checkpoint_free(struct checkpoint *); /* of one that was read */

#endif
