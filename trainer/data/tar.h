/* SPDX-License-Identifier: MIT */
/* The files of a tar archive (POSIX's ustar and pax, GNU's), plain or gzip, one
 * after another. */
#ifndef TRAINER_DATA_TAR_H
#define TRAINER_DATA_TAR_H

#include "data/reader.h"

enum { TAR_PATH = 1024 };

struct tar_file {
    char path[TAR_PATH]; /* as archived, without control characters */
    uint64_t bytes, left;
};

/* Goes to the next regular file, past what was not taken of the one before,
 * whose struct must be passed again; it starts as zeros. 1: there is one,
 * 0: the archive ends here, all that was read of it is undamaged; -1 with error
 * set. */
int tar_next(struct reader *, struct tar_file *);

/* Reads the next bytes of the file, of which there must be as many left. */
int tar_take(struct reader *, struct tar_file *, void *to, uint64_t bytes);

/* The path without its folders. */
const char *tar_base(const struct tar_file *);

#endif
