/* SPDX-License-Identifier: MIT */
/* Data sets, the sampler and checkpoints: good files, and every way in which
 * a file can be wrong. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "data/dataset.h"
#include "data/sampler.h"
#include "net/checkpoint.h"
#include "random.h"

enum {
    NIMAGES = 7,
    SIDE = 4,
    IMAGE_BYTES = 16 + NIMAGES * SIDE * SIDE,
    LABEL_BYTES = 8 + NIMAGES
};

/* A folder with one good part of a data set. */
struct folder {
    char path[64], name[80]; /* name: "mnist:PATH" */
    unsigned char images[IMAGE_BYTES], labels[LABEL_BYTES];
};

static const char *file_in(const struct folder *f, const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", f->path, name);
    return path;
}

#define IMAGES "train-images-idx3-ubyte"
#define LABELS "train-labels-idx1-ubyte"

static void put(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(bytes, 1, count, file) == count);
    fclose(file);
}

static void put_gzip(const char *path, const void *bytes, size_t count)
{
    gzFile file = gzopen(path, "wb");
    cr_assert(file && gzwrite(file, bytes, (unsigned)count) == (int)count);
    gzclose(file);
}

static size_t get(const char *path, unsigned char *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    cr_assert(file);
    const size_t count = fread(bytes, 1, room, file);
    fclose(file);
    return count;
}

static void put_both(const struct folder *f)
{
    put(file_in(f, IMAGES), f->images, IMAGE_BYTES);
    put(file_in(f, LABELS), f->labels, LABEL_BYTES);
}

static void make_folder(struct folder *f)
{
    strcpy(f->path, "/dev/shm/data_test.XXXXXX"); /* spares the disk */
    if (!mkdtemp(f->path)) {
        strcpy(f->path, "/tmp/data_test.XXXXXX");
        cr_assert(mkdtemp(f->path));
    }
}

static void make(struct folder *f)
{
    const unsigned char image_head[16] = {0, 0, 8, 3,    0, 0, 0, NIMAGES,
                                          0, 0, 0, SIDE, 0, 0, 0, SIDE};
    const unsigned char label_head[8] = {0, 0, 8, 1, 0, 0, 0, NIMAGES};
    make_folder(f);
    snprintf(f->name, sizeof(f->name), "mnist:%s", f->path);
    memcpy(f->images, image_head, 16);
    memcpy(f->labels, label_head, 8);
    for (int i = 16; i < IMAGE_BYTES; i++)
        f->images[i] = (unsigned char)(i * 37);
    for (int i = 0; i < NIMAGES; i++)
        f->labels[8 + i] = (unsigned char)(i % 10);
    put_both(f);
}

