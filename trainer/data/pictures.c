/* SPDX-License-Identifier: MIT */
#include "data/pictures.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "random.h"

enum { MOST_SIDE = 4096 }; /* of what a net takes */

struct pictures *pictures_create(struct dataset *d, const char *data,
                                 const char *where, char *error,
                                 size_t error_bytes)
{
    /* of ImageNet's training set, as parts of 255; of its brightness */
    static const float mean[] = {0.485f, 0.456f, 0.406f},
                       deviation[] = {0.229f, 0.224f, 0.225f};
    static const float grey[] = {0.459f, 0.226f};
    const struct shape s = d->image;
    if (!where) {
        snprintf(error, error_bytes,
                 "data set \"%s\" has no path, valid is %s:PATH", data, data);
        return NULL;
    }
    if ((s.c != 1 && s.c != 3) || s.h < 1 || s.h > MOST_SIDE || s.w < 1
        || s.w > MOST_SIDE) {
        snprintf(error, error_bytes,
                 "the net takes %dx%dx%d, valid for %s are 1 or 3 channels and "
                 "sides up to %d",
                 s.c, s.h, s.w, data, MOST_SIDE);
        return NULL;
    }
    struct pictures *p = calloc(1, sizeof(*p));
    if (!p) {
        snprintf(error, error_bytes, "%s: no memory", where);
        return NULL;
    }
    for (int c = 0; c < s.c; c++) {
        const float m = s.c == 1 ? grey[0] : mean[c],
                    v = s.c == 1 ? grey[1] : deviation[c];
        p->levels.scale[c] = 1 / (255 * v);
        p->levels.shift[c] = -m / v;
    }
    p->error = error;
    p->error_bytes = error_bytes;
    d->own = p;
    return p;
}

void pictures_close(struct dataset *d)
{
    struct pictures *p = d->own;
    if (!p)
        return;
    for (size_t i = 0; i < p->nplaces; i++) {
        free(p->places[i].path);
        free(p->places[i].bytes);
    }
    free(p->places);
    free(p->list);
    free(p->names);
    free(p->stripes);
    free(p);
    d->own = NULL;
}

/* "PATH: NAME: ", or "PATH/NAME: " in a folder; its length. */
static size_t begin(char *text, size_t bytes, const struct place *place,
                    const char *name)
{
    const int used = snprintf(text, bytes, "%s%s%s: ", place->path,
                              !*name          ? ""
                              : place->folder ? "/"
                                              : ": ",
                              name);
    return used < 0 || (size_t)used >= bytes ? bytes : (size_t)used;
}

int pictures_refuse(const struct pictures *p, const char *name,
                    const char *format, ...)
{
    va_list args;
    const size_t used =
        begin(p->error, p->error_bytes, &p->places[p->nplaces - 1], name);
    va_start(args, format);
    if (used < p->error_bytes)
        vsnprintf(p->error + used, p->error_bytes - used, format, args);
    va_end(args);
    return -1;
}

static int no_memory(const struct pictures *p)
{
    snprintf(p->error, p->error_bytes, "no memory for a list of %zu pictures",
             p->count);
    return -1;
}

/* An array with room for so many more items, or NULL. */
static void *grow(void *array, size_t used, size_t more, size_t *room,
                  size_t item)
{
    if (more <= *room - used)
        return array;
    size_t wanted = 2 * *room > 64 ? 2 * *room : 64;
    if (wanted - used < more)
        wanted = used + more;
    void *larger = realloc(array, wanted * item);
    if (larger)
        *room = wanted;
    return larger;
}

int pictures_add_place(struct pictures *p, const char *path, bool folder)
{
    struct place *places =
        grow(p->places, p->nplaces, 1, &p->places_room, sizeof(*places));
    if (!places)
        return no_memory(p);
    p->places = places;
    size_t *stripes = realloc(p->stripes, (p->nplaces + 1) * sizeof(*stripes));
    if (!stripes)
        return no_memory(p);
    p->stripes = stripes;
    char *copy = strdup(path);
    if (!copy)
        return no_memory(p);
    stripes[p->nplaces] = p->count;
    places[p->nplaces++] = (struct place){.path = copy, .folder = folder};
    return 0;
}

uint8_t *pictures_room(struct pictures *p, size_t bytes)
{
    struct place *place = &p->places[p->nplaces - 1];
    uint8_t *all = grow(place->bytes, place->nbytes, bytes, &place->room, 1);
    if (!all) {
        pictures_refuse(p, "", "no memory to unpack it");
        return NULL;
    }
    place->bytes = all;
    return all + place->nbytes;
}

static int keep_name(struct pictures *p, const char *name)
{
    const size_t bytes = strlen(name) + 1;
    char *names = grow(p->names, p->nnames, bytes, &p->names_room, 1);
    if (!names)
        return no_memory(p);
    memcpy(names + p->nnames, name, bytes);
    p->names = names;
    p->nnames += bytes;
    return 0;
}

