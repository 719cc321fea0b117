/* SPDX-License-Identifier: MIT */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse(const char *path, const char *what, char *error, size_t bytes)
{
    const int cause = errno;
    snprintf(error, bytes, "%s: cannot %s: %s", path, what, strerror(cause));
    return -1;
}

int file_begin(struct new_file *f, const char *path, char *error,
               size_t error_bytes)
{
    f->stream = NULL;
    if (snprintf(f->path, PATH_MAX, "%s", path) >= PATH_MAX
        || snprintf(f->temporary, PATH_MAX, "%s.%ld.tmp", path, (long)getpid())
               >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return refuse(path, "write", error, error_bytes);
    }
    f->stream = fopen(f->temporary, "wbe");
    return f->stream ? 0 : refuse(path, "write", error, error_bytes);
}

/* Makes a rename last through a crash of the machine. File systems that
 * cannot flush a folder lose nothing that they had promised. */
static void flush_folder(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const int length = slash ? (int)(slash - path) + 1 : 0;
    snprintf(folder, sizeof(folder), "%.*s", length, path);
    const int fd =
        open(length ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

int file_commit(struct new_file *f, char *error, size_t error_bytes)
{
    const int failed =
        fflush(f->stream) || ferror(f->stream) || fsync(fileno(f->stream));
    if (failed) {
        refuse(f->path, "write", error, error_bytes);
        file_drop(f);
        return -1;
    }
    fclose(f->stream);
    f->stream = NULL;
    if (rename(f->temporary, f->path)) {
        refuse(f->path, "replace", error, error_bytes);
        file_drop(f);
        return -1;
    }
    flush_folder(f->path);
    return 0;
}

void file_drop(struct new_file *f)
{
    if (f->stream)
        fclose(f->stream);
    f->stream = NULL;
    unlink(f->temporary);
}

int file_possible(const char *path, char *error, size_t error_bytes)
{
    struct new_file f;
    struct stat status;
    if (!stat(path, &status) && S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        return refuse(path, "write", error, error_bytes);
    }
    if (file_begin(&f, path, error, error_bytes))
        return -1;
    file_drop(&f);
    return 0;
}

char *file_text(const char *path, size_t max_bytes, char *error,
                size_t error_bytes)
{
    struct stat status;
    FILE *stream = fopen(path, "rbe");
    char *text = NULL;
    if (!stream || fstat(fileno(stream), &status)) {
        refuse(path, "read", error, error_bytes);
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
        refuse(path, "read", error, error_bytes);
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
