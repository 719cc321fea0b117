/* SPDX-License-Identifier: MIT */
#include "file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void cannot_read(const char *path, char *error, size_t bytes)
{
    snprintf(error, bytes, "%s: cannot read: %s", path, strerror(errno));
}

char *file_text(const char *path, size_t max_bytes, char *error,
                size_t error_bytes)
{
    struct stat status;
    FILE *stream = fopen(path, "rbe");
    char *text = NULL;
    if (!stream || fstat(fileno(stream), &status)) {
        cannot_read(path, error, error_bytes);
        goto out;
    }
    if (!S_ISREG(status.st_mode) || (size_t)status.st_size > max_bytes) {
        snprintf(error, error_bytes,
                 "%s: found %s, valid is a text file of at most %zu bytes",
                 path, S_ISREG(status.st_mode) ? "a larger one" : "no file",
                 max_bytes);
        goto out;
    }
    const size_t bytes = (size_t)status.st_size;
    text = malloc(bytes + 1);
    if (!text || fread(text, 1, bytes, stream) != bytes) {
        cannot_read(path, error, error_bytes);
        free(text);
        text = NULL;
        goto out;
    }
    text[bytes] = '\0';
    if (strlen(text) != bytes) {
        snprintf(error, error_bytes, "%s: byte %zu is zero, valid is text",
                 path, strlen(text));
        free(text);
        text = NULL;
    }
out:
    if (stream)
        fclose(stream);
    return text;
}
