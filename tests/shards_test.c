/* SPDX-License-Identifier: MIT */
/* Data sets of pictures, in archives and in folders, and what can be wrong in
 * them. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/dataset.h"
#include "data/sampler.h"
#include "drawings.h"
#include "folder.h"

enum { SIDE = 8, PIXELS = 3 * SIDE * SIDE, NPAIRS = 5 };

static const struct shape net_takes = {1, 3, SIDE, SIDE};
static const int classes[NPAIRS] = {2, 0, 1, 2, 3};

static void open_part(struct dataset *d, const char *name,
                      enum dataset_part part)
{
    char error[512] = "";
    cr_assert_eq(dataset_open(d, name, part, net_takes, error, 512), 0, "%s",
                 error);
}

/* Picture `number` is that of rough(), normalised as ImageNet's. */
static void expect_rough(const struct dataset *d, size_t index, int number,
                         int class)
{
    static const float mean[] = {0.485f, 0.456f, 0.406f},
                       deviation[] = {0.229f, 0.224f, 0.225f};
    float image[PIXELS];
    char error[512] = "";
    int label;
    cr_assert_eq(d->ops->read(d, index, image, &label, error, 512), 0, "%s",
                 error);
    cr_assert_eq(label, class);
    for (int i = 0; i < PIXELS; i++) {
        const int c = i / (SIDE * SIDE), y = i / SIDE % SIDE, x = i % SIDE;
        const float byte = rough(number, x, y, c);
        cr_assert_float_eq(image[i], (byte / 255 - mean[c]) / deviation[c],
                           1e-5);
    }
}

/* Pairs number first.. with other files among them. */
static struct bytes make_archive(int first, int count)
{
    struct bytes tar = {0};
    tar_add(&tar, "./", '5', NULL, 0);
    tar_add(&tar, "./README", '0', "pictures", 8);
    for (int i = first; i < first + count; i++) {
        struct bytes png = make_png(PNG_RGB_8, i, SIDE, SIDE);
        char key[32], class[16];
        snprintf(key, sizeof(key), "./%06d", i);
        snprintf(class, sizeof(class), "%d\n", classes[i % NPAIRS]);
        tar_add(&tar, "._000000.jpg", '0', "of a Mac", 8);
        tar_add_pair(&tar, key, ".png", &png, class);
        bytes_free(&png);
        snprintf(key, sizeof(key), "./%06d.json", i);
        tar_add(&tar, key, '0', "{}", 2);
    }
    tar_end(&tar);
    return tar;
}

Test(shards, reads_plain_and_packed_archives_in_order)
{
    struct dataset d;
    struct folder f;
    struct bytes a = make_archive(0, 3), b = make_archive(3, 2),
                 c = make_archive(7, 1);
    folder_make(&f, "shards");
    put(file_in(&f, "train-1.tar"), b.at, b.count);
    put_gzip(file_in(&f, "train-0.tar.gz"), a.at, a.count);
    put_gzip(file_in(&f, "val.tgz"), c.at, c.count);
    open_part(&d, f.name, DATASET_TRAIN);
    cr_assert(d.count == NPAIRS && d.nclasses == 4 && d.nstripes == 2);
    cr_assert(d.stripes[0] == 0 && d.stripes[1] == 3);
    for (int i = 0; i < NPAIRS; i++)
        expect_rough(&d, (size_t)i, i, classes[i]);
    dataset_close(&d);
    open_part(&d, f.name, DATASET_TEST);
    cr_assert(d.count == 1 && d.nclasses == 2);
    expect_rough(&d, 0, 7, classes[7 % NPAIRS]);
    dataset_close(&d);
    bytes_free(&a);
    bytes_free(&b);
    bytes_free(&c);
    folder_clean(&f, "train-1.tar", "train-0.tar.gz", "val.tgz", NULL);
}

/* "shards:FOLDER/NAME" of one archive that is written there. */
static const char *put_one(const struct folder *f, const char *name,
                           const struct bytes *tar)
{
    static char text[320];
    put(file_in(f, name), tar->at, tar->count);
    snprintf(text, sizeof(text), "shards:%s", file_in(f, name));
    return text;
}

