/* SPDX-License-Identifier: MIT */
/* CIFAR-10: plain, packed and archived files, and what can be wrong in them. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "data/dataset.h"
#include "folder.h"

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
    folder_make(f, "cifar10");
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
    folder_clean(f, "c", NULL);
}

/* Image `index` is that of the file `name`, or black without one. */
static void expect_record(const struct dataset *d, size_t index,
                          const char *name)
{
    static const float mean[] = {0.4914f, 0.4822f, 0.4465f},
                       deviation[] = {0.2470f, 0.2435f, 0.2616f};
    unsigned char record[RECORD] = {0};
    float image[PIXELS];
    char error[512];
    int label;
    if (name)
        draw_record(name, record);
    d->ops->read(d, index, image, &label, error, 512);
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
    cr_assert_eq(dataset_open(&d, name, DATASET_TRAIN, (struct shape){0},
                              error, 512), 0, "%s",
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
    cr_assert_eq(dataset_open(&d, name, DATASET_TEST, (struct shape){0},
                              error, 512), 0, "%s",
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
        {7,                      "x",    "byte 0: found no header whose sum fits"  },
        {UNIT + 148,             "x",    "byte 512: found no header whose sum fits"},
        {3 * UNIT + 124,         "1",    "byte 1536: found no header"              },
        {4 * UNIT + 2L * RECORD, "\200", "byte 8194: label 128"                    },
        {3 * UNIT + 6L * ENTRY,  "x",    "byte 184386048: found no header"         },
        {4 * UNIT + 6L * ENTRY,  "x",    "byte 184386560: found more bytes"        },
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
    cr_assert_eq(dataset_open(&d, f.name, DATASET_TEST, (struct shape){0},
                              error, 512), 0, "%s",
                 error);
    d.ops->read(&d, 0, image, &label, error, 512);
    d.ops->read(&d, 1, black, &label, error, 512);
    for (int i = 0; i < FORMS; i++)
        change(image, black, i, forms[i]);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        int form = 0;
        d.ops->read_augmented(&d, 9999, seed, image, &label, error, 512);
        cr_assert_eq(label, LABEL);
        while (form < FORMS && memcmp(forms[form], image, sizeof(image)))
            form++;
        cr_assert(form < FORMS, "seed %llu", (unsigned long long)seed);
        seen[form]++;
        d.ops->read_augmented(&d, 1, seed + 1, again, &label, error, 512);
        cr_assert(!memcmp(again, black, sizeof(black)));
        d.ops->read_augmented(&d, 9999, seed, again, &label, error, 512);
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
    cr_assert_eq(dataset_open(&d, name, part, (struct shape){0},
                              error, 512), 0, "%s", error);
    cr_assert_eq(d.count, count);
    for (size_t i = 0; i < count; i++) {
        int label;
        d.ops->read(&d, i, image, &label, error, 512);
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
