/* SPDX-License-Identifier: MIT */
/* Files for tests, good and damaged, in a folder of their own. */
#ifndef TESTS_FOLDER_H
#define TESTS_FOLDER_H

#include <stddef.h>
#include <stdint.h>

struct folder {
    char path[64], name[80]; /* name: "mnist:PATH" */
};

/* An empty one; its name begins with the kind of data set. */
void folder_make(struct folder *, const char *dataset);
/* Removes these files, up to NULL, as far as they exist; no other may be left.
 */
void folder_clean(const struct folder *, ...);
/* A path; valid until the next call. */
const char *file_in(const struct folder *, const char *name);

void put(const char *path, const void *bytes, size_t count);
void put_gzip(const char *path, const void *bytes, size_t count);
/* How many there were, up to so many. */
size_t get(const char *path, unsigned char *bytes, size_t room);

/* Changes a few bytes, or cuts; deterministic in seed. How many are left. */
size_t mutate(unsigned char *bytes, size_t count, uint64_t seed);

enum { MUTATIONS = 10000 };

/* Of opening a data set: not 0 and one line, of 512 bytes at most, if it
 * fails. */
int open_error(const char *name, char *error);
/* Opening fails with one line that says each of the words, up to NULL. */
void expect_error(const char *name, ...);

#endif