Test(shards, knows_every_form_of_long_path)
{
    struct bytes png = make_png(PNG_RGB_8, 1, SIDE, SIDE), tar = {0};
    struct dataset d;
    struct folder f;
    char path[300], records[400];
    folder_make(&f, "shards");
    memset(path, 'k', sizeof(path));
    strcpy(path + 200, ".png"); /* GNU's */
    tar_add(&tar, "././@LongLink", 'L', path, strlen(path) + 1);
    tar_add(&tar, path, '0', png.at, png.count);
    strcpy(path + 200, ".cls");
    tar_add(&tar, "././@LongLink", 'L', path, strlen(path) + 1);
    tar_add(&tar, path, '0', "1", 1);
    strcpy(path + 220, ".png"); /* POSIX's; the length counts itself */
    memset(path + 200, 'k', 20);
    snprintf(records, sizeof(records), "19 mtime=1.0000000\n234 path=%s\n",
             path);
    tar_add(&tar, "PaxHeader", 'x', records, strlen(records));
    tar_add(&tar, path, '0', png.at, png.count);
    strcpy(path + 220, ".cls");
    snprintf(records, sizeof(records), "234 path=%s\n", path);
    tar_add(&tar, "PaxHeader", 'x', records, strlen(records));
    tar_add(&tar, path, '0', "0", 1);
    tar_end(&tar);
    open_part(&d, put_one(&f, "x.tar", &tar), DATASET_TRAIN);
    cr_assert(d.count == 2 && d.nclasses == 2);
    expect_rough(&d, 0, 1, 1);
    expect_rough(&d, 1, 1, 0);
    dataset_close(&d);
    bytes_free(&tar);
    bytes_free(&png);
    folder_clean(&f, "x.tar", NULL);
}

/* Cut, the paths of a picture and of its class would be one. */
Test(shards, refuses_a_path_that_is_too_long)
{
    enum { LONG = 1024 };
    struct folder f;
    char path[LONG + 1] = "", records[LONG + 16];
    folder_make(&f, "shards");
    memset(path, 'k', LONG);
    for (int posix = 0; posix < 2; posix++) {
        struct bytes tar = {0};
        snprintf(records, sizeof(records), posix ? "%d path=%s\n" : "%.0d%s",
                 posix ? LONG + 11 : 0, path);
        tar_add(&tar, "before", posix ? 'x' : 'L', records, strlen(records));
        tar_add(&tar, path, '0', "1", 1);
        tar_end(&tar);
        expect_error(put_one(&f, "x.tar", &tar), "x.tar: byte ", "at most 1023",
                     NULL);
        bytes_free(&tar);
    }
    folder_clean(&f, "x.tar", NULL);
}

/* An archive of two files, of which the first is a picture; NULL: it is one. */
struct wrong {
    const char *first, *second, *text;
    const char *says[4];
};

Test(shards, names_what_is_wrong_with_a_pair)
{
    static const struct wrong cases[] = {
        {"a.png",        "b.cls",   "1",                                     {"a.png: found no .cls", "valid are pairs"} },
        {"a.cls",        "b.png",   NULL,                                    {"a.cls: found no .jpg"}                    },
        {"a.png",        "a.jpg",   NULL,                                    {"a.jpg: found a second picture"}           },
        {"a.png",        "a.txt",   "1",                                     {"a.png: found no .cls"}                    },
        {"a.png",        "d/a.cls", "1",                                     {"a.png: found no .cls"}                    },
        {"a.png",        "a.cls",   "",                                      {"a.cls: found no class", "a number from 0"}},
        {"a.png",        "a.cls",   "one",                                   {"a.cls: found no class"}                   },
        {"a.png",        "a.cls",   "-1",                                    {"a.cls: found no class"}                   },
        {"a.png",        "a.cls",   "1.5",                                   {"a.cls: found no class"}                   },
        {"a.png",        "a.cls",   "1 2",                                   {"a.cls: found no class"}                   },
        {"a.png",        "a.cls",   "99999999999999999",                     {"a.cls: found no class"}                   },
        {"a.png",
         "a.cls",                   "0000000000000000000000000000000000000",
         {"a.cls: found no class"}                                                                                       },
        {"a.b.png",      "a.txt",   "1",                                     {"found no picture", "KEY.jpg"}             },
        {".png",         ".cls",    "1",                                     {"found no picture"}                        },
        {"a.png\n",
         "a.cls",                   "1",
         {"byte 0: found a path with a control character"}                                                               },
        {"\x1b[2Ja.png",
         "a.cls",                   "1",
         {"byte 0: found a path with a control character"}                                                               },
    };
    struct bytes png = make_png(PNG_RGB_8, 1, SIDE, SIDE);
    struct folder f;
    folder_make(&f, "shards");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct wrong *w = &cases[i];
        struct bytes tar = {0};
        const bool later = strstr(w->first, ".cls");
        tar_add(&tar, w->first, '0', later ? "1" : (char *)png.at,
                later ? 1 : png.count);
        tar_add(&tar, w->second, '0', w->text ? w->text : (char *)png.at,
                w->text ? strlen(w->text) : png.count);
        tar_end(&tar);
        const char *name = put_one(&f, "x.tar", &tar);
        expect_error(name, "x.tar: ", w->says[0], w->says[1] ? w->says[1] : "",
                     NULL);
        bytes_free(&tar);
    }
    struct bytes tar = {0};
    tar_add(&tar, "a.png", '0', png.at, png.count);
    tar_add(&tar, "a.cls", '0', "1\0", 2);
    tar_end(&tar);
    expect_error(put_one(&f, "x.tar", &tar), "a.cls: found no class", NULL);
    bytes_free(&tar);
    bytes_free(&png);
    folder_clean(&f, "x.tar", NULL);
}