static void clean(const struct folder *f)
{
    static const char *const names[] = {IMAGES,       LABELS, IMAGES ".gz",
                                        LABELS ".gz", "c",    "d"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        remove(file_in(f, names[i]));
    cr_assert_eq(rmdir(f->path), 0, "something else was left in %s", f->path);
}

static int open_error(const char *name, char *error)
{
    struct dataset d;
    error[0] = '\0';
    const int failed = dataset_open(&d, name, DATASET_TRAIN, error, 512);
    if (!failed)
        dataset_close(&d);
    return failed;
}

/* Opening fails with one line that says each of the words. */
static void expect_error(const char *name, ...)
{
    char error[512];
    va_list words;
    cr_assert_eq(open_error(name, error), -1, "%s was accepted", name);
    cr_assert(!strchr(error, '\n') && strlen(error) < 511);
    va_start(words, name);
    for (const char *w; (w = va_arg(words, const char *));)
        cr_assert(strstr(error, w), "\"%s\" lacks \"%s\"", error, w);
    va_end(words);
}

static void expect_images(const struct folder *f)
{
    struct dataset d;
    char error[512];
    float image[SIDE * SIDE];
    int label;
    cr_assert_eq(dataset_open(&d, f->name, DATASET_TRAIN, error, 512), 0, "%s",
                 error);
    cr_assert(d.count == NIMAGES && d.image.n == 1 && d.image.c == 1
              && d.image.h == SIDE && d.image.w == SIDE && d.nclasses == 10);
    for (size_t i = 0; i < NIMAGES; i++) {
        d.ops->read(&d, i, image, &label);
        cr_assert_eq(label, (int)i);
        for (size_t p = 0; p < SIDE * SIDE; p++) {
            const float x = (float)f->images[16 + i * SIDE * SIDE + p] / 255;
            cr_assert_float_eq(image[p], (x - 0.1307f) / 0.3081f, 1e-6);
        }
    }
    dataset_close(&d);
}

Test(idx, reads_plain_and_gzip)
{
    struct folder f;
    make(&f);
    expect_images(&f);
    remove(file_in(&f, IMAGES));
    put_gzip(file_in(&f, IMAGES ".gz"), f.images, IMAGE_BYTES);
    expect_images(&f);
    clean(&f);
}

Test(idx, names_each_wrong_field)
{
    static const struct wrong {
        int offset;
        unsigned char value;
        const char *say, *valid;
    } images[] = {
        {0, 1, "byte 0: magic", "0x0000"},
        {1, 9, "byte 0: magic", "0x0000"},
        {2, 13, "byte 2: type 0x0d", "0x08"},
        {3, 1, "byte 3: 1 dimensions", "valid is 3"},
        {7, 0, "byte 4: 0 items", "valid is 1"},
        {7, NIMAGES + 1, "byte 4: the sizes", "valid"},
        {4, 0x7f, "byte 4: the sizes", "one can hold"},
        {4, 0xff, "byte 4: 4278190087 items", "valid is 1"},
        {7, NIMAGES - 1, "found more bytes", "end of the file"},
        {11, 0, "byte 8: 0 rows", "valid is 1 to 4096"},
        {8, 1, "byte 8: 16777220 rows", "valid is 1 to 4096"},
        {11, SIDE + 1, "byte 4: the sizes", "one can hold"},
        {15, 0, "byte 12: 0 columns", "valid is 1 to 4096"},
        {14, 0xff, "byte 12: 65284 columns", "valid is 1 to 4096"},
        {15, SIDE - 1, "found more bytes", "end of the file"},
    };
    static const struct wrong labels[] = {
        {0, 1, "byte 0: magic", "0x0000"},
        {2, 9, "byte 2: type 0x09", "0x08"},
        {3, 3, "byte 3: 3 dimensions", "valid is 1"},
        {7, NIMAGES - 1, "found more bytes", "end of the file"},
        {8 + 2, 10, "byte 10: label 10", "valid is 0 to 9"},
        {8 + 6, 255, "byte 14: label 255", "valid is 0 to 9"},
    };
    struct folder f;
    make(&f);
    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
        const struct folder good = f;
        f.images[images[i].offset] = images[i].value;
        put_both(&f);
        expect_error(f.name, IMAGES, images[i].say, images[i].valid, NULL);
        f = good;
    }
    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
        const struct folder good = f;
        f.labels[labels[i].offset] = labels[i].value;
        put_both(&f);
        expect_error(f.name, LABELS, labels[i].say, labels[i].valid, NULL);
        f = good;
    }
    put_both(&f);
    expect_images(&f);
    clean(&f);
}

Test(idx, wants_as_many_labels_as_images)
{
    struct folder f;
    make(&f);
    f.labels[7]--;
    put(file_in(&f, LABELS), f.labels, LABEL_BYTES - 1);
    expect_error(f.name, LABELS, "6 labels", "valid is 7", NULL);
    clean(&f);
}

Test(idx, refuses_any_other_length)
{
    unsigned char more[IMAGE_BYTES + 1] = {0}, packed[1024];
    struct folder f;
    make(&f);
    for (size_t n = 0; n < IMAGE_BYTES; n++) {
        put(file_in(&f, IMAGES), f.images, n);
        expect_error(f.name, IMAGES, "byte", "valid", NULL);
    }
    memcpy(more, f.images, IMAGE_BYTES);
    put(file_in(&f, IMAGES), more, sizeof(more));
    expect_error(f.name, IMAGES, "found more bytes", NULL);
    put_gzip(file_in(&f, IMAGES ".gz"), more, sizeof(more));
    expect_error(f.name, IMAGES ".gz", "found more bytes", NULL);
    put_gzip(file_in(&f, IMAGES ".gz"), f.images, IMAGE_BYTES);
    const size_t bytes = get(file_in(&f, IMAGES ".gz"), packed, sizeof(packed));
    for (size_t n = 0; n < bytes; n++) {
        put(file_in(&f, IMAGES ".gz"), packed, n);
        expect_error(f.name, IMAGES ".gz", "byte", NULL);
    }
    packed[bytes - 6] ^= 1; /* gzip's checksum */
    put(file_in(&f, IMAGES ".gz"), packed, bytes);
    expect_error(f.name, IMAGES ".gz", "damaged", NULL);
    clean(&f);
}

Test(idx, refuses_what_is_no_file)
{
    struct folder f;
    make(&f);
    remove(file_in(&f, IMAGES));
    expect_error(f.name, IMAGES, "cannot read", NULL);
    mkdir(file_in(&f, IMAGES), 0700);
    expect_error(f.name, IMAGES, "found a folder", NULL);
    rmdir(file_in(&f, IMAGES));
    clean(&f);
    expect_error("fashion-mnist:/nowhere", "/nowhere/" IMAGES,
                 "dataset-fashion-mnist", NULL);
    expect_error("mnist", "mnist:FOLDER", NULL);
}

