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
    /* Files that the images lie in, if it is several of them a file, one behind
     * the other: the first image of each. Else 0. */
    size_t nstripes;
    const size_t *stripes;
    void *own;
};

struct dataset_ops {
    const char *name;  /* "fashion-mnist" */
    const char *where; /* default folder, NULL if a path is needed or none */
    /* Opens one part; image is what the net takes, which is up to the set only
     * where images have no size of their own. On failure -1 and one line in
     * error that names the file, the field, what was found and what is valid;
     * 1, likewise, if only the part is not there. */
    int (*open)(struct dataset *, const char *where, enum dataset_part,
                char *error, size_t error_bytes);
    /* image gets c*h*w floats, normalised; index < count. 0, or -1 with one
     * line in error if the image turns out to be damaged. Thread-safe. */
    int (*read)(const struct dataset *, size_t index, float *image, int *label,
                char *error, size_t error_bytes);
    /* As read(), but of the image changed by chance as is usual in training,
     * such as mirrored: a function of index and seed. NULL: knows no such. */
    int (*read_augmented)(const struct dataset *, size_t index, uint64_t seed,
                          float *image, int *label, char *error,
                          size_t error_bytes);
    void (*close)(struct dataset *);
};

extern const struct dataset_ops *const datasets[];
extern const int ndatasets;

/* name is "fashion-mnist" or "fashion-mnist:/path"; wanted is what the net
 * takes, of which n is ignored. -1 or 1 with error as above, -1 also for
 * unknown names (with the valid ones and the nearest). */
int dataset_open(struct dataset *, const char *name, enum dataset_part,
                 struct shape wanted, char *error, size_t error_bytes);
void dataset_close(struct dataset *);

#endif
