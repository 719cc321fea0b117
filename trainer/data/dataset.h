/* SPDX-License-Identifier: MIT */
/* Images with labels; one row of datasets.def each. */
#ifndef TRAINER_DATA_DATASET_H
#define TRAINER_DATA_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "tensor.h"

enum dataset_part { DATASET_TRAIN, DATASET_TEST };

struct dataset {
    const struct dataset_ops *ops;
    struct shape image; /* n is 1 */
    size_t count;
    int nclasses;
    void *own;
};

struct dataset_ops {
    const char *name;  /* "fashion-mnist" */
    const char *where; /* default folder, NULL if a path is needed or none */
    /* Opens one part. On failure -1 and one line in error that names the file,
     * the field, what was found and what is valid. */
    int (*open)(struct dataset *, const char *where, enum dataset_part,
                char *error, size_t error_bytes);
    /* image gets c*h*w floats, normalised; index < count. Thread-safe. */
    void (*read)(const struct dataset *, size_t index, float *image,
                 int *label);
    /* As read(), but of the image changed by chance as is usual in training,
     * such as mirrored: a function of index and seed. NULL: knows no such. */
    void (*read_augmented)(const struct dataset *, size_t index, uint64_t seed,
                           float *image, int *label);
    void (*close)(struct dataset *);
};

extern const struct dataset_ops *const datasets[];
extern const int ndatasets;

/* name is "fashion-mnist" or "fashion-mnist:/path". -1 with error as above,
 * also for unknown names (with the valid ones and the nearest). */
int dataset_open(struct dataset *, const char *name, enum dataset_part,
                 char *error, size_t error_bytes);
void dataset_close(struct dataset *);

#endif