Test(dataset, names_what_exists)
{
    expect_error("fashion-mnits", "did you mean fashion-mnist?", NULL);
    expect_error("imagenet", "imagenet",
                 "cifar10, fashion-mnist, mnist, synthetic", NULL);
    expect_error("cifar100", "did you mean cifar10?", NULL);
    expect_error("synthetic:0", "COUNTxCxHxW", NULL);
    expect_error("synthetic:5x3", "COUNTxCxHxW", NULL);
    expect_error("synthetic:5x3x9x9x", "COUNTxCxHxW", NULL);
    expect_error("synthetic:-1", "COUNTxCxHxW", NULL);
}

Test(dataset, synthetic_is_the_same_each_time)
{
    struct dataset a, b;
    char error[512];
    float x[3 * 8 * 9], y[3 * 8 * 9];
    int classes[10] = {0}, k, l;
    cr_assert(
        !dataset_open(&a, "synthetic:200x3x8x9", DATASET_TRAIN, error, 512));
    cr_assert(
        !dataset_open(&b, "synthetic:200x3x8x9", DATASET_TRAIN, error, 512));
    cr_assert(a.count == 200 && shape_count(a.image) == 3 * 8 * 9);
    for (size_t i = 0; i < a.count; i++) {
        a.ops->read(&a, i, x, &k);
        b.ops->read(&b, a.count - 1 - i, y, &l); /* another order */
        b.ops->read(&b, i, y, &l);
        cr_assert(k == l && !memcmp(x, y, sizeof(x)));
        cr_assert(k >= 0 && k < 10);
        classes[k]++;
    }
    for (int i = 0; i < 10; i++)
        cr_assert(classes[i] > 0);
    dataset_close(&a);
    dataset_close(&b);
}

enum {
    PIXELS = 3 * 32 * 32,
    RECORD = 1 + PIXELS,
    FILE_BYTES = 10000 * RECORD,
    UNIT = 512,
    ENTRY = UNIT + (FILE_BYTES + UNIT - 1) / UNIT * UNIT
};

#define ARCHIVE "cifar-10-binary.tar.gz"

/* In the order of the archive that is distributed. */
static const char *const batch_names[] = {
    "data_batch_1.bin", "data_batch_3.bin", "data_batch_4.bin",
    "test_batch.bin",   "data_batch_5.bin", "data_batch_2.bin"};

/* The record that the file `name` has first and last; zeros are between. */
static void draw_record(const char *name, unsigned char *record)
{
    const int number = name[0] == 't' ? 6 : name[11] - '0';
    record[0] = (unsigned char)(number + 3);
    for (int i = 0; i < PIXELS; i++)
        record[1 + i] = (unsigned char)(number * 53 + i * 7 + i / 256);
}

static void put_at(const char *path, long at, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "r+b");
    cr_assert(file && !fseek(file, at, SEEK_SET)
              && fwrite(bytes, 1, count, file) == count && !fclose(file));
}

/* A file with holes, which take no memory, at the offset. */
static void put_batch(const char *path, const char *name, long at)
{
    unsigned char record[RECORD];
    draw_record(name, record);
    cr_assert_eq(truncate(path, at + FILE_BYTES), 0);
    put_at(path, at, record, RECORD);
    put_at(path, at + FILE_BYTES - RECORD, record, RECORD);
}

/* bytes: -1 for a size that is no number. */
static void put_header(const char *path, long at, const char *name, long bytes,
                       char type)
{
    char header[UNIT] = {0};
    unsigned sum = 0;
    strcpy(header, name);
    strcpy(header + 100, "0000644");
    if (bytes < 0)
        strcpy(header + 124, "many");
    else
        snprintf(header + 124, 12, "%011lo", (unsigned long)bytes);
    memset(header + 148, ' ', 8);
    header[156] = type;
    memcpy(header + 257, "ustar\00000", 8);
    for (int i = 0; i < UNIT; i++)
        sum += (unsigned char)header[i];
    snprintf(header + 148, 7, "%06o", sum);
    put_at(path, at, header, UNIT);
}

/* A folder, a file that nobody asked for, and the first so many batches. */
static void put_archive(const char *path, int nbatches)
{
    char name[64];
    long at = 3 * UNIT;
    put(path, "", 0);
    put_header(path, 0, "cifar-10-batches-bin/", 0, '5');
    put_header(path, UNIT, "cifar-10-batches-bin/batches.meta.txt", 61, '0');
    for (int i = 0; i < nbatches; i++, at += ENTRY) {
        snprintf(name, sizeof(name), "cifar-10-batches-bin/%s", batch_names[i]);
        put_header(path, at, name, FILE_BYTES, '0');
        put_batch(path, batch_names[i], at + UNIT);
    }
    cr_assert_eq(truncate(path, at + 2 * UNIT), 0);
}

