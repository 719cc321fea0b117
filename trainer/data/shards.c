/* SPDX-License-Identifier: MIT */
/* Archives of pictures as WebDataset has them (github.com/webdataset): tar
 * files, plain or gzip, in which a picture and its class are neighbours,
 *
 *     KEY.jpg (jpeg, png)    KEY.cls: the class, a decimal number from 0
 *
 * KEY is the path up to its last part's first dot. Other files are passed over.
 * PATH is a folder with train*.tar and test*.tar, or val*.tar, each also
 * .tar.gz or .tgz, or one archive, which is for training. Where there is
 * classes.txt beside the archives, it has a line for each class.
 *
 * Plain archives stay where they are, and what is read of them when they are
 * opened are headers; packed ones are unpacked into memory.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "data/listing.h"
#include "data/pictures.h"
#include "data/tar.h"
#include "file.h"

enum { MOST_CLASSES = 1 << 20, LABEL_BYTES = 32, STEP = 1 << 20 };

struct shards {
    struct pictures *p;
    struct reader r; /* of the archive at hand */
    int nclasses;    /* of classes.txt; 0: there is none */
    /* The pair at hand: the path of what came first, and how much of that is
     * the key; 0: none. */
    char path[TAR_PATH];
    size_t key;
    bool picture, class;
    int label;
};

/* How much of a path is its key; 0: nobody looks for this file. */
static size_t key_of(const struct tar_file *f, bool *picture)
{
    const char *dot = strchr(tar_base(f), '.');
    if (!dot || dot == tar_base(f) || strchr(dot + 1, '.'))
        return 0;
    *picture = listing_is_picture(dot);
    return *picture || !strcasecmp(dot, ".cls") ? (size_t)(dot - f->path) : 0;
}

static int end_pair(struct shards *s)
{
    if (!s->key)
        return 0;
    if (!s->picture || !s->class)
        return pictures_refuse(
            s->p, s->path,
            "found no %s of this name beside it, valid are pairs of a picture "
            "and its class, one behind the other, as by tar --sort=name",
            s->picture ? ".cls" : ".jpg, .jpeg or .png");
    s->p->list[s->p->count - 1].label = s->label;
    s->key = 0;
    return 0;
}

static int take_class(struct shards *s, struct tar_file *f)
{
    const int most = s->nclasses ? s->nclasses : MOST_CLASSES;
    char text[LABEL_BYTES] = "", *end = text;
    long label = -1;
    if (f->bytes < sizeof(text)) {
        if (tar_take(&s->r, f, text, f->bytes))
            return -1;
        label = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : -1;
        while (isspace((unsigned char)*end))
            end++;
    }
    if (label < 0 || label >= most || end != text + f->bytes)
        return pictures_refuse(s->p, f->path,
                               "found no class, valid is a number from 0 to "
                               "%d%s",
                               most - 1,
                               s->nclasses ? ", as classes.txt has lines" : "");
    s->label = (int)label;
    return 0;
}

/* Its header is longer than what was taken of it. */
static int take_whole(struct shards *s, struct tar_file *f, uint64_t at,
                      const uint8_t *head, size_t count)
{
    const uint64_t bytes = f->bytes;
    if (bytes > s->r.capacity - at)
        return reader_refuse(&s->r,
                             "byte %llu: found %llu bytes of a picture, valid "
                             "are at most what is left of the file",
                             (unsigned long long)at, (unsigned long long)bytes);
    uint8_t *whole = malloc(bytes);
    if (!whole)
        return pictures_refuse(s->p, f->path, "no memory for its bytes");
    memcpy(whole, head, count);
    int failed = tar_take(&s->r, f, whole + count, bytes - count);
    if (!failed)
        failed = pictures_add(s->p, f->path, at, bytes, whole, bytes);
    free(whole);
    return failed;
}

static int take_picture(struct shards *s, struct tar_file *f)
{
    uint8_t head[PICTURES_HEAD];
    const uint64_t at = s->r.offset;
    const size_t count = f->bytes < sizeof(head) ? f->bytes : sizeof(head);
    if (tar_take(&s->r, f, head, count))
        return -1;
    const int added = pictures_add(s->p, f->path, at, f->bytes, head, count);
    return added > 0 ? take_whole(s, f, at, head, count) : added;
}

/* Memory grows as the bytes come: a header may claim any number of them. */
static int unpack_picture(struct shards *s, struct tar_file *f)
{
    struct place *place = &s->p->places[s->p->nplaces - 1];
    const size_t at = place->nbytes;
    while (f->left) {
        const size_t part = f->left < STEP ? f->left : STEP;
        uint8_t *to = pictures_room(s->p, part);
        if (!to || tar_take(&s->r, f, to, part))
            return -1;
        place->nbytes += part;
    }
    return pictures_add(s->p, f->path, at, f->bytes, place->bytes + at,
                        place->nbytes - at);
}

