/* SPDX-License-Identifier: MIT */
/* Brings the images of each step, in place or ahead of time.
 *
 * Ahead, a thread reads the batch of the next step while this one trains, into
 * a second buffer, so that a step takes the longer of both and not their sum
 * (swCaffe's I/O thread, Fang et al., CLUSTER 2018). Images and their order are the
 * same: a batch is a function of the step. Where reading is cheap it would only
 * take time from those who compute, so the first steps are measured.
 */
#ifndef TRAINER_LOADER_H
#define TRAINER_LOADER_H

#include <pthread.h>
#include <stdbool.h>

#include "breakdown.h"
#include "data/dataset.h"
#include "data/sampler.h"

enum prefetch {
    PREFETCH_AUTO, /* ahead if it hides more than a 20th of a step */
    PREFETCH_ON,
    PREFETCH_OFF
};

struct loader_settings {
    const struct dataset *data;
    uint64_t seed;
    bool augment; /* change images by chance: read_augmented() */
    enum shuffle shuffle;
    int rank, nranks, batch;
    long epoch_steps, nsteps; /* the last step is nsteps - 1 */
    enum prefetch prefetch;
    struct breakdown *time; /* PART_READ, or PART_DATA while it waits */
};

/* Of this rank; count may be below the batch, or 0. */
struct batch {
    float *images;
    int *labels;
    int count, global_count;
    size_t first;    /* place of images[0] in the global batch */
    char error[512]; /* why an image could not be read, or "" */
};

/* What the first steps of a run took, in seconds. */
enum { LOADER_TRIALS = 8 };
struct loader_trial {
    int steps;
    double before; /* the last batch was asked for */
    double step[LOADER_TRIALS], read[LOADER_TRIALS], idle[LOADER_TRIALS];
};

struct loader {
    struct loader_settings settings;
    struct sampler sampler; /* whoever reads has it */
    struct batch batches[2];
    int current;  /* the batch that was taken last */
    bool ahead;   /* the thread reads */
    bool started; /* there is a thread; it sleeps until asked */
    bool spare;   /* there is a core for it; the owner says so */
    struct loader_trial trial;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    long asked, done; /* steps of the thread; equal: it has nothing to do */
    bool over;
};

/* Before the calling thread is bound, so that the loader's is not. 0, or -1: no
 * memory, or no thread. data must outlive it. */
int loader_open(struct loader *, const struct loader_settings *);
void loader_close(struct loader *); /* also of zeros, and after a failure */

/* The batch of a step, until the next call, or NULL: an image could not be read,
 * loader_error() says why. Steps may begin anywhere, but are read ahead one by
 * one. */
const struct batch *loader_take(struct loader *, long step);
const char *loader_error(const struct loader *);

#endif