static void pack(const char *from, const char *to)
{
    static unsigned char bytes[1 << 20];
    FILE *file = fopen(from, "rb");
    gzFile packed = gzopen(to, "wb1");
    cr_assert(file && packed);
    for (size_t n; (n = fread(bytes, 1, sizeof(bytes), file)) > 0;)
        cr_assert(gzwrite(packed, bytes, (unsigned)n) == (int)n);
    fclose(file);
    cr_assert_eq(gzclose(packed), Z_OK);
}

static void make_cifar(struct folder *f)
{
    make_folder(f);
    snprintf(f->name, sizeof(f->name), "cifar10:%s", f->path);
    for (int i = 0; i < 6; i++) {
        put(file_in(f, batch_names[i]), "", 0);
        put_batch(file_in(f, batch_names[i]), batch_names[i], 0);
    }
}

static void remove_batches(const struct folder *f)
{
    for (int i = 0; i < 6; i++)
        remove(file_in(f, batch_names[i]));
}

static void clean_cifar(const struct folder *f)
{
    char packed[64];
    remove_batches(f);
    for (int i = 0; i < 6; i++) {
        snprintf(packed, sizeof(packed), "%s.gz", batch_names[i]);
        remove(file_in(f, packed));
    }
    remove(file_in(f, ARCHIVE));
    clean(f);
}

/* Image `index` is that of the file `name`, or black without one. */
static void expect_record(const struct dataset *d, size_t index,
                          const char *name)
{
    static const float mean[] = {0.4914f, 0.4822f, 0.4465f},
                       deviation[] = {0.2470f, 0.2435f, 0.2616f};
    unsigned char record[RECORD] = {0};
    float image[PIXELS];
    int label;
    if (name)
        draw_record(name, record);
    d->ops->read(d, index, image, &label);
    cr_assert_eq(label, record[0]);
    for (int i = 0; i < PIXELS; i++)
        cr_assert_float_eq(image[i],
                           ((float)record[1 + i] / 255 - mean[i / 1024])
                               / deviation[i / 1024],
                           1e-6);
}

static void expect_cifar(const char *name)
{
    struct dataset d;
    char error[512], batch[] = "data_batch_0.bin";
    cr_assert_eq(dataset_open(&d, name, DATASET_TRAIN, error, 512), 0, "%s",
                 error);
    cr_assert(d.count == 50000 && d.image.n == 1 && d.image.c == 3
              && d.image.h == 32 && d.image.w == 32 && d.nclasses == 10);
    for (size_t i = 0; i < 5; i++) {
        batch[11] = (char)('1' + i);
        expect_record(&d, 10000 * i, batch);
        expect_record(&d, 10000 * i + 1, NULL);
        expect_record(&d, 10000 * i + 9999, batch);
    }
    dataset_close(&d);
    cr_assert_eq(dataset_open(&d, name, DATASET_TEST, error, 512), 0, "%s",
                 error);
    cr_assert_eq(d.count, 10000);
    expect_record(&d, 0, "test_batch.bin");
    expect_record(&d, 5000, NULL);
    expect_record(&d, 9999, "test_batch.bin");
    dataset_close(&d);
}

Test(cifar10, reads_plain_packed_and_archived)
{
    struct folder f;
    char from[256], zipped[32], name[272];
    make_cifar(&f);
    expect_cifar(f.name);
    for (int i = 2; i < 4; i++) {
        snprintf(zipped, sizeof(zipped), "%s.gz", batch_names[i]);
        snprintf(from, sizeof(from), "%s", file_in(&f, batch_names[i]));
        pack(from, file_in(&f, zipped));
        remove(from);
    }
    expect_cifar(f.name);
    clean_cifar(&f);
    make_cifar(&f);
    remove_batches(&f);
    snprintf(from, sizeof(from), "%s", file_in(&f, "c"));
    put_archive(from, 6);
    snprintf(name, sizeof(name), "cifar10:%s", from);
    expect_cifar(name);
    pack(from, file_in(&f, ARCHIVE));
    expect_cifar(f.name);
    clean_cifar(&f);
}

Test(cifar10, finds_what_the_archive_unpacks_to)
{
    struct folder f;
    char parent[128], folder[192], name[160];
    make_cifar(&f);
    snprintf(parent, sizeof(parent), "%s.d", f.path);
    snprintf(folder, sizeof(folder), "%s/cifar-10-batches-bin", parent);
    cr_assert(!mkdir(parent, 0700) && !rename(f.path, folder));
    snprintf(name, sizeof(name), "cifar10:%s", parent);
    expect_cifar(name);
    cr_assert(!rename(folder, f.path) && !rmdir(parent));
    clean_cifar(&f);
}

