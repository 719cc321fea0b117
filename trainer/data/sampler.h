/* SPDX-License-Identifier: MIT */
/* Which images a rank takes in a step, in global batches of nranks * batch
 * images; an epoch is as many as there are, each once but for SHUFFLE_DRAW. The
 * last batch of an epoch may be short, shorter on some ranks than on others, or
 * empty there.
 *
 * SHUFFLE_ALL: one seeded permutation of all images per epoch; rank r takes the
 * r-th contiguous part of each global batch. So k ranks with batch b see
 * exactly the images of one rank with batch k * b.
 *
 * SHUFFLE_DRAW: likewise, but each place of the permutation is drawn from all
 * images (You, Buluc, Demmel, SC17, draw b at random for every iteration): an
 * epoch is as many, of which some come again and about 1 / e never.
 *
 * SHUFFLE_STRIPES, for images in files that lie apart, as on the disk arrays of
 * swCaffe (Fang et al., CLUSTER 2018): each rank has a part of the images as they
 * lie, and its batches are runs of that,
 *
 *     files   |     0     |     1     |     2     |     3     |
 *     ranks    2 |        0        |        1        |     2      from epoch
 *     runs        1 | 3 | 0 | 2 |...                              to epoch
 *
 * so a batch touches two files at most that are no shorter than it. All parts
 * begin as far from each other, and all ranks take their runs in the same
 * order, so in a step at most 2 nranks / files, rounded up, touch one file, if
 * all are as long. Where the parts begin and the order of runs is drawn anew
 * for each epoch. What lies together is learnt together: files should be
 * shuffled.
 */
#ifndef TRAINER_DATA_SAMPLER_H
#define TRAINER_DATA_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

enum shuffle { SHUFFLE_ALL, SHUFFLE_STRIPES, SHUFFLE_DRAW };

struct sampler {
    enum shuffle shuffle;
    uint32_t *order; /* of this epoch: all to be dealt, or the parts in turn */
    uint32_t *runs;  /* SHUFFLE_STRIPES: in which order whole batches come */
    size_t count;    /* images; below 2^32 */
    uint64_t seed;
    long epoch;   /* -1: order is not made yet */
    size_t nruns; /* that runs is made for */
};

struct share {
    const uint32_t *images; /* valid until the next call */
    int count;              /* may be 0 */
    int global_count;       /* of all ranks */
    size_t first;           /* place of images[0] in the global batch */
};

int sampler_create(struct sampler *, size_t count, uint64_t seed,
                   enum shuffle); /* or -1 */
void sampler_free(struct sampler *);

/* Global batches in one epoch of `count` images. */
long sampler_steps(size_t count, long global_batch);

/* The share of `rank` in step `step` of epoch `epoch`. A pure function of its
 * arguments and the sampler's seed, count and way to shuffle. */
struct share sampler_share(struct sampler *, long epoch, long step, int rank,
                           int nranks, int batch);

#endif
