/* SPDX-License-Identifier: MIT */
/* IDX files, plain or gzip: the format of MNIST and its relatives.
 *
 *     0      two bytes 0, type (8: unsigned bytes), number of dimensions
 *     4      one big-endian u32 per dimension
 *     ...    the values, last dimension fastest
 *
 * http://yann.lecun.com/exdb/mnist. A header can claim any size, so memory is
 * taken only up to what the file can hold.
 */
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "data/dataset.h"
#include "data/reader.h"

enum { MAX_DIMENSIONS = 3, NCLASSES = 10 /* most */, MAX_SIDE = 4096 };

struct images {
    uint8_t *pixels, *labels;
    float level[256]; /* a pixel's normalised value */
};

static uint32_t big_endian(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8
           | b[3];
}

/* Reads a header of exactly ndims dimensions. */
static int take_header(struct reader *r, int ndims, uint32_t *dims)
{
    static const char *const axis[MAX_DIMENSIONS] = {"items", "rows",
                                                     "columns"};
    uint8_t b[4 + 4 * MAX_DIMENSIONS];
    uint64_t bytes = 1;
    if (reader_take(r, b, 4, "the magic number"))
        return -1;
    if (b[0] || b[1])
        return reader_refuse(r, "byte 0: magic 0x%02x%02x, valid is 0x0000",
                             b[0], b[1]);
    if (b[2] != 8)
        return reader_refuse(
            r, "byte 2: type 0x%02x, valid is 0x08 (unsigned bytes)", b[2]);
    if (b[3] != ndims)
        return reader_refuse(r, "byte 3: %d dimensions, valid is %d for %s",
                             b[3], ndims, ndims == 1 ? "labels" : "images");
    if (reader_take(r, b + 4, 4 * (uint64_t)ndims, "the sizes"))
        return -1;
    for (int i = 0; i < ndims; i++) {
        const uint32_t most = i ? MAX_SIDE : INT32_MAX;
        dims[i] = big_endian(b + 4 + 4 * i);
        if (dims[i] < 1 || dims[i] > most)
            return reader_refuse(r, "byte %d: %u %s, valid is 1 to %u",
                                 4 + 4 * i, dims[i], axis[i], most);
        bytes *= dims[i]; /* below 2^31 * 2^12 * 2^12 */
    }
    if (r->offset + bytes > r->capacity)
        return reader_refuse(
            r,
            "byte 4: the sizes make a file of %llu bytes, valid "
            "is at most the %llu that this one can hold",
            (unsigned long long)(r->offset + bytes),
            (unsigned long long)r->capacity);
    return 0;
}

/* One file: header, values, end. The caller frees *values. */
static int read_idx(struct reader *r, int ndims, uint32_t *dims,
                    uint8_t **values)
{
    uint64_t bytes = 1;
    uint8_t *to = NULL;
    int failed = reader_open(r) || take_header(r, ndims, dims);
    for (int i = 0; !failed && i < ndims; i++)
        bytes *= dims[i];
    if (!failed && !(to = malloc(bytes)))
        failed = reader_refuse(r, "no memory for %llu bytes",
                               (unsigned long long)bytes);
    if (!failed)
        failed =
            reader_take(r, to, bytes, ndims == 1 ? "the labels" : "the images")
            || reader_expect_end(r);
    reader_close(r);
    if (failed) {
        free(to);
        return -1;
    }
    *values = to;
    return 0;
}

/* How many classes there are: up to the highest label. */
static int count_classes(const struct reader *r, const uint8_t *labels,
                         size_t n)
{
    int highest = 0;
    for (size_t i = 0; i < n; i++) {
        if (labels[i] >= NCLASSES)
            return reader_refuse(r, "byte %zu: label %d, valid is 0 to %d",
                                 8 + i, labels[i], NCLASSES - 1);
        highest = labels[i] > highest ? labels[i] : highest;
    }
    return highest + 1;
}

static void close_images(struct dataset *d)
{
    struct images *own = d->own;
    if (own) {
        free(own->pixels);
        free(own->labels);
    }
    free(own);
}

static int load(struct dataset *d, const char *where, enum dataset_part part,
                const char *missing, char *error, size_t error_bytes)
{
    static const char *const prefix[] = {"train", "t10k"};
    struct images *own = d->own;
    char path[PATH_MAX], name[64];
    uint32_t dims[3], nlabels[1];
    const struct reader start = {.path = path,
                                 .valid = "an IDX file",
                                 .missing = missing,
                                 .error = error,
                                 .error_bytes = error_bytes};
    struct reader r = start;
    snprintf(name, sizeof(name), "%s-images-idx3-ubyte", prefix[part]);
    reader_find(path, where, name);
    if (read_idx(&r, 3, dims, &own->pixels))
        return -1;
    r = start;
    snprintf(name, sizeof(name), "%s-labels-idx1-ubyte", prefix[part]);
    reader_find(path, where, name);
    if (read_idx(&r, 1, nlabels, &own->labels))
        return -1;
    if (nlabels[0] != dims[0])
        return reader_refuse(
            &r, "byte 4: %u labels, valid is %u as there are images",
            nlabels[0], dims[0]);
    d->nclasses = count_classes(&r, own->labels, nlabels[0]);
    if (d->nclasses < 0)
        return -1;
    d->count = dims[0];
    d->image = (struct shape){1, 1, (int)dims[1], (int)dims[2]};
    return 0;
}

/* mean and deviation of the training set's pixels, as parts of 255 */
static int open_images(struct dataset *d, const char *where,
                       enum dataset_part part, const char *missing, float mean,
                       float deviation, char *error, size_t error_bytes)
{
    struct images *own = calloc(1, sizeof(*own));
    d->own = own;
    if (!own) {
        snprintf(error, error_bytes, "%s: no memory", where);
        return -1;
    }
    for (int i = 0; i < 256; i++)
        own->level[i] = ((float)i / 255 - mean) / deviation;
    if (load(d, where, part, missing, error, error_bytes)) {
        close_images(d);
        return -1;
    }
    return 0;
}

static int open_fashion(struct dataset *d, const char *where,
                        enum dataset_part part, char *error, size_t bytes)
{
    return open_images(d, where, part,
                       "the Debian package dataset-fashion-mnist has it",
                       0.2860f, 0.3530f, error, bytes);
}

static int open_mnist(struct dataset *d, const char *where,
                      enum dataset_part part, char *error, size_t bytes)
{
    if (!where) {
        snprintf(error, bytes,
                 "data set \"mnist\" has no folder, valid is "
                 "mnist:FOLDER with train-images-idx3-ubyte[.gz] and the like");
        return -1;
    }
    return open_images(d, where, part, NULL, 0.1307f, 0.3081f, error, bytes);
}

static int read_image(const struct dataset *d, size_t index, float *image,
                      int *label, char *error, size_t error_bytes)
{
    (void)error, (void)error_bytes; /* open() has seen all bytes */
    const struct images *own = d->own;
    const size_t n = shape_count(d->image);
    const uint8_t *from = own->pixels + index * n;
    for (size_t i = 0; i < n; i++)
        image[i] = own->level[from[i]];
    *label = own->labels[index];
    return 0;
}

const struct dataset_ops dataset_fashion_mnist = {
    .name = "fashion-mnist",
    .where = "/usr/share/datasets/fashion-mnist",
    .open = open_fashion,
    .read = read_image,
    .close = close_images,
};
const struct dataset_ops dataset_mnist = {
    .name = "mnist",
    .open = open_mnist,
    .read = read_image,
    .close = close_images,
};
