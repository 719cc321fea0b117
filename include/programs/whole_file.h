/* SPDX-License-Identifier: MIT */
/* A program's output file that appears whole or not at all: written under
 * another name in the same folder, flushed to the disk, then renamed. */
#ifndef PROGRAMS_WHOLE_FILE_H
#define PROGRAMS_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct whole_file {
    FILE *stream;     /* write here; errors are noticed at the end */
    const char *path; /* the caller's */
    char *temporary;
};

/* False: it cannot be, and error has one line without newline, "PATH: cannot be
 * written: why"; there is nothing to end. */
bool whole_file_begin(struct whole_file *, const char *path, char *error,
                      size_t error_bytes);

/* ok false: gives it up, errno says why. True if the file is now at its path;
 * else what was there before still is, and error says why. */
bool whole_file_end(struct whole_file *, bool ok, char *error,
                    size_t error_bytes);

#endif