/* Where it leads is nowhere: nothing is written by its path. */
Test(shards, a_path_is_but_a_name)
{
    struct bytes png = make_png(PNG_RGB_8, 2, SIDE, SIDE), tar = {0};
    struct dataset d;
    struct folder f;
    folder_make(&f, "shards");
    tar_add_pair(&tar, "/dev/shm/../../a", ".JPG", &png, "1");
    tar_add(&tar, "b.png", '2', NULL, 0); /* a link */
    tar_add_pair(&tar, "../../b", ".jpeg", &png, "0 \n");
    tar_end(&tar);
    open_part(&d, put_one(&f, "x.tar", &tar), DATASET_TRAIN);
    cr_assert_neq(d.count, 0);
    dataset_close(&d);
    bytes_free(&tar);
    bytes_free(&png);
    folder_clean(&f, "x.tar", NULL); /* also sees that nothing else is there */
}

Test(shards, classes_txt_says_how_many)
{
    struct bytes tar = make_archive(0, NPAIRS);
    struct dataset d;
    struct folder f;
    folder_make(&f, "shards");
    put(file_in(&f, "classes.txt"), "a\nb\n\nc\nd\ne", 10);
    open_part(&d, put_one(&f, "x.tar", &tar), DATASET_TRAIN);
    cr_assert_eq(d.nclasses, 5);
    dataset_close(&d);
    put(file_in(&f, "classes.txt"), "a\nb\nc\n", 6);
    expect_error(put_one(&f, "train.tar", &tar), "000004.cls",
                 "from 0 to 2, as classes.txt has lines", NULL);
    expect_error(f.name, "train.tar: ./000004.cls", NULL);
    put(file_in(&f, "classes.txt"), "\n", 1);
    expect_error(f.name, "classes.txt: found 0 lines with a class", NULL);
    bytes_free(&tar);
    folder_clean(&f, "classes.txt", "x.tar", "train.tar", NULL);
}

Test(shards, names_the_part_that_is_missing)
{
    struct bytes tar = make_archive(0, 1);
    struct dataset d;
    struct folder f;
    char error[512] = "";
    folder_make(&f, "shards");
    expect_error("shards", "shards:PATH", NULL);
    expect_error("shards:/nowhere", "/nowhere: cannot read", NULL);
    cr_expect_eq(dataset_open(&d, f.name, DATASET_TRAIN, net_takes, error, 512),
                 1);
    cr_expect(strstr(error, "has no training images"), "%s", error);
    const char *one = put_one(&f, "train.tar", &tar);
    cr_expect_eq(dataset_open(&d, f.name, DATASET_TEST, net_takes, error, 512),
                 1);
    cr_expect(strstr(error, "has no test images"), "%s", error);
    cr_expect_eq(dataset_open(&d, one, DATASET_TEST, net_takes, error, 512), 1);
    cr_expect_eq(dataset_open(&d, one, DATASET_TRAIN,
                              (struct shape){1, 2, SIDE, SIDE}, error, 512),
                 -1);
    cr_expect(strstr(error, "1 or 3 channels"), "%s", error);
    bytes_free(&tar);
    folder_clean(&f, "train.tar", NULL);
}

