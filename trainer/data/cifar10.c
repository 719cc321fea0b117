/* SPDX-License-Identifier: MIT */
/* CIFAR-10 in its binary version (www.cs.toronto.edu/~kriz/cifar.html):
 *
 *     data_batch_1.bin to data_batch_5.bin for training, test_batch.bin
 *     10000 records each: one byte label; 32 x 32 bytes red, green, blue
 *
 * each file plain or gzip, or all of them in the archive that is distributed.
 * Memory is taken only for files that can hold so much.
 */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/dataset.h"
#include "data/reader.h"
#include "data/tar.h"
#include "random.h"

enum {
    NCLASSES = 10,
    CHANNELS = 3,
    SIDE = 32,
    PLANE = SIDE * SIDE,
    RECORD = 1 + CHANNELS * PLANE,
    RECORDS = 10000,
    FILE_BYTES = RECORD * RECORDS,
    MOST_FILES = 5,
    PAD = 4 /* of augmented images, on each side, as in He et al. 2015 */
};

#define ARCHIVE "cifar-10-binary.tar.gz"
#define FOLDER  "cifar-10-batches-bin" /* in the archive */

static const struct part {
    int nfiles;
    const char *files[MOST_FILES];
} parts[] = {
    [DATASET_TRAIN] = {5,
                       {"data_batch_1.bin", "data_batch_2.bin",
                        "data_batch_3.bin", "data_batch_4.bin",
                        "data_batch_5.bin"}},
    [DATASET_TEST] = {1, {"test_batch.bin"}},
};

struct records {
    uint8_t *bytes;             /* as in the files, one behind the other */
    float level[CHANNELS][256]; /* a pixel's normalised value */
};

static int check_capacity(const struct reader *r, int nfiles)
{
    const uint64_t bytes = (uint64_t)nfiles * FILE_BYTES;
    if (r->capacity >= bytes)
        return 0;
    return reader_refuse(r,
                         "it can hold at most %llu bytes, valid is %llu for "
                         "%d images",
                         (unsigned long long)r->capacity,
                         (unsigned long long)bytes, nfiles * RECORDS);
}

/* start: where the first record is, for messages. */
static int check_labels(const struct reader *r, const uint8_t *records,
                        uint64_t start)
{
    for (int i = 0; i < RECORDS; i++)
        if (records[i * RECORD] >= NCLASSES)
            return reader_refuse(r, "byte %llu: label %d, valid is 0 to %d",
                                 (unsigned long long)start
                                     + (unsigned long long)i * RECORD,
                                 records[i * RECORD], NCLASSES - 1);
    return 0;
}

/* Makes room for so many files. */
static uint8_t *grow(struct records *own, const struct reader *r, int nfiles)
{
    uint8_t *bytes = realloc(own->bytes, (size_t)nfiles * FILE_BYTES);
    if (bytes)
        own->bytes = bytes;
    else
        reader_refuse(r, "no memory for %d images", nfiles * RECORDS);
    return bytes;
}

/* Adds the i-th file. */
static int load_file(struct records *own, struct reader *r, int i)
{
    if (reader_open(r) || check_capacity(r, 1) || !grow(own, r, i + 1))
        return -1;
    uint8_t *to = own->bytes + (size_t)i * FILE_BYTES;
    return reader_take(r, to, FILE_BYTES, "the images") || reader_expect_end(r)
                   || check_labels(r, to, 0)
               ? -1
               : 0;
}

static int load_folder(struct records *own, const char *folder,
                       const struct part *part, char *error, size_t error_bytes)
{
    char path[PATH_MAX];
    int failed = 0;
    for (int i = 0; !failed && i < part->nfiles; i++) {
        struct reader r = {
            .path = path,
            .valid = "a file of CIFAR-10's binary version",
            .missing = "valid is a folder with data_batch_1.bin to "
                       "data_batch_5.bin and test_batch.bin, or " ARCHIVE,
            .error = error,
            .error_bytes = error_bytes};
        reader_find(path, folder, part->files[i]);
        failed = load_file(own, &r, i);
        reader_close(&r);
    }
    return failed;
}

/* The i-th file of the part, or -1. */
static int place_of(const struct part *part, const char *name)
{
    for (int i = 0; i < part->nfiles; i++)
        if (!strcmp(part->files[i], name))
            return i;
    return -1;
}

