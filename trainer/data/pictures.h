/* SPDX-License-Identifier: MIT */
/* Pictures in files, as data sets of JPEGs and PNGs have them: where each is,
 * and how it becomes what a net takes. */
#ifndef TRAINER_DATA_PICTURES_H
#define TRAINER_DATA_PICTURES_H

#include "data/dataset.h"
#include "data/resample.h"

/* Where pictures lie: an archive, whose bytes may be in memory, or a folder
 * with a file for each. */
struct place {
    char *path;
    bool folder;
    bool packed; /* its pictures are in bytes, one behind the other */
    uint8_t *bytes;
    size_t nbytes, room;
};

struct picture_at {
    uint64_t at; /* in the archive or its bytes */
    size_t name; /* in names */
    uint32_t bytes, place;
    int label;
};

struct pictures {
    struct place *places;
    struct picture_at *list;
    size_t nplaces, places_room, count, list_room;
    char *names; /* each ends with a zero */
    size_t nnames, names_room;
    size_t *stripes; /* of struct dataset */
    struct levels levels;
    char *error; /* the caller's, while the set is opened */
    size_t error_bytes;
};

enum { PICTURES_HEAD = 4096 }; /* bytes in which most headers end */

/* For a set that is opened as d->own; its net takes d->image. Or NULL with the
 * reason in error. `data` is the set's name. */
struct pictures *pictures_create(struct dataset *d, const char *data,
                                 const char *where, char *error,
                                 size_t error_bytes);
void pictures_close(struct dataset *); /* an ops->close */

/* The next return 0, or -1 with error set. */

/* The places that follow are added to it, and the pictures to the last. */
int pictures_add_place(struct pictures *, const char *path, bool folder);

/* A picture of so many bytes, of which there are `count`: all, or those at
 * its beginning, in which case 1 says that the header is longer. Its label is
 * yet to be set. */
int pictures_add(struct pictures *, const char *name, uint64_t at,
                 uint64_t whole, const uint8_t *bytes, size_t count);

/* Room for so many more bytes behind those of the last place, or NULL. */
uint8_t *pictures_room(struct pictures *, size_t bytes);

/* The set is complete: sets count and nclasses of d, the latter to nclasses or,
 * if that is 0, to what the labels need. */
void pictures_finish(struct pictures *, struct dataset *d, int nclasses);

/* Sets error, as in "train.tar: 0007.jpg: why", and returns -1. */
__attribute__((format(printf, 3, 4))) int
pictures_refuse(const struct pictures *, const char *name, const char *format,
                ...);

/* Reads so many bytes of a file. -1 with why. Thread-safe. */
int pictures_take(const char *path, uint64_t at, uint8_t *to, size_t bytes,
                  char *why, size_t why_bytes);

/* ops->read and ops->read_augmented */
int pictures_read(const struct dataset *, size_t index, float *image,
                  int *label, char *error, size_t error_bytes);
int pictures_read_augmented(const struct dataset *, size_t index, uint64_t seed,
                            float *image, int *label, char *error,
                            size_t error_bytes);

#endif