Test(shards, refuses_archives_that_are_cut)
{
    struct bytes tar = make_archive(0, 2);
    struct folder f;
    char error[512];
    static unsigned char packed[1 << 16];
    folder_make(&f, "shards");
    for (size_t n = 0; n <= tar.count - 1024; n += n % 512 < 3 ? 1 : 127) {
        struct bytes part = {tar.at, n};
        cr_assert(open_error(put_one(&f, "x.tar", &part), error), "%zu", n);
        cr_assert(strstr(error, "x.tar: "), "%s", error);
    }
    put_gzip(file_in(&f, "x.tar"), tar.at, tar.count);
    const size_t count = get(file_in(&f, "x.tar"), packed, sizeof(packed));
    for (size_t n = 1; n < count; n += 7) {
        struct bytes part = {packed, n};
        cr_assert(open_error(put_one(&f, "x.tar", &part), error), "%zu", n);
    }
    bytes_free(&tar);
    folder_clean(&f, "x.tar", NULL);
}

/* Opening sees that a header is damaged; the rest is seen when it is read. */
Test(shards, a_damaged_picture_is_named)
{
    struct bytes good = make_png(PNG_RGB_8, 0, SIDE, SIDE),
                 jpeg = make_jpeg(JPEG_PLAIN, 0, 40, 40, 0);
    struct dataset d;
    struct folder f;
    float image[PIXELS];
    char error[512] = "";
    int label;
    folder_make(&f, "shards");
    for (int packed = 0; packed < 2; packed++) {
        struct bytes tar = {0}, cut = {jpeg.at, jpeg.count - 100};
        tar_add_pair(&tar, "0", ".png", &good, "0");
        tar_add_pair(&tar, "1", ".jpg", &cut, "0");
        tar_end(&tar);
        const char *name = put_one(&f, "x.tar", &tar);
        if (packed)
            put_gzip(file_in(&f, "x.tar"), tar.at, tar.count);
        open_part(&d, name, DATASET_TRAIN);
        cr_assert_eq(d.count, 2);
        expect_rough(&d, 0, 0, 0);
        cr_expect_eq(d.ops->read(&d, 1, image, &label, error, 512), -1);
        cr_expect(strstr(error, "x.tar: 1.jpg: ") && strstr(error, "end"), "%s",
                  error);
        if (!packed) { /* while it is open */
            cr_assert_eq(truncate(file_in(&f, "x.tar"), 600), 0);
            cr_expect_eq(d.ops->read(&d, 0, image, &label, error, 512), -1);
            cr_expect(strstr(error, "0.png: cannot read: the file is shorter"),
                      "%s", error);
        }
        dataset_close(&d);
        cut.count = 100;
        bytes_free(&tar);
        tar_add_pair(&tar, "1", ".jpg", &cut, "0");
        tar_end(&tar);
        expect_error(put_one(&f, "x.tar", &tar), "1.jpg: Premature end", NULL);
        bytes_free(&tar);
    }
    bytes_free(&good);
    bytes_free(&jpeg);
    folder_clean(&f, "x.tar", NULL);
}

/* A long comment comes first, so the header is not in what is read at once. */
Test(shards, finds_headers_far_behind)
{
    struct bytes jpeg = make_jpeg(JPEG_PLAIN, 4, SIDE, SIDE, 70000), tar = {0};
    struct dataset d;
    struct folder f;
    float image[PIXELS];
    char error[512];
    int label;
    folder_make(&f, "shards");
    tar_add_pair(&tar, "a", ".jpg", &jpeg, "0");
    tar_add_pair(&tar, "b", ".jpg", &jpeg, "1");
    tar_end(&tar);
    open_part(&d, put_one(&f, "x.tar", &tar), DATASET_TRAIN);
    cr_assert_eq(d.count, 2);
    cr_assert_eq(d.ops->read(&d, 1, image, &label, error, 512), 0);
    cr_assert_eq(label, 1);
    dataset_close(&d);
    bytes_free(&jpeg);
    bytes_free(&tar);
    folder_clean(&f, "x.tar", NULL);
}

static int read_all(const char *name)
{
    struct dataset d;
    float image[PIXELS];
    char error[512] = "";
    int label,
        bad = dataset_open(&d, name, DATASET_TRAIN, net_takes, error, 512);
    for (size_t i = 0; !bad && i < d.count; i++)
        bad = d.ops->read(&d, i, image, &label, error, 512)
              || d.ops->read_augmented(&d, i, 3, image, &label, error, 512);
    for (int i = 0; !bad && i < PIXELS; i++)
        cr_assert(isfinite(image[i]));
    cr_assert(!bad || (*error && !strchr(error, '\n')));
    dataset_close(&d);
    return bad;
}

