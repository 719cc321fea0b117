/* SPDX-License-Identifier: MIT */
#include "data/tar.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a header, of one unit, has what is read of it; the path is first. */
enum {
    UNIT = 512,
    SHORT = 100, /* the longest path there */
    SIZE = 124,
    SUM = 148,
    TYPE = 156,
    MAGIC = 257,
    PREFIX = 345, /* of POSIX: the first folders of the path */
    PREFIX_BYTES = 155,
    MOST_RECORDS = 8192 /* bytes of POSIX's records for one file */
};

/* Digits of base 8 up to a space or zero byte; -1 where there are others. */
static int64_t octal(const uint8_t *from, int size)
{
    int64_t value = 0;
    int i = 0, ndigits = 0;
    while (i < size && from[i] == ' ')
        i++;
    for (; i < size && from[i] >= '0' && from[i] <= '7'; i++, ndigits++)
        value = value * 8 + (from[i] - '0');
    return ndigits && (i == size || from[i] == ' ' || !from[i]) ? value : -1;
}

/* The sum counts its own field as spaces. */
static bool sum_fits(const uint8_t *header)
{
    int64_t sum = 0;
    for (int i = 0; i < UNIT; i++)
        sum += i >= SUM && i < SUM + 8 ? ' ' : header[i];
    return octal(header + SUM, 8) == sum;
}

/* More zeros may fill up an archive behind the unit of them that ends it. */
static int finish(struct reader *r)
{
    static const uint8_t zeros[UNIT];
    uint8_t block[UNIT];
    int got;
    while ((got = gzread(r->file, block, UNIT)) > 0) {
        if (memcmp(block, zeros, (size_t)got))
            return reader_refuse(r,
                                 "byte %llu: found more bytes, valid are "
                                 "zeros after the end of the archive",
                                 (unsigned long long)r->offset);
        r->offset += (uint64_t)got;
    }
    return reader_expect_end(r);
}

static int check_header(const struct reader *r, const uint8_t *header)
{
    const unsigned long long at = r->offset - UNIT;
    if (!sum_fits(header))
        return reader_refuse(r,
                             "byte %llu: found no header whose sum fits, "
                             "valid is %s",
                             at, r->valid);
    if (octal(header + SIZE, 12) < 0)
        return reader_refuse(r,
                             "byte %llu: found no size of a file, valid is "
                             "a number of base 8",
                             at + SIZE);
    return 0;
}

static uint64_t fill(uint64_t bytes)
{
    return (UNIT - bytes % UNIT) % UNIT;
}

/* Of a header that has no longer one before it. */
static void set_path(char *to, const uint8_t *header)
{
    const bool split = !memcmp(header + MAGIC, "ustar", 6) && header[PREFIX];
    snprintf(to, TAR_PATH, "%.*s%s%.*s", split ? PREFIX_BYTES : 0,
             (const char *)header + PREFIX, split ? "/" : "", SHORT,
             (const char *)header);
}

/* A line of POSIX's records, "LENGTH KEY=VALUE\n"; others than the path, such
 * as the time, change nothing here. Returns its end, or NULL if it is none or
 * its path is too long. */
static const char *read_record(const char *at, const char *end, char *path)
{
    char *key;
    const unsigned long length = strtoul(at, &key, 10);
    if (key == at || *key != ' ' || length > (size_t)(end - at)
        || length <= (size_t)(key + 1 - at) || at[length - 1] != '\n')
        return NULL;
    const size_t left = length - (size_t)(key + 1 - at) - 1;
    if (left <= 5 || memcmp(key + 1, "path=", 5))
        return at + length;
    if (left - 5 >= TAR_PATH)
        return NULL;
    snprintf(path, TAR_PATH, "%.*s", (int)(left - 5), key + 6);
    return at + length;
}

/* What a header says of the next one: GNU's long path, POSIX's records. */
static int take_path(struct reader *r, uint64_t bytes, bool records, char *path)
{
    char text[MOST_RECORDS + 1];
    const int most = records ? MOST_RECORDS : TAR_PATH - 1;
    if (bytes > (uint64_t)most)
        return reader_refuse(r,
                             "byte %llu: found %llu bytes of a path, valid are "
                             "at most %d",
                             (unsigned long long)r->offset,
                             (unsigned long long)bytes, most);
    if (reader_take(r, text, bytes, "a path")
        || reader_skip(r, fill(bytes), "a path"))
        return -1;
    text[bytes] = '\0';
    if (!records)
        memcpy(path, text, bytes + 1);
    const char *end = text + bytes;
    for (const char *at = text; records && at < end;)
        if (!(at = read_record(at, end, path)))
            return reader_refuse(r,
                                 "byte %llu: found a record before it that "
                                 "cannot be read, valid are lines as \"LENGTH "
                                 "KEY=VALUE\", a path of at most %d bytes",
                                 (unsigned long long)r->offset, TAR_PATH - 1);
    return 0;
}

/* Such a path would be written to terminals. */
static int check_path(const struct reader *r, const char *path)
{
    for (const char *at = path; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 127)
            return reader_refuse(r,
                                 "byte %llu: found a path with a control "
                                 "character, valid are others",
                                 (unsigned long long)(r->offset - UNIT));
    return 0;
}

int tar_next(struct reader *r, struct tar_file *f)
{
    static const uint8_t zeros[UNIT];
    uint8_t header[UNIT];
    if (reader_skip(r, f->left + fill(f->bytes), "an archived file"))
        return -1;
    *f = (struct tar_file){0};
    for (;;) {
        if (reader_take(r, header, UNIT, "an archive's header"))
            return -1;
        if (!memcmp(header, zeros, UNIT))
            return finish(r);
        if (check_header(r, header))
            return -1;
        const uint64_t bytes = (uint64_t)octal(header + SIZE, 12);
        const char type = (char)header[TYPE];
        if (!f->path[0])
            set_path(f->path, header);
        if (!type || type == '0') {
            f->bytes = f->left = bytes;
            return check_path(r, f->path) ? -1 : 1;
        }
        f->path[0] = '\0';
        if (type == 'L' || type == 'x'
                ? take_path(r, bytes, type == 'x', f->path)
                : reader_skip(r, bytes + fill(bytes), "an archived file"))
            return -1;
    }
}

int tar_take(struct reader *r, struct tar_file *f, void *to, uint64_t bytes)
{
    assert(bytes <= f->left);
    f->left -= bytes;
    return reader_take(r, to, bytes, "an archived file");
}

const char *tar_base(const struct tar_file *f)
{
    const char *slash = strrchr(f->path, '/');
    return slash ? slash + 1 : f->path;
}