Test(cifar10, names_each_wrong_file)
{
    static unsigned char packed[1 << 20];
    struct folder f;
    char second[256], zipped[272];
    make_cifar(&f);
    snprintf(second, sizeof(second), "%s", file_in(&f, "data_batch_2.bin"));
    snprintf(zipped, sizeof(zipped), "%s.gz", second);
    static const long bytes[] = {0, 1, RECORD, FILE_BYTES - 1};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(truncate(second, bytes[i]), 0);
        expect_error(f.name, second, "can hold at most", "30730000", NULL);
    }
    cr_assert_eq(truncate(second, FILE_BYTES + 1), 0);
    expect_error(f.name, second, "byte 30730000: found more bytes", NULL);
    put_batch(second, "data_batch_2.bin", 0);
    put_at(second, 7L * RECORD, "\12", 1);
    expect_error(f.name, second, "byte 21511: label 10, valid is 0 to 9", NULL);
    put_at(second, 7L * RECORD, "\11", 1);
    pack(second, zipped);
    const size_t count = get(zipped, packed, sizeof(packed));
    cr_assert(count > 20000 && count < sizeof(packed), "%zu", count);
    static const size_t parts[] = {0, 1, 2, 10, 1000};
    for (int i = 0; i < 5; i++) {
        put(zipped, packed, parts[i]);
        expect_error(f.name, zipped, "can hold at most", NULL);
    }
    put(zipped, packed, count - 20);
    expect_error(f.name, zipped, "found the end of the file", NULL);
    put(zipped, packed, count - 3);
    expect_error(f.name, zipped, "byte 30730000", NULL);
    packed[count - 6] ^= 1; /* gzip's checksum */
    put(zipped, packed, count);
    expect_error(f.name, zipped, "damaged", NULL);
    remove(zipped);
    remove(second);
    expect_error(f.name, second, "no such file", "test_batch.bin", ARCHIVE,
                 NULL);
    mkdir(second, 0700);
    expect_error(f.name, second, "found a folder", NULL);
    rmdir(second);
    clean_cifar(&f);
    expect_error(f.name, "data_batch_1.bin: no such file", ARCHIVE, NULL);
    expect_error("cifar10:/dev/null", "/dev/null/data_batch_1.bin", NULL);
}

Test(cifar10, names_what_is_wrong_in_an_archive)
{
    static const struct wrong {
        long at;
        const char *byte, *say;
    } wrong[] = {
        {7, "x", "byte 0: found no header whose sum fits"},
        {UNIT + 148, "x", "byte 512: found no header whose sum fits"},
        {3 * UNIT + 124, "1", "byte 1536: found no header"},
        {4 * UNIT + 2L * RECORD, "\200", "byte 8194: label 128"},
        {3 * UNIT + 6L * ENTRY, "x", "byte 184386048: found no header"},
        {4 * UNIT + 6L * ENTRY, "x", "byte 184386560: found more bytes"},
    };
    struct folder f;
    char path[256], name[272];
    make_cifar(&f);
    remove_batches(&f);
    snprintf(path, sizeof(path), "%s", file_in(&f, ARCHIVE));
    snprintf(name, sizeof(name), "cifar10:%s", path);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        put_archive(path, 6);
        put_at(path, wrong[i].at, wrong[i].byte, 1);
        expect_error(i % 2 ? name : f.name, path, wrong[i].say, NULL);
    }
    put_archive(path, 5);
    put_header(path, 3 * UNIT + 5L * ENTRY, "x/data_batch_2.bin", 9, '0');
    cr_assert_eq(truncate(path, 3 * UNIT + 6L * ENTRY), 0);
    expect_error(name, path, "data_batch_2.bin has 9 bytes", "30730000", NULL);
    put_header(path, UNIT, "batches.meta.txt", -1, '0');
    expect_error(name, path, "byte 636: found no size", NULL);
    put_archive(path, 5);
    expect_error(name, path, "found no data_batch_2.bin", NULL);
    put_archive(path, 6);
    cr_assert_eq(truncate(path, 3 * UNIT + 6L * ENTRY), 0);
    expect_error(name, path, "the end of the file within an archive's header",
                 NULL);
    cr_assert_eq(truncate(path, 3 * UNIT + 5L * ENTRY + 9999), 0);
    expect_error(name, path, "the end of the file within", NULL);
    put_archive(path, 1);
    expect_error(name, path, "can hold at most", "50000 images", NULL);
    clean_cifar(&f);
}

