/* SPDX-License-Identifier: MIT */
#include "data/reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* deflate packs at most 1032 bytes into one (zlib.net/zlib_tech.html). */
enum { DEFLATE_RATIO = 1032 };

/* PART is below 2 * BUFFER so that zlib unpacks past what was asked for, and
 * thereby sees that the end of a gzip file is cut off. */
enum { BUFFER = 1 << 17, PART = 1 << 17 };

/* zlib reads twice as much at once. */
enum { JUMPS_BUFFER = 1 << 12 };

int reader_refuse(const struct reader *r, const char *format, ...)
{
    va_list args;
    const int used = snprintf(r->error, r->error_bytes, "%s: ", r->path);
    if (used < 0 || (size_t)used >= r->error_bytes)
        return -1;
    va_start(args, format);
    vsnprintf(r->error + used, r->error_bytes - (size_t)used, format, args);
    va_end(args);
    return -1;
}

void reader_find(char path[PATH_MAX], const char *folder, const char *name)
{
    struct stat status;
    const int length = snprintf(path, PATH_MAX, "%s/%s.gz", folder, name);
    if (length < PATH_MAX && stat(path, &status))
        snprintf(path, PATH_MAX, "%s/%s", folder, name);
}

static bool is_gzip(const char *path)
{
    uint8_t magic[2] = {0};
    FILE *file = fopen(path, "rbe");
    if (file) {
        setbuf(file, NULL);
        if (fread(magic, 1, 2, file) < 2)
            magic[0] = 0;
        fclose(file);
    }
    return magic[0] == 0x1f && magic[1] == 0x8b;
}

int reader_open(struct reader *r)
{
    struct stat status;
    if (stat(r->path, &status)) {
        if (errno != ENOENT || !r->missing)
            return reader_refuse(r, "cannot read: %s", strerror(errno));
        return reader_refuse(r, "no such file (with .gz or without); %s",
                             r->missing);
    }
    if (!S_ISREG(status.st_mode))
        return reader_refuse(
            r, "found %s, valid is %s, plain or gzip",
            S_ISDIR(status.st_mode) ? "a folder" : "a special file", r->valid);
    r->file = gzopen(r->path, "rbe");
    if (!r->file)
        return reader_refuse(r, "cannot read: %s", strerror(errno));
    gzbuffer(r->file, r->jumps && !is_gzip(r->path) ? JUMPS_BUFFER : BUFFER);
    r->packed = !gzdirect(r->file);
    r->capacity = (uint64_t)status.st_size * (r->packed ? DEFLATE_RATIO : 1);
    return 0;
}

void reader_close(struct reader *r)
{
    if (r->file)
        gzclose_r(r->file);
    r->file = NULL;
}

static int refuse_end(const struct reader *r, const char *what, uint64_t lacks)
{
    return reader_refuse(r,
                         "byte %llu: found the end of the file within %s, "
                         "valid is %llu bytes more",
                         (unsigned long long)r->offset, what,
                         (unsigned long long)lacks);
}

int reader_take(struct reader *r, void *to, uint64_t bytes, const char *what)
{
    uint8_t *at = to;
    while (bytes) {
        const unsigned part = bytes < PART ? (unsigned)bytes : PART;
        const int got = gzread(r->file, at, part);
        if (got > 0) {
            at += got;
            bytes -= (uint64_t)got;
            r->offset += (uint64_t)got;
        }
        if (got == (int)part)
            continue;
        int code;
        const char *message = gzerror(r->file, &code);
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
            return reader_refuse(
                r, "byte %llu: %s is damaged (%s), valid is %s, plain or gzip",
                (unsigned long long)r->offset, what,
                code == Z_ERRNO ? strerror(errno) : message, r->valid);
        return refuse_end(r, what, bytes);
    }
    return 0;
}

int reader_skip(struct reader *r, uint64_t bytes, const char *what)
{
    uint8_t scratch[8192];
    if (!r->packed && bytes > sizeof(scratch)) {
        if (r->offset > r->capacity || bytes > r->capacity - r->offset)
            return refuse_end(r, what, bytes);
        if (gzseek(r->file, (z_off_t)bytes, SEEK_CUR) < 0)
            return reader_refuse(r, "byte %llu: cannot go on from here",
                                 (unsigned long long)r->offset);
        r->offset += bytes;
        return 0;
    }
    while (bytes) {
        const uint64_t part = bytes < sizeof(scratch) ? bytes : sizeof(scratch);
        if (reader_take(r, scratch, part, what))
            return -1;
        bytes -= part;
    }
    return 0;
}

int reader_expect_end(struct reader *r)
{
    uint8_t extra;
    const int got = gzread(r->file, &extra, 1);
    if (got > 0)
        return reader_refuse(r,
                             "byte %llu: found more bytes, valid is the end "
                             "of the file",
                             (unsigned long long)r->offset);
    int code;
    const char *message = gzerror(r->file, &code);
    if (got < 0 || code == Z_BUF_ERROR)
        return reader_refuse(r,
                             "byte %llu: the end is damaged (%s), valid is a "
                             "whole file",
                             (unsigned long long)r->offset, message);
    return 0;
}
