/* SPDX-License-Identifier: MIT */
/* Which images a rank takes in a step.
 *
 * One seeded permutation of all images per epoch, cut into global batches of
 * nranks * batch images; rank r takes the r-th contiguous part of each. So k
 * ranks with batch b see exactly the images of one rank with batch k * b, and
 * every image comes once per epoch. The last batch of an epoch may be short,
 * shorter on some ranks than on others, or empty there.
 */
#ifndef TRAINER_DATA_SAMPLER_H
#define TRAINER_DATA_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

struct sampler {
    uint32_t *order; /* the permutation of this epoch */
    size_t count;    /* images; below 2^32 */
    uint64_t seed;
    long epoch; /* -1: order is not made yet */
};

struct share {
    const uint32_t *images; /* valid until the next call */
    int count;              /* may be 0 */
    int global_count;       /* of all ranks */
    size_t first;           /* place of images[0] in the global batch */
};

int sampler_create(struct sampler *, size_t count, uint64_t seed); /* or -1 */
void sampler_free(struct sampler *);

/* Global batches in one epoch of `count` images. */
long sampler_steps(size_t count, long global_batch);

/* The share of `rank` in step `step` of epoch `epoch`. A pure function of its
 * arguments and the sampler's seed and count. */
struct share sampler_share(struct sampler *, long epoch, long step, int rank,
                           int nranks, int batch);

#endif