/* The image moved and mirrored, with what black is where it has no pixel. */
static void change(const float *image, const float *black, int form, float *to)
{
    const int down = form / 2 / 9 - 4, right = form / 2 % 9 - 4;
    for (int i = 0; i < PIXELS; i++) {
        const int x = i % 32, y = i / 32 % 32 + down,
                  from = (form % 2 ? 31 - x : x) + right;
        const bool inside = y >= 0 && y < 32 && from >= 0 && from < 32;
        to[i] = inside ? image[i / 1024 * 1024 + y * 32 + from] : black[i];
    }
}

Test(cifar10, augments_by_seed_only)
{
    enum { FORMS = 9 * 9 * 2, SEEDS = 4000, LABEL = 9 };
    static float forms[FORMS][PIXELS];
    static float image[PIXELS], black[PIXELS], again[PIXELS];
    int seen[FORMS] = {0}, label;
    struct dataset d;
    struct folder f;
    char error[512];
    make_cifar(&f);
    cr_assert_eq(dataset_open(&d, f.name, DATASET_TEST, error, 512), 0, "%s",
                 error);
    d.ops->read(&d, 0, image, &label);
    d.ops->read(&d, 1, black, &label);
    for (int i = 0; i < FORMS; i++)
        change(image, black, i, forms[i]);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        int form = 0;
        d.ops->read_augmented(&d, 9999, seed, image, &label);
        cr_assert_eq(label, LABEL);
        while (form < FORMS && memcmp(forms[form], image, sizeof(image)))
            form++;
        cr_assert(form < FORMS, "seed %llu", (unsigned long long)seed);
        seen[form]++;
        d.ops->read_augmented(&d, 1, seed + 1, again, &label);
        cr_assert(!memcmp(again, black, sizeof(black)));
        d.ops->read_augmented(&d, 9999, seed, again, &label);
        cr_assert(!memcmp(again, image, sizeof(image)));
    }
    for (int i = 0; i < FORMS; i++)
        cr_assert(seen[i], "%d", i);
    dataset_close(&d);
    clean_cifar(&f);
}

/* Mean 0 and deviation 1 in each channel, as many images of each class. */
static void expect_normal(const char *name, enum dataset_part part,
                          size_t count)
{
    static float image[PIXELS];
    double sum[3] = {0}, square[3] = {0};
    size_t classes[10] = {0};
    struct dataset d;
    char error[512];
    cr_assert_eq(dataset_open(&d, name, part, error, 512), 0, "%s", error);
    cr_assert_eq(d.count, count);
    for (size_t i = 0; i < count; i++) {
        int label;
        d.ops->read(&d, i, image, &label);
        classes[label]++;
        for (int j = 0; j < PIXELS; j++) {
            sum[j / 1024] += image[j];
            square[j / 1024] += image[j] * image[j];
        }
    }
    const double n = (double)count * 1024;
    for (int c = 0; c < 3; c++) {
        cr_assert_float_eq(sum[c] / n, 0, 0.02);
        cr_assert_float_eq(square[c] / n, 1, 0.02);
    }
    for (int i = 0; i < 10; i++)
        cr_assert_eq(classes[i], count / 10);
    dataset_close(&d);
}

Test(cifar10, reads_the_real_images)
{
    const char *where = getenv("TESTS_CIFAR10");
    char name[4096], error[512];
    snprintf(name, sizeof(name), "cifar10:%s", where ? where : "");
    if (!where && open_error(name, error))
        cr_skip_test("TESTS_CIFAR10 names no place of the images, and: %s",
                     error);
    expect_normal(name, DATASET_TRAIN, 50000);
    expect_normal(name, DATASET_TEST, 10000);
}

Test(sampler, takes_every_image_once_an_epoch)
{
    enum { MOST = 301 };
    static const size_t counts[] = {1, 2, 7, 64, 100, MOST};
    static const int ranks[] = {1, 2, 3, 8}, batches[] = {1, 3, 16, 500};
    for (int i = 0; i < 6 * 4 * 4; i++) {
        const size_t count = counts[i / 16];
        const int nranks = ranks[i / 4 % 4], batch = batches[i % 4];
        struct sampler s;
        int seen[MOST] = {0};
        cr_assert_eq(sampler_create(&s, count, 5), 0);
        const long steps = sampler_steps(count, (long)nranks * batch);
        for (long step = 0; step < steps; step++) {
            int sum = 0, global = 0;
            for (int r = 0; r < nranks; r++) {
                const struct share share =
                    sampler_share(&s, 3, step, r, nranks, batch);
                cr_assert(share.count <= batch && share.count >= 0);
                cr_assert(!share.count || share.first == (size_t)sum);
                for (int j = 0; j < share.count; j++)
                    seen[share.images[j]]++;
                sum += share.count;
                global = share.global_count;
            }
            cr_assert_eq(sum, global);
        }
        for (size_t j = 0; j < count; j++)
            cr_assert_eq(seen[j], 1);
        sampler_free(&s);
    }
}

