/* SPDX-License-Identifier: MIT */
/* Pictures and archives made for tests. */
#ifndef TESTS_DRAWINGS_H
#define TESTS_DRAWINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is in memory and grows. */
struct bytes {
    uint8_t *at;
    size_t count;
};

void bytes_add(struct bytes *, const void *from, size_t count);
void bytes_free(struct bytes *);

/* Channel c of pixel x, y of a drawing: smooth, so that a JPEG is near it. */
uint8_t drawn(int number, int x, int y, int c);

/* The same with noise, so that each pixel says where it is; as a PNG. */
uint8_t rough(int number, int x, int y, int c);

enum png_kind {
    PNG_RGB_8,
    PNG_RGB_16,
    PNG_GREY_8,
    PNG_GREY_2, /* two bits a pixel */
    PNG_PALETTE,
    PNG_RGBA_8,
    PNG_INTERLACED,
    PNG_KINDS
};
struct bytes make_png(enum png_kind, int number, int w, int h);

enum jpeg_kind {
    JPEG_PLAIN, /* colours at full resolution */
    JPEG_HALF_COLOUR,
    JPEG_PROGRESSIVE,
    JPEG_GREY,
    JPEG_CMYK,
    JPEG_KINDS
};
/* In front of the pixels stands a comment of so many bytes. */
struct bytes make_jpeg(enum jpeg_kind, int number, int w, int h, int comment);

/* A member of an archive, of type '0' or another. */
void tar_add(struct bytes *, const char *path, char type, const void *from,
             size_t count);
/* A picture and its class. */
void tar_add_pair(struct bytes *, const char *key, const char *end,
                  const struct bytes *picture, const char *class);
void tar_end(struct bytes *);

#endif
