/* SPDX-License-Identifier: MIT */
/* A program's output file that appears whole or not at all: written without a
 * name, or under another, in the same folder, flushed to the disk, then renamed.
 * What links lead to is replaced, not the link. A device, a pipe, or where the
 * program's own output goes is written in place. */
#ifndef PROGRAMS_WHOLE_FILE_H
#define PROGRAMS_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct whole_file {
    FILE *stream;           /* write here; errors are noticed at the end */
    const char *said;       /* the caller's */
    char *path, *temporary; /* NULL: in place */
    bool nameless;
};

/* False: it cannot be, and error has one line without newline, "PATH: cannot
 * write: why"; there is nothing to end. */
bool whole_file_begin(struct whole_file *, const char *path, char *error,
                      size_t error_bytes);

/* ok false: gives it up, errno says why. True if the file is now at its path;
 * else what was there before still is, and error says why. */
bool whole_file_end(struct whole_file *, bool ok, char *error,
                    size_t error_bytes);
void whole_file_drop(struct whole_file *); /* instead of the end */

/* Whether begin and end would succeed now, before time is spent on what is to
 * be written; error as for begin. */
bool whole_file_possible(const char *path, char *error, size_t error_bytes);

/* For what is to be seen while it is written: opens path in place, to go on
 * after what is there, or from nothing. NULL: errno says why. */
FILE *whole_file_watched(const char *path, bool go_on);
/* Likewise whether that would succeed; creates nothing. */
bool whole_file_watchable(const char *path, char *error, size_t error_bytes);

/* Whether both are, or would be, the same ordinary file. */
bool whole_file_same(const char *, const char *);

#endif
