/* SPDX-License-Identifier: MIT */
#include "data/tar.h"

#include <assert.h>
#include <string.h>

/* Where a header, of one unit, has what is read of it; the path is first. */
enum { UNIT = 512, LONGEST = 100, SIZE = 124, SUM = 148, TYPE = 156 };

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

static int skip(struct reader *r, uint64_t bytes)
{
    uint8_t scratch[16 * UNIT];
    while (bytes) {
        const uint64_t part = bytes < sizeof(scratch) ? bytes : sizeof(scratch);
        if (reader_take(r, scratch, part, "an archived file"))
            return -1;
        bytes -= part;
    }
    return 0;
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

static void set_name(struct tar_file *f, const uint8_t *path)
{
    memcpy(f->name, path, LONGEST); /* f->name has a zero behind it */
    const char *slash = strrchr(f->name, '/');
    if (slash)
        memmove(f->name, slash + 1, strlen(slash));
}

int tar_next(struct reader *r, struct tar_file *f)
{
    static const uint8_t zeros[UNIT];
    uint8_t header[UNIT];
    do {
        const uint64_t fill = (UNIT - f->bytes % UNIT) % UNIT;
        if (skip(r, f->left + fill)
            || reader_take(r, header, UNIT, "an archive's header"))
            return -1;
        *f = (struct tar_file){0};
        if (!memcmp(header, zeros, UNIT))
            return finish(r);
        if (check_header(r, header))
            return -1;
        f->bytes = f->left = (uint64_t)octal(header + SIZE, 12);
    } while (header[TYPE] && header[TYPE] != '0');
    set_name(f, header);
    return 1;
}

int tar_take(struct reader *r, struct tar_file *f, void *to, uint64_t bytes)
{
    assert(bytes <= f->left);
    f->left -= bytes;
    return reader_take(r, to, bytes, "an archived file");
}
