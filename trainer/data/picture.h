/* SPDX-License-Identifier: MIT */
/* JPEG and PNG pictures, of any size, kind and origin, in memory.
 *
 * What a picture is its first bytes say, not its name. Nothing is believed: a
 * header may claim MOST_PIXELS at most, and what a library complains of is an
 * error, be it only that the end is missing. Functions return 0, or -1 with
 * the reason in why, without the picture's name. Thread-safe.
 */
#ifndef TRAINER_DATA_PICTURE_H
#define TRAINER_DATA_PICTURE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PICTURE_MOST_PIXELS = 1 << 26, /* ImageNet's largest has 61 million */
    PICTURE_MOST_SIDE = 65500      /* a JPEG cannot have more */
};

struct size {
    int w, h;
};

struct picture {
    struct size size;
    uint8_t *rgb; /* rows of three bytes a pixel; the owner frees */
};

/* Only the header. 1 if it is not over where the bytes are. */
int picture_size(const uint8_t *bytes, size_t count, struct size *, char *why,
                 size_t why_bytes);

/* In colour, whatever it is. At least of the size `least`, if it has that: of a
 * JPEG that is much larger, smaller pictures are quicker to get. */
int picture_decode(const uint8_t *bytes, size_t count, struct size least,
                   struct picture *, char *why, size_t why_bytes);

/* What jpeg.c and png.c work on: libraries call back, and leave by longjmp. */
struct decoding {
    const uint8_t *bytes;
    size_t count, at; /* at: the next one that a library takes */
    struct size size, least;
    bool head_only, cut; /* cut: more bytes were asked for than there are */
    struct picture picture;
    void *library; /* its own, which outlives the longjmp */
    jmp_buf out;
    char *why;
    size_t why_bytes;
};

/* Sets size, and picture unless head_only; or leaves. */
void jpeg_read(struct decoding *);
void png_read(struct decoding *);
/* Frees the library's own. */
void jpeg_end(struct decoding *);
void png_end(struct decoding *);

/* For both: whether the header's size, which is set, is sane; memory for a
 * picture of the size; or they leave. */
void picture_check(struct decoding *);
void picture_take(struct decoding *, struct size);
_Noreturn void picture_leave(struct decoding *, const char *why);

#endif