int pictures_add(struct pictures *p, const char *name, uint64_t at,
                 uint64_t whole, const uint8_t *bytes, size_t count)
{
    char why[256];
    struct size size;
    if (whole > INT32_MAX)
        return pictures_refuse(p, name, "found %llu bytes, valid are up to %d",
                               (unsigned long long)whole, INT32_MAX);
    const int cut = picture_size(bytes, count, &size, why, sizeof(why));
    if (cut > 0 && count < whole)
        return 1;
    if (cut)
        return pictures_refuse(p, name, "%s", why);
    struct picture_at *list =
        grow(p->list, p->count, 1, &p->list_room, sizeof(*list));
    if (!list)
        return no_memory(p);
    p->list = list;
    list[p->count] = (struct picture_at){.at = at,
                                         .name = p->nnames,
                                         .bytes = (uint32_t)whole,
                                         .place = (uint32_t)p->nplaces - 1};
    if (keep_name(p, name))
        return -1;
    p->count++;
    return 0;
}

void pictures_finish(struct pictures *p, struct dataset *d, int nclasses)
{
    int highest = 0;
    for (size_t i = 0; i < p->count; i++)
        highest = p->list[i].label > highest ? p->list[i].label : highest;
    d->count = p->count;
    d->nclasses = nclasses ? nclasses : highest + 1;
    p->error = NULL;
}

int pictures_take(const char *path, uint64_t at, uint8_t *to, size_t bytes,
                  char *why, size_t why_bytes)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t done = 0;
    ssize_t got = 1;
    while (file >= 0 && done < bytes && got > 0) {
        got = pread(file, to + done, bytes - done, (off_t)(at + done));
        done += got > 0 ? (size_t)got : 0;
    }
    if (done < bytes)
        snprintf(why, why_bytes, "cannot read: %s",
                 file < 0 || got < 0 ? strerror(errno)
                                     : "the file is shorter than it was");
    if (file >= 0)
        close(file);
    return done < bytes ? -1 : 0;
}

/* What is packed; NULL with why. *taken is for the caller to free. */
static const uint8_t *bytes_of(const struct pictures *p,
                               const struct picture_at *at, uint8_t **taken,
                               char *why, size_t why_bytes)
{
    const struct place *place = &p->places[at->place];
    char path[PATH_MAX];
    *taken = NULL;
    if (place->packed)
        return place->bytes + at->at;
    if (place->folder
        && snprintf(path, sizeof(path), "%s/%s", place->path,
                    p->names + at->name)
               >= (int)sizeof(path)) {
        snprintf(why, why_bytes, "the path is too long");
        return NULL;
    }
    *taken = malloc(at->bytes);
    if (!*taken) {
        snprintf(why, why_bytes, "no memory for its %u bytes", at->bytes);
        return NULL;
    }
    return pictures_take(place->folder ? path : place->path, at->at, *taken,
                         at->bytes, why, why_bytes)
               ? NULL
               : *taken;
}

/* In the middle, or where chance wants it. */
static struct cut place_cut(struct size full, struct shape part,
                            const uint64_t *seed)
{
    const int right = full.w - part.w, down = full.h - part.h;
    if (!seed)
        return (struct cut){full, right / 2, down / 2, false};
    return (struct cut){full, (int)random_below(*seed, 1, (uint32_t)right + 1),
                        (int)random_below(*seed, 0, (uint32_t)down + 1),
                        random_below(*seed, 2, 2)};
}

static int decode(const struct pictures *p, struct shape part,
                  const uint8_t *bytes, size_t count, const uint64_t *seed,
                  float *image, char *why, size_t why_bytes)
{
    const struct size wanted = {part.w, part.h};
    struct picture picture;
    struct size size;
    if (picture_size(bytes, count, &size, why, why_bytes))
        return -1;
    const struct size full = resample_full(size, wanted);
    if (picture_decode(bytes, count, full, &picture, why, why_bytes))
        return -1;
    const struct cut cut = place_cut(full, part, seed);
    const int failed = resample(&picture, &cut, part, &p->levels, image);
    free(picture.rgb);
    if (failed)
        snprintf(why, why_bytes, "no memory to scale it");
    return failed;
}

static int read_one(const struct dataset *d, size_t index, const uint64_t *seed,
                    float *image, int *label, char *error, size_t error_bytes)
{
    const struct pictures *p = d->own;
    const struct picture_at *at = &p->list[index];
    char why[256];
    uint8_t *taken;
    const uint8_t *bytes = bytes_of(p, at, &taken, why, sizeof(why));
    const int failed =
        !bytes
        || decode(p, d->image, bytes, at->bytes, seed, image, why, sizeof(why));
    free(taken);
    *label = at->label;
    if (!failed)
        return 0;
    const size_t used =
        begin(error, error_bytes, &p->places[at->place], p->names + at->name);
    if (used < error_bytes)
        snprintf(error + used, error_bytes - used, "%s", why);
    return -1;
}

int pictures_read(const struct dataset *d, size_t index, float *image,
                  int *label, char *error, size_t error_bytes)
{
    return read_one(d, index, NULL, image, label, error, error_bytes);
}

int pictures_read_augmented(const struct dataset *d, size_t index,
                            uint64_t seed, float *image, int *label,
                            char *error, size_t error_bytes)
{
    return read_one(d, index, &seed, image, label, error, error_bytes);
}