Test(shards, any_bytes_are_images_or_an_error)
{
    static unsigned char from[1 << 16], bytes[1 << 16];
    struct bytes tar = {0};
    struct folder f;
    int good = 0;
    folder_make(&f, "shards");
    for (int i = 0; i < 3; i++) {
        struct bytes picture = i ? make_jpeg(JPEG_PROGRESSIVE, i, 20, 12, 0)
                                 : make_png(PNG_PALETTE, i, 9, 12);
        tar_add_pair(&tar,
                     i % 2 ? "one"
                     : i   ? "two"
                           : "none",
                     i ? ".jpg" : ".png", &picture, "1");
        bytes_free(&picture);
    }
    tar_end(&tar);
    const char *name = put_one(&f, "x.tar", &tar);
    cr_assert_eq(read_all(name), 0);
    for (int packed = 0; packed < 2; packed++) {
        if (packed)
            put_gzip(file_in(&f, "x.tar"), tar.at, tar.count);
        const size_t count = get(file_in(&f, "x.tar"), from, sizeof(from));
        for (uint64_t seed = 0; seed < MUTATIONS / 20; seed++) {
            memcpy(bytes, from, count);
            const size_t n = mutate(bytes, count, seed);
            put(file_in(&f, "x.tar"), bytes, n);
            good += !read_all(name);
        }
    }
    cr_assert(good > 0 && good < MUTATIONS / 10 * 9 / 10, "%d", good);
    bytes_free(&tar);
    folder_clean(&f, "x.tar", NULL);
}

/* Every cut and its mirror image come, of a picture that is larger by as much
 * as a net of 8x8 lets it: 9x9. */
Test(shards, augments_by_seed_only)
{
    enum { FORMS = 2 * 2 * 2, SEEDS = 200 };
    struct bytes png = make_png(PNG_RGB_8, 6, 9, 9), tar = {0};
    struct dataset d;
    struct folder f;
    int seen[FORMS] = {0}, label;
    float image[PIXELS], again[PIXELS];
    char error[512];
    folder_make(&f, "shards");
    tar_add_pair(&tar, "a", ".png", &png, "0");
    tar_end(&tar);
    open_part(&d, put_one(&f, "x.tar", &tar), DATASET_TRAIN);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        int form = 0;
        cr_assert(
            !d.ops->read_augmented(&d, 0, seed, image, &label, error, 512)
            && !d.ops->read_augmented(&d, 0, seed, again, &label, error, 512));
        cr_assert(!memcmp(image, again, sizeof(image)));
        for (; form < FORMS; form++) {
            bool same = true;
            for (int i = 0; same && i < SIDE * SIDE; i++) {
                const int x = form % 2 ? SIDE - 1 - i % SIDE : i % SIDE;
                const float byte =
                    rough(6, x + form / 2 % 2, i / SIDE + form / 4, 0);
                same = fabsf(image[i] - (byte / 255 - 0.485f) / 0.229f) < 1e-4f;
            }
            if (same)
                break;
        }
        cr_assert(form < FORMS, "seed %d", (int)seed);
        seen[form]++;
    }
    for (int i = 0; i < FORMS; i++)
        cr_expect(seen[i], "%d", i);
    dataset_close(&d);
    bytes_free(&png);
    bytes_free(&tar);
    folder_clean(&f, "x.tar", NULL);
}

/* In a file of the order of images, a batch touches two at most. */
Test(shards, tell_where_each_file_begins)
{
    enum { FILES = 4, EACH = 5, BATCH = 3 };
    struct dataset d;
    struct folder f;
    struct sampler s;
    char name[32];
    folder_make(&f, "shards");
    for (int i = 0; i < FILES; i++) {
        struct bytes tar = make_archive(i * EACH, EACH);
        snprintf(name, sizeof(name), "train%d.tar", i);
        put(file_in(&f, name), tar.at, tar.count);
        bytes_free(&tar);
    }
    open_part(&d, f.name, DATASET_TRAIN);
    cr_assert_eq(d.nstripes, FILES);
    cr_assert_eq(sampler_create(&s, d.count, 1, SHUFFLE_STRIPES), 0);
    for (long k = 0; k < sampler_steps(d.count, 2 * BATCH); k++) {
        const struct share share = sampler_share(&s, 0, k, 1, 2, BATCH);
        bool touched[FILES] = {false};
        int n = 0;
        for (int i = 0; i < share.count; i++) {
            size_t file = FILES - 1;
            while (share.images[i] < d.stripes[file])
                file--;
            n += !touched[file];
            touched[file] = true;
        }
        cr_expect(n <= 2);
    }
    sampler_free(&s);
    dataset_close(&d);
    folder_clean(&f, "train0.tar", "train1.tar", "train2.tar", "train3.tar",
                 NULL);
}

