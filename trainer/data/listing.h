/* SPDX-License-Identifier: MIT */
/* What lies in a folder, in the order of the names' bytes, which is the same on
 * all machines. */
#ifndef TRAINER_DATA_LISTING_H
#define TRAINER_DATA_LISTING_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct listing {
    char **names; /* but for those that begin with a dot */
    int count;
};

/* 0, or -1 with one line in error, also for a name with control characters,
 * which messages would show. A listing may be freed in either case. */
int listing_read(struct listing *, const char *folder, char *error,
                 size_t error_bytes);
void listing_free(struct listing *);
bool listing_has(const struct listing *, const char *name);

/* FOLDER/NAME; -1 with error if it is too long. */
int listing_path(char path[PATH_MAX], const char *folder, const char *name,
                 char *error, size_t error_bytes);

/* By how the name ends: .jpg, .jpeg, .png; .tar, .tar.gz, .tgz. */
bool listing_is_picture(const char *name);
bool listing_is_archive(const char *name);

#endif
