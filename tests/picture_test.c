/* SPDX-License-Identifier: MIT */
/* JPEG and PNG pictures of all kinds, whole and damaged, and how they are
 * scaled and cut. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/resample.h"
#include "drawings.h"
#include "folder.h"
#include "random.h"

static const struct size any = {1 << 20, 1 << 20}; /* as large as it is */

static struct picture decode(const struct bytes *b, struct size least)
{
    char why[256] = "";
    struct picture p = {0};
    cr_assert_eq(picture_decode(b->at, b->count, least, &p, why, sizeof(why)),
                 0, "%s", why);
    return p;
}

/* What a PNG of the kind shows. */
static uint8_t shown(enum png_kind kind, int x, int y, int c)
{
    const uint8_t grey = rough(3, x, y, 0);
    switch (kind) {
    case PNG_GREY_8:
        return grey;
    case PNG_GREY_2:
        return (uint8_t)((grey >> 6) * 85);
    case PNG_PALETTE:
        return c == 2 ? 7 : c ? grey : 255 - grey;
    default:
        return rough(3, x, y, c);
    }
}

Test(picture, png_of_every_kind_is_exact)
{
    enum { W = 21, H = 13 };
    for (enum png_kind kind = 0; kind < PNG_KINDS; kind++) {
        struct bytes b = make_png(kind, 3, W, H);
        struct size size;
        char why[256];
        cr_assert_eq(picture_size(b.at, b.count, &size, why, 256), 0, "%s",
                     why);
        cr_assert(size.w == W && size.h == H);
        struct picture p = decode(&b, any);
        cr_assert(p.size.w == W && p.size.h == H);
        for (int i = 0; i < W * H * 3; i++)
            cr_assert_eq(p.rgb[i], shown(kind, i / 3 % W, i / 3 / W, i % 3),
                         "kind %d, number %d", (int)kind, i);
        free(p.rgb);
        bytes_free(&b);
    }
}

/* Quality 98 of a smooth drawing. */
Test(picture, jpeg_of_every_kind_is_near)
{
    enum { W = 50, H = 39 };
    for (enum jpeg_kind kind = 0; kind < JPEG_KINDS; kind++) {
        struct bytes b = make_jpeg(kind, 2, W, H, 0);
        struct picture p = decode(&b, any);
        double off = 0;
        cr_assert(p.size.w == W && p.size.h == H);
        for (int i = 0; i < W * H * 3; i++)
            off += abs(p.rgb[i]
                       - drawn(2, i / 3 % W, i / 3 / W,
                               kind == JPEG_GREY ? 0 : i % 3));
        cr_expect(off / (W * H * 3) < 3, "kind %d: %g", (int)kind,
                  off / (W * H * 3));
        free(p.rgb);
        bytes_free(&b);
    }
}

Test(picture, jpeg_is_read_smaller_where_less_is_wanted)
{
    static const struct {
        struct size least, got;
    } cases[] = {
        {{400, 300}, {400, 300}},
        {{201, 10},  {400, 300}},
        {{200, 150}, {200, 150}},
        {{100, 76},  {200, 150}},
        {{100, 75},  {100, 75} },
        {{1, 1},     {50, 38}  },
    };
    struct bytes b = make_jpeg(JPEG_PLAIN, 1, 400, 300, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct picture p = decode(&b, cases[i].least);
        cr_expect(p.size.w == cases[i].got.w && p.size.h == cases[i].got.h,
                  "%zu: %dx%d", i, p.size.w, p.size.h);
        free(p.rgb);
    }
    bytes_free(&b);
}

/* A comment may be longer than what is read at first. */
Test(picture, a_header_may_be_cut)
{
    struct bytes b = make_jpeg(JPEG_PLAIN, 1, 30, 20, 70000);
    struct size size;
    char why[256];
    cr_expect_eq(picture_size(b.at, 4096, &size, why, 256), 1);
    cr_expect_eq(picture_size(b.at, 70900, &size, why, 256), 0, "%s", why);
    cr_expect(size.w == 30 && size.h == 20);
    bytes_free(&b);
}

