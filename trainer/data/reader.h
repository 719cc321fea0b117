/* SPDX-License-Identifier: MIT */
/* A file of a data set, plain or gzip, read from its start to its end.
 *
 * Nothing is believed before it is checked: a file can claim any size, so
 * whoever takes memory compares with capacity first. Offsets count unpacked
 * bytes. Every function that returns int returns 0, or -1 with one line in
 * error that names the file.
 */
#ifndef TRAINER_DATA_READER_H
#define TRAINER_DATA_READER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

struct reader {
    const char *path;
    const char *valid;   /* what the file should be: "an IDX file" */
    const char *missing; /* what to do where there is no such file, or NULL */
    char *error;
    size_t error_bytes;
    bool jumps; /* much of a plain file will be skipped */

    gzFile file;
    bool packed;
    uint64_t offset, capacity; /* capacity: unpacked bytes it can have */
};

/* FOLDER/NAME.gz, or FOLDER/NAME if only that exists. */
void reader_find(char path[PATH_MAX], const char *folder, const char *name);

/* The members up to error_bytes are set before. After a failure, too, the
 * reader may be closed. */
int reader_open(struct reader *);
void reader_close(struct reader *);

/* Reads exactly so many bytes; `what` they are is part of the error. */
int reader_take(struct reader *, void *to, uint64_t bytes, const char *what);

/* Passes over so many bytes; of a plain file they are not read. */
int reader_skip(struct reader *, uint64_t bytes, const char *what);

/* The file must end here. This also makes zlib check gzip's own checksum. */
int reader_expect_end(struct reader *);

/* Sets error and returns -1. */
__attribute__((format(printf, 2, 3))) int
reader_refuse(const struct reader *, const char *format, ...);

#endif