Test(sampler, ranks_share_the_stream_of_one)
{
    enum { COUNT = 103, RANKS = 4, BATCH = 6 };
    struct sampler one, many;
    sampler_create(&one, COUNT, 9);
    sampler_create(&many, COUNT, 9);
    const long steps = sampler_steps(COUNT, RANKS * BATCH);
    for (long i = 0; i < 3 * steps; i++) {
        const struct share all =
            sampler_share(&one, i / steps, i % steps, 0, 1, RANKS * BATCH);
        for (int r = 0; r < RANKS; r++) {
            const struct share part =
                sampler_share(&many, i / steps, i % steps, r, RANKS, BATCH);
            cr_assert_eq(part.global_count, all.count);
            cr_assert(!part.count
                      || !memcmp(part.images, all.images + r * BATCH,
                                 (size_t)part.count * sizeof(uint32_t)));
        }
    }
    sampler_free(&one);
    sampler_free(&many);
}

Test(sampler, depends_on_seed_and_epoch_only)
{
    enum { COUNT = 50 };
    struct sampler a, b;
    uint32_t kept[COUNT];
    sampler_create(&a, COUNT, 1);
    sampler_create(&b, COUNT, 2);
    memcpy(kept, sampler_share(&a, 4, 0, 0, 1, COUNT).images, sizeof(kept));
    cr_assert(memcmp(kept, sampler_share(&b, 4, 0, 0, 1, COUNT).images,
                     sizeof(kept)));
    cr_assert(memcmp(kept, sampler_share(&a, 5, 0, 0, 1, COUNT).images,
                     sizeof(kept)));
    cr_assert(!memcmp(kept, sampler_share(&a, 4, 0, 0, 1, COUNT).images,
                      sizeof(kept)));
    sampler_free(&a);
    sampler_free(&b);
}

enum { NPARAMS = 61, NOPTIM = 61 };

static float numbers[NPARAMS + NOPTIM];
static char net[] = "net tiny\ninput 1x4x4\ndense 10\nsoftmax_loss\n";

static struct checkpoint example(float first)
{
    struct checkpoint c = {
        .state = {.step = 12,
                  .epoch = 3,
                  .seed = 1,
                  .images = 50,
                  .global_batch = 8,
                  .nranks = 2,
                  .lr = 0.1,
                  .schedule = "fixed",
                  .optimiser = "sgd",
                  .strategy = "sync",
                  .data = "mnist"},
        .text = net,
        .params = numbers,
        .optim = numbers + NPARAMS,
        .nparams = NPARAMS,
        .noptim = NOPTIM,
    };
    for (int i = 0; i < NPARAMS + NOPTIM; i++)
        numbers[i] = first + (float)i;
    return c;
}

static int read_error(const char *path, char *error)
{
    struct checkpoint c;
    error[0] = '\0';
    const int failed = checkpoint_read(&c, path, error, 512);
    cr_assert(failed || !error[0]);
    cr_assert(!failed || (strstr(error, path) && !strchr(error, '\n')));
    checkpoint_free(&c);
    return failed;
}

static void expect_first(const char *path, float first)
{
    struct checkpoint c, good = example(first);
    char error[512];
    cr_assert_eq(checkpoint_read(&c, path, error, 512), 0, "%s", error);
    cr_assert_str_eq(c.text, good.text);
    cr_assert(!memcmp(&c.state, &good.state, sizeof(c.state)));
    cr_assert(c.nparams == NPARAMS && c.noptim == NOPTIM);
    cr_assert(!memcmp(c.params, good.params, NPARAMS * sizeof(float)));
    cr_assert(!memcmp(c.optim, good.optim, NOPTIM * sizeof(float)));
    checkpoint_free(&c);
}

Test(checkpoint, comes_back_as_it_was)
{
    struct folder f;
    char error[512];
    make(&f);
    const struct checkpoint c = example(1);
    cr_assert_eq(checkpoint_write(file_in(&f, "c"), &c, error, 512), 0);
    expect_first(file_in(&f, "c"), 1);
    clean(&f);
}

Test(checkpoint, refuses_every_damage)
{
    unsigned char bytes[4096];
    char error[512];
    struct folder f;
    make(&f);
    const struct checkpoint c = example(1);
    cr_assert_eq(checkpoint_write(file_in(&f, "c"), &c, error, 512), 0);
    const size_t count = get(file_in(&f, "c"), bytes, sizeof(bytes));
    for (size_t i = 0; i < count; i += i < 64 ? 1 : 7) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (unsigned char)(1 << bit);
            put(file_in(&f, "c"), bytes, count);
            cr_assert(read_error(file_in(&f, "c"), error), "byte %zu", i);
            bytes[i] ^= (unsigned char)(1 << bit);
        }
    }
    for (size_t n = 0; n < count; n++) {
        put(file_in(&f, "c"), bytes, n);
        cr_assert(read_error(file_in(&f, "c"), error), "%zu bytes", n);
    }
    put(file_in(&f, "c"), bytes, count + 1);
    cr_assert(read_error(file_in(&f, "c"), error));
    put(file_in(&f, "c"), bytes, count);
    expect_first(file_in(&f, "c"), 1);
    cr_assert(read_error(f.path, error));
    cr_assert(strstr(error, "a folder"));
    clean(&f);
}

