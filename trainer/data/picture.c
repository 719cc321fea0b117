/* SPDX-License-Identifier: MIT */
#include "data/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By the first bytes, which the formats fix. */
static const struct format {
    const char *magic;
    size_t magic_bytes;
    void (*read)(struct decoding *), (*end)(struct decoding *);
} formats[] = {
    {"\xff\xd8\xff",      3, jpeg_read, jpeg_end},
    {"\x89PNG\r\n\x1a\n", 8, png_read,  png_end },
};

_Noreturn void picture_leave(struct decoding *d, const char *why)
{
    snprintf(d->why, d->why_bytes, "%s", why);
    for (char *at = d->why; *at; at++) /* libraries quote what they read */
        if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
            *at = '?';
    longjmp(d->out, 1);
}

void picture_check(struct decoding *d)
{
    char why[160];
    const struct size s = d->size;
    if (s.w > 0 && s.h > 0 && s.w <= PICTURE_MOST_SIDE
        && s.h <= PICTURE_MOST_SIDE
        && (int64_t)s.w * s.h <= PICTURE_MOST_PIXELS)
        return;
    snprintf(
        why, sizeof(why),
        "its header says %dx%d pixels, valid are sides from 1 to %d and at "
        "most %d pixels",
        s.w, s.h, PICTURE_MOST_SIDE, PICTURE_MOST_PIXELS);
    picture_leave(d, why);
}

void picture_take(struct decoding *d, struct size size)
{
    d->picture.size = size;
    d->picture.rgb = malloc(3 * (size_t)size.w * (size_t)size.h);
    if (!d->picture.rgb)
        picture_leave(d, "no memory for its pixels");
}

static const struct format *format_of(const struct decoding *d)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (d->count >= formats[i].magic_bytes
            && !memcmp(d->bytes, formats[i].magic, formats[i].magic_bytes))
            return &formats[i];
    snprintf(d->why, d->why_bytes,
             "found neither a JPEG nor a PNG picture by its first bytes");
    return NULL;
}

static int decode(struct decoding *d)
{
    const struct format *format = format_of(d);
    if (!format)
        return -1;
    if (setjmp(d->out)) {
        format->end(d);
        free(d->picture.rgb);
        return -1;
    }
    format->read(d);
    format->end(d);
    return 0;
}

int picture_size(const uint8_t *bytes, size_t count, struct size *size,
                 char *why, size_t why_bytes)
{
    struct decoding d = {.bytes = bytes,
                         .count = count,
                         .head_only = true,
                         .why = why,
                         .why_bytes = why_bytes};
    if (decode(&d))
        return d.cut ? 1 : -1;
    *size = d.size;
    return 0;
}

int picture_decode(const uint8_t *bytes, size_t count, struct size least,
                   struct picture *to, char *why, size_t why_bytes)
{
    struct decoding d = {.bytes = bytes,
                         .count = count,
                         .least = least,
                         .why = why,
                         .why_bytes = why_bytes};
    if (decode(&d))
        return -1;
    *to = d.picture;
    return 0;
}
