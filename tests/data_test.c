/* SPDX-License-Identifier: MIT */
/* Data sets in IDX files, whatever can be wrong in those, and synthetic ones;
 * the sampler. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/dataset.h"
#include "data/sampler.h"
#include "folder.h"

enum {
    NIMAGES = 7,
    SIDE = 4,
    IMAGE_BYTES = 16 + NIMAGES * SIDE * SIDE,
    LABEL_BYTES = 8 + NIMAGES
};

/* A good part of a data set. */
struct part {
    struct folder in;
    unsigned char images[IMAGE_BYTES], labels[LABEL_BYTES];
};

#define IMAGES "train-images-idx3-ubyte"
#define LABELS "train-labels-idx1-ubyte"

static void put_both(const struct part *f)
{
    put(file_in(&f->in, IMAGES), f->images, IMAGE_BYTES);
    put(file_in(&f->in, LABELS), f->labels, LABEL_BYTES);
}

static void make(struct part *f)
{
    const unsigned char image_head[16] = {0, 0, 8, 3,    0, 0, 0, NIMAGES,
                                          0, 0, 0, SIDE, 0, 0, 0, SIDE};
    const unsigned char label_head[8] = {0, 0, 8, 1, 0, 0, 0, NIMAGES};
    folder_make(&f->in, "mnist");
    memcpy(f->images, image_head, 16);
    memcpy(f->labels, label_head, 8);
    for (int i = 16; i < IMAGE_BYTES; i++)
        f->images[i] = (unsigned char)(i * 37);
    for (int i = 0; i < NIMAGES; i++)
        f->labels[8 + i] = (unsigned char)(i % 10);
    put_both(f);
}

static void clean(const struct part *f)
{
    folder_clean(&f->in, IMAGES, LABELS, IMAGES ".gz", LABELS ".gz", NULL);
}

static void expect_images(const struct part *f)
{
    struct dataset d;
    char error[512];
    float image[SIDE * SIDE];
    int label;
    cr_assert_eq(dataset_open(&d, f->in.name, DATASET_TRAIN, (struct shape){0},
                              error, 512), 0,
                 "%s", error);
    cr_assert(d.count == NIMAGES && d.image.n == 1 && d.image.c == 1
              && d.image.h == SIDE && d.image.w == SIDE && d.nclasses == NIMAGES);
    for (size_t i = 0; i < NIMAGES; i++) {
        d.ops->read(&d, i, image, &label, error, 512);
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
    struct part f;
    make(&f);
    expect_images(&f);
    remove(file_in(&f.in, IMAGES));
    put_gzip(file_in(&f.in, IMAGES ".gz"), f.images, IMAGE_BYTES);
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
        {0,  1,           "byte 0: magic",            "0x0000"            },
        {1,  9,           "byte 0: magic",            "0x0000"            },
        {2,  13,          "byte 2: type 0x0d",        "0x08"              },
        {3,  1,           "byte 3: 1 dimensions",     "valid is 3"        },
        {7,  0,           "byte 4: 0 items",          "valid is 1"        },
        {7,  NIMAGES + 1, "byte 4: the sizes",        "valid"             },
        {4,  0x7f,        "byte 4: the sizes",        "one can hold"      },
        {4,  0xff,        "byte 4: 4278190087 items", "valid is 1"        },
        {7,  NIMAGES - 1, "found more bytes",         "end of the file"   },
        {11, 0,           "byte 8: 0 rows",           "valid is 1 to 4096"},
        {8,  1,           "byte 8: 16777220 rows",    "valid is 1 to 4096"},
        {11, SIDE + 1,    "byte 4: the sizes",        "one can hold"      },
        {15, 0,           "byte 12: 0 columns",       "valid is 1 to 4096"},
        {14, 0xff,        "byte 12: 65284 columns",   "valid is 1 to 4096"},
        {15, SIDE - 1,    "found more bytes",         "end of the file"   },
    };
    static const struct wrong labels[] = {
        {0,     1,           "byte 0: magic",        "0x0000"         },
        {2,     9,           "byte 2: type 0x09",    "0x08"           },
        {3,     3,           "byte 3: 3 dimensions", "valid is 1"     },
        {7,     NIMAGES - 1, "found more bytes",     "end of the file"},
        {8 + 2, 10,          "byte 10: label 10",    "valid is 0 to 9"},
        {8 + 6, 255,         "byte 14: label 255",   "valid is 0 to 9"},
    };
    struct part f;
    make(&f);
    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++) {
        const struct part good = f;
        f.images[images[i].offset] = images[i].value;
        put_both(&f);
        expect_error(f.in.name, IMAGES, images[i].say, images[i].valid, NULL);
        f = good;
    }
    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
        const struct part good = f;
        f.labels[labels[i].offset] = labels[i].value;
        put_both(&f);
        expect_error(f.in.name, LABELS, labels[i].say, labels[i].valid, NULL);
        f = good;
    }
    put_both(&f);
    expect_images(&f);
    clean(&f);
}

