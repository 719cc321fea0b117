/* SPDX-License-Identifier: MIT */
/* A training run in one file: the net's text, where training is, parameters
 * and the optimiser's state, and what the net keeps without learning it.
 *
 *     0     "COLLCKPT"
 *     8     u32 version, u32 0x01020304 in the writer's byte order
 *     16    u64 bytes of the text, u64 bytes of struct checkpoint_state,
 *           u64 parameters, u64 floats of optimiser state, u64 floats of what
 *           is kept, u64 bytes in all
 *     64    u32 ranks that have floats of their own (0: what is above is all
 *           ranks'), u32 CRC-32 (zlib's) of the file with this field zero and
 *           without the ranks' floats
 *     72    text, struct checkpoint_state, parameters, optimiser state, kept
 *     ...   the floats of rank 0, 1, ...
 *     ...   of each: u64 how many, u32 their CRC-32, u32 0
 *
 * So a rank reads what it needs of a file, and all together check all of it.
 * Version 3 is the same without ranks' floats.
 */
#ifndef TRAINER_NET_CHECKPOINT_H
#define TRAINER_NET_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "programs/whole_file.h"

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
    uint32_t nranks; /* that have floats of their own; 0: none has */
    float *own;      /* set by reading: those of a rank, nown of them */
    size_t nown;
    uint32_t crc; /* set by reading: names the content */
    void *block;  /* of a checkpoint read: frees the above */
};

/* A file under way, which appears whole or not at all. Ranks' floats are added
 * in rank order, counts[rank] in all, a part at a time; counts is not kept.
 * begin and commit return -1 with one line in error, after which nothing is
 * left; else commit or drop ends it. */
struct checkpoint_file {
    struct whole_file file;
    struct checkpoint_rank *ranks;
    uint32_t nranks, crc;
};
int checkpoint_begin(struct checkpoint_file *, const char *path,
                     const struct checkpoint *, const uint64_t *counts,
                     char *error, size_t error_bytes);
void checkpoint_add(struct checkpoint_file *, int rank, const float *x,
                    size_t count);
int checkpoint_commit(struct checkpoint_file *, char *error,
                      size_t error_bytes);
void checkpoint_drop(struct checkpoint_file *);

/* Reads and checks what rank `rank` needs, or, if that is -1, all but ranks'
 * floats; own is NULL where the file has none of this rank. -1 with one line in
 * error that names file, offset, what was found and what is valid. Never takes
 * more memory than the file is long. */
int checkpoint_read(struct checkpoint *, const char *path, int rank,
                    char *error, size_t error_bytes);
void checkpoint_free(struct checkpoint *); /* of one that was read */

#endif