static void expect_damaged(const struct bytes *b, size_t count)
{
    char why[256] = "";
    struct picture p;
    /* a copy of its own, so that a sanitizer sees reads beyond it */
    uint8_t *part = malloc(count + !count);
    memcpy(part, b->at, count);
    cr_assert_eq(picture_decode(part, count, any, &p, why, sizeof(why)), -1,
                 "%zu of %zu bytes were enough", count, b->count);
    cr_assert(*why && !strchr(why, '\n'));
    free(part);
}

Test(picture, every_truncation_is_an_error)
{
    for (enum jpeg_kind kind = 0; kind < JPEG_KINDS; kind++) {
        struct bytes b = make_jpeg(kind, 0, 20, 16, 0);
        for (size_t n = 0; n < b.count; n++)
            expect_damaged(&b, n);
        bytes_free(&b);
    }
    for (enum png_kind kind = 0; kind < PNG_KINDS; kind++) {
        struct bytes b = make_png(kind, 0, 9, 7);
        for (size_t n = 0; n < b.count; n++)
            expect_damaged(&b, n);
        bytes_free(&b);
    }
}

Test(picture, any_bytes_are_a_picture_or_an_error)
{
    int good = 0, all = 0;
    for (int i = 0; i < JPEG_KINDS + PNG_KINDS; i++) {
        struct bytes b =
            i < JPEG_KINDS ? make_jpeg((enum jpeg_kind)i, 0, 20, 16, 0)
                           : make_png((enum png_kind)(i - JPEG_KINDS), 0, 9, 7);
        for (uint64_t seed = 0; seed < MUTATIONS / 50; seed++, all++) {
            char why[256] = "";
            struct picture p = {0};
            unsigned char *bytes = malloc(b.count);
            memcpy(bytes, b.at, b.count);
            const size_t n = mutate(bytes, b.count, seed);
            if (!picture_decode(bytes, n, (struct size){8, 8}, &p, why, 256))
                good++;
            else
                cr_assert(*why && !strchr(why, '\n'));
            free(p.rgb);
            free(bytes);
        }
        bytes_free(&b);
    }
    cr_assert(good > 0 && good < all * 9 / 10, "%d of %d", good, all);
}

static void expect_refused(const uint8_t *bytes, size_t count, const char *word)
{
    struct size size;
    char why[256] = "";
    cr_assert_eq(picture_size(bytes, count, &size, why, 256), -1);
    cr_assert(strstr(why, word), "\"%s\" lacks \"%s\"", why, word);
}

/* A few bytes may claim any size, and no memory is taken for that. */
Test(picture, a_header_may_not_claim_too_much)
{
    struct bytes jpeg = make_jpeg(JPEG_GREY, 0, 8, 8, 0),
                 png = make_png(PNG_GREY_8, 0, 8, 8);
    size_t at = 2; /* of the frame's header: marker ff c0, length, depth */
    while (jpeg.at[at + 1] != 0xc0)
        at += 2 + (size_t)(jpeg.at[at + 2] << 8 | jpeg.at[at + 3]);
    memset(jpeg.at + at + 5, 0xff, 4);
    expect_refused(jpeg.at, jpeg.count, "65500");
    memcpy(jpeg.at + at + 5, "\x40\x00\x40\x00", 4); /* 16384 each */
    expect_refused(jpeg.at, jpeg.count, "16384x16384 pixels");
    memcpy(jpeg.at + at + 5, "\x00\x10\x00\x00", 4);
    expect_refused(jpeg.at, jpeg.count, "");
    png.at[16 + 1] = 2; /* the width; then the header's sum is wrong, too */
    expect_refused(png.at, png.count, "");
    expect_refused((const uint8_t *)"GIF89a", 6, "neither a JPEG nor a PNG");
    expect_refused((const uint8_t *)"", 0, "neither a JPEG nor a PNG");
    bytes_free(&jpeg);
    bytes_free(&png);
}

