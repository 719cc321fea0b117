/* SPDX-License-Identifier: MIT */
/* The files in which the library keeps what it has learned, from outside: see
 * libcoll/comm/store.h for their form. */
#ifndef PROGRAMS_TUNE_STORE_H
#define PROGRAMS_TUNE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

enum { TUNE_PATH_BYTES = 1024 };

struct tune_file {
    char path[TUNE_PATH_BYTES];
    ino_t inode;
    struct timespec changed;
    bool whole; /* else it was left by a job that was killed */
};

struct tune_files {
    struct tune_file *file; /* by name */
    int n;
};

/* The value of a setting, by its name; "": there is none. */
const char *tune_setting(const char *name);

/* The folder where files are kept. False: they are not; *why says so. */
bool tune_folder(char *path, size_t bytes, const char **why);

/* What lies there. False, with errno: it cannot be read; one that does not
 * exist is empty. The caller frees ->file. */
bool tune_list(const char *folder, struct tune_files *);

/* The file that is in now and not, or another one, in before; NULL: none. */
const struct tune_file *tune_new(const struct tune_files *before,
                                 const struct tune_files *now);

/* tune_list(), with a line on stderr if it fails. */
bool tune_list_or_say(const char *folder, struct tune_files *);

/* tune_show.c. For people; collective NULL: all. plot, unless NULL, becomes a
 * picture of the file that was stored last. Returns the exit status: 1, and a
 * line on stderr for each, if there are lines that cannot be understood or it
 * cannot be written. */
int tune_show(const char *folder, const char *collective, const char *plot);

/* Deletes them, and says what. Returns the exit status. */
int tune_forget(const char *folder);

/* "1.23 ms" */
const char *tune_spoken(double seconds, char text[24]);

#endif
