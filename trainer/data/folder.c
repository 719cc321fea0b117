/* SPDX-License-Identifier: MIT */
/* Pictures in folders, one for each class:
 *
 *     PATH/train/CLASS/NAME.jpg (jpeg, png)     PATH/test/..., or PATH/val/...
 *
 * Classes are numbered in the order of their names in train/, so that those of
 * the test images mean the same; pictures come in the order of their names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/listing.h"
#include "data/pictures.h"

#define VALID                                                                  \
    "valid is a folder with train/ and test/ or val/, each with a folder of "  \
    "pictures for each class"

static bool is_folder(const char *path)
{
    struct stat status;
    return !stat(path, &status) && S_ISDIR(status.st_mode);
}

static int take_file(struct pictures *p, const char *path, const char *name)
{
    char why[256];
    struct stat status;
    if (stat(path, &status) || !S_ISREG(status.st_mode))
        return pictures_refuse(p, name, "is no file that can be read");
    const uint64_t bytes = (uint64_t)status.st_size;
    size_t count = bytes < PICTURES_HEAD ? bytes : PICTURES_HEAD;
    int added = 1;
    while (added > 0) {
        uint8_t *head = malloc(count + 1);
        if (!head || pictures_take(path, 0, head, count, why, sizeof(why)))
            added = pictures_refuse(p, name, "%s", head ? why : "no memory");
        else
            added = pictures_add(p, name, 0, bytes, head, count);
        free(head);
        count = bytes; /* where the header is longer */
    }
    return added;
}

static int take_class(struct pictures *p, const char *part, const char *class,
                      int label)
{
    char path[PATH_MAX], file[PATH_MAX];
    struct listing l = {0};
    int failed = listing_path(path, part, class, p->error, p->error_bytes)
                 || listing_read(&l, path, p->error, p->error_bytes);
    for (int i = 0; !failed && i < l.count; i++) {
        if (!listing_is_picture(l.names[i]))
            continue;
        failed = listing_path(file, path, l.names[i], p->error, p->error_bytes)
                 || take_file(p, file, file + strlen(part) + 1);
        if (!failed)
            p->list[p->count - 1].label = label;
    }
    listing_free(&l);
    return failed ? -1 : 0;
}

/* Those of `folder` that are folders themselves. */
static int read_classes(struct listing *l, const char *folder, char *error,
                        size_t error_bytes)
{
    char path[PATH_MAX];
    int kept = 0;
    if (listing_read(l, folder, error, error_bytes))
        return -1;
    for (int i = 0; i < l->count; i++) {
        char *name = l->names[i];
        if (!listing_path(path, folder, name, error, error_bytes)
            && is_folder(path))
            l->names[kept++] = name;
        else
            free(name);
    }
    l->count = kept;
    return 0;
}

static int take_part(struct pictures *p, const char *part,
                     const struct listing *classes)
{
    struct listing l;
    int failed = read_classes(&l, part, p->error, p->error_bytes);
    if (!failed)
        failed = pictures_add_place(p, part, true);
    for (int i = 0; !failed && i < l.count; i++)
        if (!listing_has(classes, l.names[i]))
            failed = pictures_refuse(p, l.names[i],
                                     "found a class that train/ has not");
    for (int i = 0; !failed && i < classes->count; i++)
        if (listing_has(&l, classes->names[i]))
            failed = take_class(p, part, classes->names[i], i);
    listing_free(&l);
    if (!failed && !p->count)
        failed = pictures_refuse(p, "", "found no picture, " VALID);
    return failed ? -1 : 0;
}

static int take_all(struct pictures *p, struct dataset *d, const char *where,
                    enum dataset_part part)
{
    char train[PATH_MAX], test[PATH_MAX];
    struct listing classes = {0};
    if (listing_path(train, where, "train", p->error, p->error_bytes)
        || listing_path(test, where, "test", p->error, p->error_bytes))
        return -1;
    if (!is_folder(test)
        && listing_path(test, where, "val", p->error, p->error_bytes))
        return -1;
    const char *path = part == DATASET_TRAIN ? train : test;
    if (!is_folder(path)) {
        snprintf(p->error, p->error_bytes, "%s: has no %s images, " VALID,
                 where, part == DATASET_TRAIN ? "training" : "test");
        return is_folder(where) ? 1 : -1;
    }
    int failed = read_classes(&classes, is_folder(train) ? train : path,
                              p->error, p->error_bytes);
    if (!failed)
        failed = take_part(p, path, &classes);
    if (!failed)
        pictures_finish(p, d, classes.count);
    listing_free(&classes);
    return failed;
}

static int open_folder(struct dataset *d, const char *where,
                       enum dataset_part part, char *error, size_t error_bytes)
{
    struct pictures *p =
        pictures_create(d, "folder", where, error, error_bytes);
    const int failed = p ? take_all(p, d, where, part) : -1;
    if (failed)
        pictures_close(d);
    return failed;
}

const struct dataset_ops dataset_folder = {
    .name = "folder",
    .open = open_folder,
    .read = pictures_read,
    .read_augmented = pictures_read_augmented,
    .close = pictures_close,
};
