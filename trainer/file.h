/* SPDX-License-Identifier: MIT */
/* Files that appear whole or not at all: written under another name in the
 * same folder, flushed to the disk, then renamed. */
#ifndef TRAINER_FILE_H
#define TRAINER_FILE_H

#include <limits.h>
#include <stddef.h>
#include <stdio.h>

struct new_file {
    FILE *stream; /* write here; errors are noticed by file_commit() */
    char path[PATH_MAX], temporary[PATH_MAX];
};

/* Both return 0, or -1 with one line in error that names the file; then
 * whatever was at path before is still there, untouched. */
int file_begin(struct new_file *, const char *path, char *error,
               size_t error_bytes);
int file_commit(struct new_file *, char *error, size_t error_bytes);
/* Gives up instead of file_commit(). */
void file_drop(struct new_file *);
/* Whether file_begin() and file_commit() would succeed now, before time is
 * spent on what is to be written: 0, or -1 with one line in error. */
int file_possible(const char *path, char *error, size_t error_bytes);

/* Reads a small text file whole. The caller frees; NULL with error set. */
char *file_text(const char *path, size_t max_bytes, char *error,
                size_t error_bytes);

#endif
