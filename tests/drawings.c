/* SPDX-License-Identifier: MIT */
#include "drawings.h"

#include <criterion/criterion.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* wants the ones above */
#include <jpeglib.h>

void bytes_add(struct bytes *b, const void *from, size_t count)
{
    b->at = realloc(b->at, b->count + count + 1);
    cr_assert(b->at);
    if (count)
        memcpy(b->at + b->count, from, count);
    b->count += count;
}

void bytes_free(struct bytes *b)
{
    free(b->at);
    *b = (struct bytes){0};
}

uint8_t drawn(int number, int x, int y, int c)
{
    const int wave = (number * 29 + x * (2 - c) + y * (1 + c)) % 320;
    return (uint8_t)(40 + (wave < 160 ? wave : 319 - wave));
}

uint8_t rough(int number, int x, int y, int c)
{
    return (uint8_t)(number * 53 + x * 7 + y * 31 + c * 85 + x * y);
}

static void write_png(png_structp state, png_bytep from, size_t count)
{
    bytes_add(png_get_io_ptr(state), from, count);
}

static void no_flush(png_structp state)
{
    (void)state;
}

/* A line of the picture as the kind has it. */
static void fill_line(enum png_kind kind, int number, int w, int y,
                      uint8_t *line)
{
    for (int x = 0; x < w; x++) {
        const uint8_t grey = rough(number, x, y, 0);
        if (kind == PNG_GREY_8 || kind == PNG_PALETTE)
            line[x] = grey;
        if (kind == PNG_GREY_2)
            line[x / 4] = (uint8_t)((x % 4 ? line[x / 4] : 0)
                                    | (grey >> 6) << (6 - x % 4 * 2));
        for (int c = 0; c < 3; c++) {
            const uint8_t value = rough(number, x, y, c);
            if (kind == PNG_RGB_8 || kind == PNG_INTERLACED)
                line[3 * x + c] = value;
            if (kind == PNG_RGBA_8)
                line[4 * x + c] = value;
            if (kind == PNG_RGB_16) /* 257 times the byte */
                line[6 * x + 2 * c] = line[6 * x + 2 * c + 1] = value;
        }
        if (kind == PNG_RGBA_8)
            line[4 * x + 3] = (uint8_t)(x * 9);
    }
}

struct bytes make_png(enum png_kind kind, int number, int w, int h)
{
    static const struct {
        int depth, type;
    } kinds[] = {
        [PNG_RGB_8] = {8,  PNG_COLOR_TYPE_RGB    },
        [PNG_RGB_16] = {16, PNG_COLOR_TYPE_RGB    },
        [PNG_GREY_8] = {8,  PNG_COLOR_TYPE_GRAY   },
        [PNG_GREY_2] = {2,  PNG_COLOR_TYPE_GRAY   },
        [PNG_PALETTE] = {8,  PNG_COLOR_TYPE_PALETTE},
        [PNG_RGBA_8] = {8,  PNG_COLOR_TYPE_RGBA   },
        [PNG_INTERLACED] = {8,  PNG_COLOR_TYPE_RGB    },
    };
    struct bytes b = {0};
    uint8_t *line = calloc(1, 8 * (size_t)w);
    png_structp state =
        png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(state);
    cr_assert(state && info && line);
    png_set_write_fn(state, &b, write_png, no_flush);
    png_set_IHDR(state, info, (png_uint_32)w, (png_uint_32)h, kinds[kind].depth,
                 kinds[kind].type,
                 kind == PNG_INTERLACED ? PNG_INTERLACE_ADAM7
                                        : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_color palette[256];
    for (int i = 0; i < 256; i++)
        palette[i] = (png_color){(png_byte)(255 - i), (png_byte)i, 7};
    if (kind == PNG_PALETTE)
        png_set_PLTE(state, info, palette, 256);
    png_write_info(state, info);
    const int passes = png_set_interlace_handling(state);
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < h; y++) {
            fill_line(kind, number, w, y, line);
            png_write_row(state, line);
        }
    png_write_end(state, NULL);
    png_destroy_write_struct(&state, &info);
    free(line);
    return b;
}

/* In ink, as Adobe's programs store it: what is left of the light. */
static void fill_jpeg_line(enum jpeg_kind kind, int number, int w, int y,
                           uint8_t *line)
{
    for (int x = 0; x < w; x++)
        for (int c = 0; c < 4; c++)
            if (kind == JPEG_CMYK)
                line[4 * x + c] = c == 3 ? 255 : drawn(number, x, y, c);
            else if (kind == JPEG_GREY)
                line[x] = drawn(number, x, y, 0);
            else if (c < 3)
                line[3 * x + c] = drawn(number, x, y, c);
}

struct bytes make_jpeg(enum jpeg_kind kind, int number, int w, int h,
                       int comment)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned char *made = NULL;
    unsigned long count = 0;
    uint8_t *line = malloc(4 * (size_t)w);
    uint8_t *words = calloc(1, (size_t)comment + 1);
    cr_assert(line && words);
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &made, &count);
    info.image_width = (JDIMENSION)w;
    info.image_height = (JDIMENSION)h;
    info.input_components = kind == JPEG_CMYK ? 4 : kind == JPEG_GREY ? 1 : 3;
    info.in_color_space = kind == JPEG_CMYK   ? JCS_CMYK
                          : kind == JPEG_GREY ? JCS_GRAYSCALE
                                              : JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, 98, TRUE);
    if (kind == JPEG_PROGRESSIVE)
        jpeg_simple_progression(&info);
    if (kind == JPEG_CMYK)
        info.write_Adobe_marker = TRUE;
    if (kind != JPEG_HALF_COLOUR)
        info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = 1;
    jpeg_start_compress(&info, TRUE);
    for (int left = comment; left > 0; left -= 60000)
        jpeg_write_marker(&info, JPEG_COM, words,
                          left < 60000 ? (unsigned)left : 60000);
    for (int y = 0; y < h; y++) {
        fill_jpeg_line(kind, number, w, y, line);
        jpeg_write_scanlines(&info, &line, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    struct bytes b = {0};
    bytes_add(&b, made, count);
    free(made);
    free(line);
    free(words);
    return b;
}

enum { UNIT = 512 };

static void fill_up(struct bytes *b)
{
    static const uint8_t zeros[UNIT];
    bytes_add(b, zeros, (UNIT - b->count % UNIT) % UNIT);
}

void tar_add(struct bytes *b, const char *path, char type, const void *from,
             size_t count)
{
    char header[UNIT] = {0};
    unsigned sum = 0;
    memcpy(header, path, strlen(path) < 100 ? strlen(path) : 100);
    strcpy(header + 100, "0000644");
    snprintf(header + 124, 12, "%011lo", (unsigned long)count);
    memset(header + 148, ' ', 8);
    header[156] = type;
    memcpy(header + 257, "ustar\00000", 8);
    for (int i = 0; i < UNIT; i++)
        sum += (unsigned char)header[i];
    snprintf(header + 148, 7, "%06o", sum);
    bytes_add(b, header, UNIT);
    bytes_add(b, from, count);
    fill_up(b);
}

void tar_add_pair(struct bytes *b, const char *key, const char *end,
                  const struct bytes *picture, const char *class)
{
    char path[256];
    snprintf(path, sizeof(path), "%s%s", key, end);
    tar_add(b, path, '0', picture->at, picture->count);
    snprintf(path, sizeof(path), "%s.cls", key);
    tar_add(b, path, '0', class, strlen(class));
}

void tar_end(struct bytes *b)
{
    static const uint8_t zeros[2 * UNIT];
    bytes_add(b, zeros, sizeof(zeros));
}