/* The picture of a net's side is not scaled; others as for ImageNet. */
Test(resample, scales_the_shorter_side)
{
    static const struct {
        struct size picture, part, full;
    } cases[] = {
        {{32, 32},   {32, 32},   {32, 32}   },
        {{500, 375}, {224, 224}, {341, 256} },
        {{375, 500}, {224, 224}, {256, 341} },
        {{224, 224}, {224, 224}, {224, 224} },
        {{256, 256}, {224, 224}, {256, 256} },
        {{10, 10},   {224, 224}, {256, 256} },
        {{28, 30},   {28, 28},   {32, 34}   },
        {{1, 65500}, {4, 4},     {5, 327500}},
        {{400, 100}, {224, 112}, {512, 128} },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct size got = resample_full(cases[i].picture, cases[i].part);
        cr_expect(got.w == cases[i].full.w && got.h == cases[i].full.h,
                  "%zu: %dx%d", i, got.w, got.h);
    }
}

/* Channel c of one pixel of the whole scaled picture, by the definition. */
static double scaled(const struct picture *p, struct size full, int x, int y,
                     int c)
{
    const double across = (double)p->size.w / full.w,
                 down = (double)p->size.h / full.h, wide = fmax(across, 1),
                 high = fmax(down, 1);
    double sum = 0, weights = 0;
    for (int i = 0; i < p->size.h; i++)
        for (int j = 0; j < p->size.w; j++) {
            const double w =
                fmax(0, 1 - fabs(j + 0.5 - (x + 0.5) * across) / wide)
                * fmax(0, 1 - fabs(i + 0.5 - (y + 0.5) * down) / high);
            weights += w;
            sum += w * p->rgb[3 * (i * p->size.w + j) + c];
        }
    return sum / weights;
}

Test(resample, is_a_mean_of_the_pixels_around)
{
    static const struct {
        struct size picture;
        struct shape part;
        struct cut cut;
    } cases[] = {
        {{12, 9},  {1, 3, 9, 12}, {{12, 9}, 0, 0, false} },
        {{12, 9},  {1, 3, 4, 5},  {{12, 9}, 7, 5, true}  },
        {{20, 17}, {1, 3, 6, 7},  {{9, 8}, 2, 1, false}  },
        {{20, 17}, {1, 3, 6, 7},  {{9, 8}, 0, 2, true}   },
        {{5, 4},   {1, 3, 8, 8},  {{13, 10}, 5, 2, false}},
        {{1, 7},   {1, 3, 2, 2},  {{3, 21}, 1, 19, false}},
        {{20, 17}, {1, 1, 6, 7},  {{9, 8}, 2, 1, true}   },
        {{30, 3},  {1, 3, 2, 9},  {{9, 8}, 0, 3, false}  },
    };
    const struct levels levels = {
        {0.5f, 2,  -1   },
        {1,    -3, 0.25f}
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct shape s = cases[i].part;
        const struct cut *cut = &cases[i].cut;
        struct bytes b =
            make_png(PNG_RGB_8, (int)i, cases[i].picture.w, cases[i].picture.h);
        struct picture p = decode(&b, any);
        float got[3 * 12 * 12];
        cr_assert_eq(resample(&p, cut, s, &levels, got), 0);
        for (int k = 0; k < (int)shape_count(s); k++) {
            const int c = k / (s.h * s.w), y = k / s.w % s.h,
                      x = cut->mirrored ? s.w - 1 - k % s.w : k % s.w;
            double want[3];
            for (int j = 0; j < 3; j++)
                want[j] = scaled(&p, cut->full, cut->x + x, cut->y + y, j);
            if (s.c == 1)
                want[0] = 0.299 * want[0] + 0.587 * want[1] + 0.114 * want[2];
            const double value = levels.scale[c] * want[c] + levels.shift[c];
            cr_assert_float_eq(got[k], value, 1e-3, "case %zu, %d: %g, not %g",
                               i, k, (double)got[k], value);
        }
        free(p.rgb);
        bytes_free(&b);
    }
}