/* Archives have their files in any order. */
static int load_archived(struct records *own, struct reader *r,
                         const struct part *part)
{
    struct tar_file f = {0};
    bool found[MOST_FILES] = {false};
    int more;
    if (reader_open(r) || check_capacity(r, part->nfiles)
        || !grow(own, r, part->nfiles))
        return -1;
    while ((more = tar_next(r, &f)) == 1) {
        const uint64_t start = r->offset;
        const int i = place_of(part, tar_base(&f));
        if (i < 0)
            continue;
        if (f.bytes != FILE_BYTES)
            return reader_refuse(r, "byte %llu: %s has %llu bytes, valid is %d",
                                 (unsigned long long)start, tar_base(&f),
                                 (unsigned long long)f.bytes, FILE_BYTES);
        uint8_t *to = own->bytes + (size_t)i * FILE_BYTES;
        if (tar_take(r, &f, to, FILE_BYTES) || check_labels(r, to, start))
            return -1;
        found[i] = true;
    }
    for (int i = 0; !more && i < part->nfiles; i++)
        if (!found[i])
            return reader_refuse(r, "found no %s in it, valid is " ARCHIVE,
                                 part->files[i]);
    return more;
}

static int load_archive(struct records *own, const char *path,
                        const struct part *part, char *error,
                        size_t error_bytes)
{
    struct reader r = {.path = path,
                       .valid = "a tar archive of CIFAR-10's binary version",
                       .error = error,
                       .error_bytes = error_bytes};
    const int failed = load_archived(own, &r, part);
    reader_close(&r);
    return failed;
}

static bool exists(const char *path, mode_t type)
{
    struct stat status;
    return !stat(path, &status) && (status.st_mode & S_IFMT) == type;
}

/* where: the archive, the folder with the files, or one in which the archive
 * lies or was unpacked. */
static int load(struct records *own, const char *where, const struct part *part,
                char *error, size_t error_bytes)
{
    char path[PATH_MAX];
    if (exists(where, S_IFREG))
        return load_archive(own, where, part, error, error_bytes);
    reader_find(path, where, part->files[0]);
    if (!exists(path, S_IFREG)) {
        snprintf(path, sizeof(path), "%s/" FOLDER, where);
        if (exists(path, S_IFDIR))
            return load_folder(own, path, part, error, error_bytes);
        snprintf(path, sizeof(path), "%s/" ARCHIVE, where);
        if (exists(path, S_IFREG))
            return load_archive(own, path, part, error, error_bytes);
    }
    return load_folder(own, where, part, error, error_bytes);
}

static void close_records(struct dataset *d)
{
    struct records *own = d->own;
    if (own)
        free(own->bytes);
    free(own);
}

static int open_records(struct dataset *d, const char *where,
                        enum dataset_part which, char *error,
                        size_t error_bytes)
{
    /* of the training set's pixels, as parts of 255 */
    static const float mean[] = {0.4914f, 0.4822f, 0.4465f},
                       deviation[] = {0.2470f, 0.2435f, 0.2616f};
    struct records *own = calloc(1, sizeof(*own));
    d->own = own;
    if (!own) {
        snprintf(error, error_bytes, "%s: no memory", where);
        return -1;
    }
    for (int c = 0; c < CHANNELS; c++)
        for (int i = 0; i < 256; i++)
            own->level[c][i] = ((float)i / 255 - mean[c]) / deviation[c];
    if (load(own, where, &parts[which], error, error_bytes)) {
        close_records(d);
        return -1;
    }
    d->count = (size_t)parts[which].nfiles * RECORDS;
    d->image = (struct shape){1, CHANNELS, SIDE, SIDE};
    d->nclasses = NCLASSES;
    return 0;
}

static int read_record(const struct dataset *d, size_t index, float *image,
                       int *label, char *error, size_t error_bytes)
{
    (void)error, (void)error_bytes; /* open() has seen all bytes */
    const struct records *own = d->own;
    const uint8_t *from = own->bytes + index * RECORD;
    *label = *from++;
    for (int c = 0; c < CHANNELS; c++)
        for (int i = 0; i < PLANE; i++)
            *image++ = own->level[c][*from++];
    return 0;
}

/* 32 x 32 pixels anywhere in the image with a black border of PAD, mirrored or
 * not. */
static int read_augmented(const struct dataset *d, size_t index, uint64_t seed,
                          float *image, int *label, char *error,
                          size_t error_bytes)
{
    (void)error, (void)error_bytes;
    const struct records *own = d->own;
    const uint8_t *from = own->bytes + index * RECORD;
    const int down = (int)random_below(seed, 0, 2 * PAD + 1) - PAD,
              right = (int)random_below(seed, 1, 2 * PAD + 1) - PAD;
    const bool mirrored = random_below(seed, 2, 2);
    *label = *from++;
    for (int c = 0; c < CHANNELS; c++, from += PLANE)
        for (int y = down; y < down + SIDE; y++)
            for (int i = 0; i < SIDE; i++) {
                const int x = right + (mirrored ? SIDE - 1 - i : i);
                const bool inside = x >= 0 && x < SIDE && y >= 0 && y < SIDE;
                *image++ = own->level[c][inside ? from[y * SIDE + x] : 0];
            }
    return 0;
}

const struct dataset_ops dataset_cifar10 = {
    .name = "cifar10",
    .where = "/usr/share/datasets/cifar10",
    .open = open_records,
    .read = read_record,
    .read_augmented = read_augmented,
    .close = close_records,
};