Test(idx, wants_as_many_labels_as_images)
{
    struct part f;
    make(&f);
    f.labels[7]--;
    put(file_in(&f.in, LABELS), f.labels, LABEL_BYTES - 1);
    expect_error(f.in.name, LABELS, "6 labels", "valid is 7", NULL);
    clean(&f);
}

Test(idx, refuses_any_other_length)
{
    unsigned char more[IMAGE_BYTES + 1] = {0}, packed[1024];
    struct part f;
    make(&f);
    for (size_t n = 0; n < IMAGE_BYTES; n++) {
        put(file_in(&f.in, IMAGES), f.images, n);
        expect_error(f.in.name, IMAGES, "byte", "valid", NULL);
    }
    memcpy(more, f.images, IMAGE_BYTES);
    put(file_in(&f.in, IMAGES), more, sizeof(more));
    expect_error(f.in.name, IMAGES, "found more bytes", NULL);
    put_gzip(file_in(&f.in, IMAGES ".gz"), more, sizeof(more));
    expect_error(f.in.name, IMAGES ".gz", "found more bytes", NULL);
    put_gzip(file_in(&f.in, IMAGES ".gz"), f.images, IMAGE_BYTES);
    const size_t bytes =
        get(file_in(&f.in, IMAGES ".gz"), packed, sizeof(packed));
    for (size_t n = 0; n < bytes; n++) {
        put(file_in(&f.in, IMAGES ".gz"), packed, n);
        expect_error(f.in.name, IMAGES ".gz", "byte", NULL);
    }
    packed[bytes - 6] ^= 1; /* gzip's checksum */
    put(file_in(&f.in, IMAGES ".gz"), packed, bytes);
    expect_error(f.in.name, IMAGES ".gz", "damaged", NULL);
    clean(&f);
}

Test(idx, refuses_what_is_no_file)
{
    struct part f;
    make(&f);
    remove(file_in(&f.in, IMAGES));
    expect_error(f.in.name, IMAGES, "cannot read", NULL);
    mkdir(file_in(&f.in, IMAGES), 0700);
    expect_error(f.in.name, IMAGES, "found a folder", NULL);
    rmdir(file_in(&f.in, IMAGES));
    clean(&f);
    expect_error("fashion-mnist:/nowhere", "/nowhere/" IMAGES,
                 "dataset-fashion-mnist", NULL);
    expect_error("mnist", "mnist:FOLDER", NULL);
}

Test(idx, survives_random_damage)
{
    unsigned char packed[1024], bytes[1024];
    char error[512];
    struct part f;
    int accepted = 0;
    make(&f);
    put_gzip(file_in(&f.in, IMAGES ".gz"), f.images, IMAGE_BYTES);
    const size_t count =
        get(file_in(&f.in, IMAGES ".gz"), packed, sizeof(packed));
    for (uint64_t seed = 1; seed <= MUTATIONS; seed++) {
        const bool gz = seed % 3 == 0, images = seed % 3 == 1;
        const char *name = gz ? IMAGES ".gz" : images ? IMAGES : LABELS;
        const unsigned char *from = gz ? packed : images ? f.images : f.labels;
        const size_t n = gz ? count : images ? IMAGE_BYTES : LABEL_BYTES;
        memset(bytes, 0, sizeof(bytes));
        memcpy(bytes, from, n);
        put(file_in(&f.in, name), bytes, mutate(bytes, n, seed));
        accepted += !open_error(f.in.name, error);
        if (gz)
            remove(file_in(&f.in, name));
        else
            put(file_in(&f.in, name), from, n);
    }
    cr_assert(accepted > 0 && accepted < MUTATIONS * 9 / 10, "%d", accepted);
    remove(file_in(&f.in, IMAGES ".gz"));
    put_both(&f);
    expect_images(&f);
    clean(&f);
}