static int take_file(struct shards *s, struct tar_file *f)
{
    bool picture;
    const size_t key = key_of(f, &picture);
    if (!key)
        return 0;
    if ((key != s->key || memcmp(f->path, s->path, key)) && end_pair(s))
        return -1;
    if (!s->key) {
        memcpy(s->path, f->path, TAR_PATH);
        s->key = key;
        s->picture = s->class = false;
    }
    bool *const has = picture ? &s->picture : &s->class;
    if (*has)
        return pictures_refuse(s->p, f->path,
                               "found a second %s of this name, valid is one",
                               picture ? "picture" : "class");
    *has = true;
    return !picture      ? take_class(s, f)
           : s->r.packed ? unpack_picture(s, f)
                         : take_picture(s, f);
}

static int take_archive(struct shards *s, const char *path)
{
    struct tar_file f = {0};
    struct pictures *p = s->p;
    const size_t before = p->count;
    int more = -1;
    s->r = (struct reader){.path = path,
                           .valid = "a tar archive",
                           .error = p->error,
                           .error_bytes = p->error_bytes,
                           .jumps = true};
    if (!pictures_add_place(p, path, false) && !reader_open(&s->r)) {
        p->places[p->nplaces - 1].packed = s->r.packed;
        while ((more = tar_next(&s->r, &f)) == 1 && !take_file(s, &f))
            ;
    }
    reader_close(&s->r);
    if (more || end_pair(s))
        return -1;
    return p->count > before
               ? 0
               : pictures_refuse(p, "",
                                 "found no picture, valid are pairs of "
                                 "KEY.jpg, .jpeg or .png and KEY.cls");
}

/* In the folder of the archives. */
static int count_classes(struct shards *s, const char *where, bool folder)
{
    char path[PATH_MAX];
    struct stat status;
    const char *slash = folder ? NULL : strrchr(where, '/');
    const int length = folder  ? (int)strlen(where)
                       : slash ? (int)(slash - where)
                               : 1;
    const int used = snprintf(path, sizeof(path), "%.*s/classes.txt", length,
                              folder || slash ? where : ".");
    if (used >= (int)sizeof(path) || stat(path, &status))
        return 0;
    char *text = file_text(path, 1 << 26, s->p->error, s->p->error_bytes);
    if (!text)
        return -1;
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
        s->nclasses += strcspn(at, "\n") > 0;
    free(text);
    if (s->nclasses && s->nclasses <= MOST_CLASSES)
        return 0;
    snprintf(s->p->error, s->p->error_bytes,
             "%s: found %d lines with a class, valid are 1 to %d", path,
             s->nclasses, MOST_CLASSES);
    return -1;
}

static int none(const struct shards *s, const char *where, const char *part)
{
    snprintf(s->p->error, s->p->error_bytes,
             "%s: has no %s images, valid is a folder with train*.tar and "
             "test*.tar or val*.tar, each also .tar.gz or .tgz",
             where, part);
    return 1;
}

static int take_folder(struct shards *s, const char *where,
                       enum dataset_part part)
{
    static const char *const begins[][2] = {
        [DATASET_TRAIN] = {"train", "train"},
          [DATASET_TEST] = {"test",  "val"  }
    };
    char path[PATH_MAX];
    struct listing l;
    int failed = listing_read(&l, where, s->p->error, s->p->error_bytes),
        taken = 0;
    for (int i = 0; i < 2 && !taken; i++)
        for (int k = 0; !failed && k < l.count; k++) {
            if (!listing_is_archive(l.names[k])
                || strncmp(l.names[k], begins[part][i],
                           strlen(begins[part][i])))
                continue;
            taken++;
            failed = listing_path(path, where, l.names[k], s->p->error,
                                  s->p->error_bytes)
                     || take_archive(s, path);
        }
    listing_free(&l);
    return failed ? -1
           : taken
               ? 0
               : none(s, where, part == DATASET_TRAIN ? "training" : "test");
}

static int take_all(struct shards *s, const char *where, enum dataset_part part)
{
    struct stat status;
    if (stat(where, &status)) {
        snprintf(s->p->error, s->p->error_bytes, "%s: cannot read: %s", where,
                 strerror(errno));
        return -1;
    }
    const bool folder = S_ISDIR(status.st_mode);
    if (count_classes(s, where, folder))
        return -1;
    return folder                  ? take_folder(s, where, part)
           : part == DATASET_TRAIN ? take_archive(s, where)
                                   : none(s, where, "test");
}

static int open_shards(struct dataset *d, const char *where,
                       enum dataset_part part, char *error, size_t error_bytes)
{
    struct shards s = {
        .p = pictures_create(d, "shards", where, error, error_bytes)};
    const int failed = s.p ? take_all(&s, where, part) : -1;
    if (failed) {
        pictures_close(d);
        return failed;
    }
    pictures_finish(s.p, d, s.nclasses);
    d->nstripes = s.p->nplaces;
    d->stripes = s.p->stripes;
    return 0;
}

const struct dataset_ops dataset_shards = {
    .name = "shards",
    .open = open_shards,
    .read = pictures_read,
    .read_augmented = pictures_read_augmented,
    .close = pictures_close,
};