Test(checkpoint, stays_when_the_next_cannot_be_written)
{
    struct folder f;
    char error[512];
    make(&f);
    struct checkpoint c = example(1);
    cr_assert_eq(checkpoint_write(file_in(&f, "c"), &c, error, 512), 0);
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {100, RLIM_INFINITY},
                        any = {RLIM_INFINITY, RLIM_INFINITY};
    c = example(2);
    setrlimit(RLIMIT_FSIZE, &small); /* as a full disk */
    const int failed = checkpoint_write(file_in(&f, "c"), &c, error, 512);
    setrlimit(RLIMIT_FSIZE, &any);
    cr_assert_eq(failed, -1);
    cr_assert(strstr(error, "cannot write: File too large"), "%s", error);
    expect_first(file_in(&f, "c"), 1);
    cr_assert_eq(checkpoint_write("/nowhere/c", &c, error, 512), -1);
    cr_assert(strstr(error, "/nowhere/c: cannot write: No such"), "%s", error);
    clean(&f); /* which finds any temporary file that is left */
}

/* Changes a few bytes, or cuts, or appends; deterministic in i. */
static size_t mutate(unsigned char *bytes, size_t count, uint64_t seed)
{
    const uint64_t n = 1 + random_below(seed, 0, 4);
    const uint32_t reach =
        random_below(seed, 9, 2) && count > 64 ? 64 : (uint32_t)count;
    for (uint64_t i = 1; i <= n; i++)
        bytes[random_below(seed, i, reach)] =
            (unsigned char)random_u64(seed, i + 16);
    if (random_below(seed, 30, 4) == 0)
        return random_below(seed, 31, (uint32_t)count);
    return count;
}

/* So that mutations get past the checksum. */
static void repair_crc(unsigned char *bytes, size_t count)
{
    memset(bytes + 60, 0, 4);
    const uint32_t crc = (uint32_t)crc32_z(0, bytes, count);
    memcpy(bytes + 60, &crc, 4);
}

enum { CASES = 10000 };

Test(checkpoint, survives_random_damage)
{
    unsigned char good[4096], bytes[4096];
    char error[512];
    struct folder f;
    int accepted = 0;
    make(&f);
    const struct checkpoint c = example(1);
    cr_assert_eq(checkpoint_write(file_in(&f, "c"), &c, error, 512), 0);
    const size_t count = get(file_in(&f, "c"), good, sizeof(good));
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        memcpy(bytes, good, count);
        size_t n = mutate(bytes, count, seed);
        if (seed % 8 == 0)
            for (size_t i = 0; i < count; i++)
                bytes[i] = (unsigned char)random_u64(seed, i);
        if (n >= 64 && seed % 2)
            repair_crc(bytes, n);
        put(file_in(&f, "d"), bytes, n);
        accepted += !read_error(file_in(&f, "d"), error);
    }
    cr_assert(accepted < CASES / 2);
    clean(&f);
}

Test(idx, survives_random_damage)
{
    unsigned char packed[1024], bytes[1024];
    char error[512];
    struct folder f;
    int accepted = 0;
    make(&f);
    put_gzip(file_in(&f, IMAGES ".gz"), f.images, IMAGE_BYTES);
    const size_t count = get(file_in(&f, IMAGES ".gz"), packed, sizeof(packed));
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        const bool gz = seed % 3 == 0, images = seed % 3 == 1;
        const char *name = gz ? IMAGES ".gz" : images ? IMAGES : LABELS;
        const unsigned char *from = gz ? packed : images ? f.images : f.labels;
        const size_t n = gz ? count : images ? IMAGE_BYTES : LABEL_BYTES;
        memset(bytes, 0, sizeof(bytes));
        memcpy(bytes, from, n);
        put(file_in(&f, name), bytes, mutate(bytes, n, seed));
        accepted += !open_error(f.name, error);
        if (gz)
            remove(file_in(&f, name));
        else
            put(file_in(&f, name), from, n);
    }
    cr_assert(accepted > 0 && accepted < CASES * 9 / 10, "%d", accepted);
    remove(file_in(&f, IMAGES ".gz"));
    put_both(&f);
    expect_images(&f);
    clean(&f);
}
