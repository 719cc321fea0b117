/* SPDX-License-Identifier: MIT */
#ifndef TRAINER_FILE_H
#define TRAINER_FILE_H

#include <stddef.h>

/* Reads a small text file whole. The caller frees; NULL with error set. */
char *file_text(const char *path, size_t max_bytes, char *error,
                size_t error_bytes);

#endif