static void put_picture(const struct folder *f, const char *path, int number)
{
    struct bytes png = make_png(PNG_RGB_8, number, SIDE, SIDE);
    put(file_in(f, path), png.at, png.count);
    bytes_free(&png);
}

static void make_folders(const struct folder *f, const char *const *names)
{
    for (; *names; names++)
        cr_assert_eq(mkdir(file_in(f, *names), 0700), 0);
}

Test(folder, classes_are_in_order_of_names)
{
    static const char *const folders[] = {
        "train", "train/b", "train/a", "train/empty", "val", "val/b", NULL};
    struct dataset d;
    struct folder f;
    folder_make(&f, "folder");
    make_folders(&f, folders);
    put_picture(&f, "train/b/2.png", 2);
    put_picture(&f, "train/b/10.PNG", 1);
    put_picture(&f, "train/a/x y.jpeg", 0); /* its bytes say what it is */
    put_picture(&f, "val/b/0.jpg", 3);
    put(file_in(&f, "train/b/notes.txt"), "!", 1);
    put(file_in(&f, "train/b/.hidden.jpg"), "!", 1);
    open_part(&d, f.name, DATASET_TRAIN);
    cr_assert(d.count == 3 && d.nclasses == 3 && !d.nstripes);
    expect_rough(&d, 0, 0, 0);
    expect_rough(&d, 1, 1, 1);
    expect_rough(&d, 2, 2, 1);
    dataset_close(&d);
    open_part(&d, f.name, DATASET_TEST);
    cr_assert(d.count == 1 && d.nclasses == 3);
    expect_rough(&d, 0, 3, 1);
    dataset_close(&d);
    folder_clean(&f, "train/b/2.png", "train/b/10.PNG", "train/a/x y.jpeg",
                 "val/b/0.jpg", "train/b/notes.txt", "train/b/.hidden.jpg",
                 "val/b", "val", "train/empty", "train/a", "train/b", "train",
                 NULL);
}

Test(folder, names_what_is_wrong)
{
    static const char *const folders[] = {"train", "train/a", "test", "test/b",
                                          NULL};
    struct bytes jpeg = make_jpeg(JPEG_PLAIN, 0, 40, 40, 0);
    struct dataset d;
    struct folder f;
    float image[PIXELS];
    char error[512] = "";
    int label;
    folder_make(&f, "folder");
    expect_error("folder", "folder:PATH", NULL);
    expect_error("folder:/nowhere", "/nowhere: has no training images", NULL);
    cr_expect_eq(dataset_open(&d, f.name, DATASET_TEST, net_takes, error, 512),
                 1);
    make_folders(&f, folders);
    expect_error(f.name, "train: found no picture, valid is a folder", NULL);
    put(file_in(&f, "train/a/1.jpg"), "no picture", 10);
    expect_error(f.name, "train/a/1.jpg: found neither", NULL);
    put(file_in(&f, "train/a/1.jpg"), "", 0);
    expect_error(f.name, "train/a/1.jpg: found neither", NULL);
    put(file_in(&f, "train/a/1.jpg"), jpeg.at, jpeg.count - 100);
    open_part(&d, f.name, DATASET_TRAIN);
    cr_expect_eq(d.ops->read(&d, 0, image, &label, error, 512), -1);
    cr_expect(strstr(error, "/train/a/1.jpg: ") && strstr(error, "end"), "%s",
              error);
    dataset_close(&d);
    put_picture(&f, "test/b/1.jpg", 0);
    cr_expect_eq(dataset_open(&d, f.name, DATASET_TEST, net_takes, error, 512),
                 -1);
    cr_expect(strstr(error, "test/b: found a class that train/ has not"), "%s",
              error);
    put_picture(&f, "train/a/\n.jpg", 0);
    expect_error(f.name, "train/a: found a name with a control", NULL);
    bytes_free(&jpeg);
    folder_clean(&f, "train/a/1.jpg", "train/a/\n.jpg", "test/b/1.jpg",
                 "test/b", "test", "train/a", "train", NULL);
}