Test(dataset, names_what_exists)
{
    expect_error("fashion-mnits", "did you mean fashion-mnist?", NULL);
    expect_error("imagenet", "imagenet",
                 "cifar10, fashion-mnist, folder, mnist, shards, synthetic", NULL);
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
        !dataset_open(&a, "synthetic:200x3x8x9", DATASET_TRAIN, (struct shape){0},
                              error, 512));
    cr_assert(
        !dataset_open(&b, "synthetic:200x3x8x9", DATASET_TRAIN, (struct shape){0},
                              error, 512));
    cr_assert(a.count == 200 && shape_count(a.image) == 3 * 8 * 9);
    for (size_t i = 0; i < a.count; i++) {
        a.ops->read(&a, i, x, &k, error, 512);
        b.ops->read(&b, a.count - 1 - i, y, &l, error, 512); /* another order */
        b.ops->read(&b, i, y, &l, error, 512);
        cr_assert(k == l && !memcmp(x, y, sizeof(x)));
        cr_assert(k >= 0 && k < 10);
        classes[k]++;
    }
    for (int i = 0; i < 10; i++)
        cr_assert(classes[i] > 0);
    dataset_close(&a);
    dataset_close(&b);
}

Test(sampler, takes_every_image_once_an_epoch)
{
    enum { MOST = 301 };
    static const size_t counts[] = {1, 2, 7, 64, 100, MOST};
    static const int ranks[] = {1, 2, 3, 8}, batches[] = {1, 3, 16, 500};
    for (int i = 0; i < 2 * 6 * 4 * 4; i++) {
        const enum shuffle shuffle = i % 2 ? SHUFFLE_STRIPES : SHUFFLE_ALL;
        const size_t count = counts[i / 32];
        const int nranks = ranks[i / 8 % 4], batch = batches[i / 2 % 4];
        struct sampler s;
        int seen[MOST] = {0};
        cr_assert_eq(sampler_create(&s, count, 5, shuffle), 0);
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

static void expect_shared_stream(enum shuffle shuffle)
{
    enum { COUNT = 103, RANKS = 4, BATCH = 6 };
    struct sampler one, many;
    sampler_create(&one, COUNT, 9, shuffle);
    sampler_create(&many, COUNT, 9, shuffle);
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

Test(sampler, ranks_share_the_stream_of_one)
{
    expect_shared_stream(SHUFFLE_ALL);
    expect_shared_stream(SHUFFLE_DRAW);
}

static void expect_seed_and_epoch_only(enum shuffle shuffle)
{
    enum { COUNT = 50 };
    struct sampler a, b;
    uint32_t kept[COUNT];
    sampler_create(&a, COUNT, 1, shuffle);
    sampler_create(&b, COUNT, 2, shuffle);
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

Test(sampler, depends_on_seed_and_epoch_only)
{
    expect_seed_and_epoch_only(SHUFFLE_ALL);
    expect_seed_and_epoch_only(SHUFFLE_DRAW);
}

/* B of the papers: with replacement. Of n places each image misses all with
 * (1 - 1 / n)^n, about 1 / e; the number that does is within 6 deviations. */
Test(sampler, drawn_images_come_with_replacement)
{
    enum { COUNT = 60000, EPOCHS = 3 };
    struct sampler s;
    cr_assert_eq(sampler_create(&s, COUNT, 7, SHUFFLE_DRAW), 0);
    int *seen = calloc(COUNT, sizeof(*seen));
    for (long epoch = 0; epoch < EPOCHS; epoch++) {
        const struct share all = sampler_share(&s, epoch, 0, 0, 1, COUNT);
        int missed = 0, most = 0, before = 0;
        for (int i = 0; i < COUNT; i++)
            before += seen[i] == 0;
        for (int i = 0; i < COUNT; i++)
            seen[all.images[i]]++;
        for (int i = 0; i < COUNT; i++) {
            missed += seen[i] == 0;
            most = seen[i] > most ? seen[i] : most;
        }
        const double expected = exp(-1) * before;
        cr_expect_float_eq(missed, expected, 6 * sqrt(expected), "%d", missed);
        cr_expect(most > 1 && most < 30, "%d", most);
    }
    free(seen);
    sampler_free(&s);
}

/* How many of `nstripes` equal files a share touches; it also adds itself to
 * the readers of each. */
static int touch(const struct share *share, size_t length, int *readers)
{
    int touched = 0;
    size_t last = SIZE_MAX;
    for (int i = 0; i < share->count; i++) {
        const size_t stripe = share->images[i] / length;
        if (stripe == last)
            continue;
        last = stripe;
        touched++;
        readers[stripe]++;
    }
    return touched;
}

/* A batch is a run of the images as they lie, the first one behind the last. */
static void expect_run(const struct share *share, size_t count)
{
    for (int i = 1; i < share->count; i++)
        cr_assert_eq(share->images[i], (share->images[i - 1] + 1) % count);
}

/* C of the papers: at most two of 32 files a batch, and of N ranks at most
 * 2 N / 32, rounded up, read one file. */
Test(sampler, stripes_have_few_readers)
{
    enum { MOST_STRIPES = 32, EPOCHS = 3 };
    static const int stripes[] = {1, 2, 3, 8, MOST_STRIPES},
                     lengths[] = {8, 13, 40}, batches[] = {1, 5, 8};
    int most = 0;
    for (int i = 0; i < 5 * 3 * 3; i++)
        for (int nranks = 1; nranks <= 65; nranks += nranks < 9 ? 1 : 7) {
            const size_t length = (size_t)lengths[i / 3 % 3],
                         n = (size_t)stripes[i / 9], count = n * length;
            const int batch = batches[i % 3],
                      bound = (2 * nranks + (int)n - 1) / (int)n;
            const long steps = sampler_steps(count, (long)nranks * batch);
            struct sampler s;
            cr_assert_eq(sampler_create(&s, count, 11, SHUFFLE_STRIPES), 0);
            for (long k = 0; k < EPOCHS * steps; k++) {
                int readers[MOST_STRIPES] = {0};
                for (int r = 0; r < nranks; r++) {
                    const struct share share = sampler_share(
                        &s, k / steps, k % steps, r, nranks, batch);
                    expect_run(&share, count);
                    const int touched = touch(&share, length, readers);
                    cr_assert(touched <= 2);
                    most = touched > most ? touched : most;
                }
                for (size_t j = 0; j < n; j++)
                    cr_assert(readers[j] <= bound,
                              "%d ranks, %zu files of %zu, batch %d: %d", nranks,
                              n, length, batch, readers[j]);
            }
            sampler_free(&s);
        }
    cr_assert_eq(most, 2);
}

Test(sampler, stripes_are_drawn_anew_each_epoch)
{
    enum { COUNT = 400, RANKS = 2, BATCH = 10, STEPS = 20, EPOCHS = 5 };
    struct sampler down, up;
    uint32_t firsts[EPOCHS][STEPS];
    sampler_create(&down, COUNT, 3, SHUFFLE_STRIPES);
    sampler_create(&up, COUNT, 3, SHUFFLE_STRIPES);
    for (long epoch = EPOCHS - 1; epoch >= 0; epoch--)
        for (long k = STEPS - 1; k >= 0; k--)
            firsts[epoch][k] =
                *sampler_share(&down, epoch, k, 1, RANKS, BATCH).images;
    for (long epoch = 0; epoch < EPOCHS; epoch++) {
        int in_turn = 0;
        for (long k = 0; k < STEPS; k++) {
            cr_assert_eq(*sampler_share(&up, epoch, k, 1, RANKS, BATCH).images,
                         firsts[epoch][k]);
            in_turn += k && firsts[epoch][k] == firsts[epoch][k - 1] + BATCH;
        }
        cr_expect(in_turn < STEPS / 2, "epoch %ld", epoch);
        /* the last one is the part's end, so it says where the part lies */
        for (long other = 0; other < epoch; other++)
            cr_expect_neq(firsts[epoch][STEPS - 1], firsts[other][STEPS - 1]);
    }
    sampler_free(&down);
    sampler_free(&up);
}
