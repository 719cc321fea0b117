/* SPDX-License-Identifier: MIT */
#include "data/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct size resample_full(struct size p, struct size part)
{
    if (p.w == part.w && p.h == part.h)
        return part;
    const double wide = round(part.w * 256 / 224.0),
                 high = round(part.h * 256 / 224.0);
    const double x = wide / p.w, y = high / p.h, times = x > y ? x : y;
    const double w = round(p.w * times), h = round(p.h * times);
    return (struct size){(int)(w > wide ? w : wide),
                         (int)(h > high ? h : high)};
}

/* Which pixels of a line, or lines, weigh how much in each of the part's n:
 * `taps` from first[i] on. */
struct axis {
    int n, taps;
    int *first;
    float *weight;
};

static void axis_free(struct axis *a)
{
    free(a->first);
    free(a->weight);
}

static void weigh(struct axis *a, int i, double centre, double reach, int from)
{
    float *weight = a->weight + (size_t)i * (size_t)a->taps;
    double sum = 0;
    int first = (int)floor(centre - reach + 0.5);
    first = first > 0 ? first : 0;
    first = first < from - a->taps ? first : from - a->taps;
    a->first[i] = first = first > 0 ? first : 0;
    for (int t = 0; t < a->taps; t++) {
        const double far = fabs(first + t + 0.5 - centre) / reach;
        const double w = far < 1 && first + t < from ? 1 - far : 0;
        weight[t] = (float)w;
        sum += w;
    }
    for (int t = 0; t < a->taps; t++)
        weight[t] = (float)(weight[t] / sum);
}

/* From so many pixels to n of `full`, beginning at `start`. */
static int axis_make(struct axis *a, int from, int full, int start, int n)
{
    const double step = (double)from / full, reach = step > 1 ? step : 1;
    const int taps = (int)ceil(2 * reach);
    a->n = n;
    a->taps = taps < from ? taps : from;
    a->first = malloc((size_t)n * sizeof(*a->first));
    a->weight = malloc((size_t)n * (size_t)a->taps * sizeof(*a->weight));
    if (!a->first || !a->weight)
        return -1;
    for (int i = 0; i < n; i++)
        weigh(a, i, (start + i + 0.5) * step, reach, from);
    return 0;
}

/* The pixels of a line of the part before they are scaled along it: columns
 * from `first`, `count` bytes of each of the lines that weigh in it. */
static void add_lines(const struct picture *p, const struct axis *down, int y,
                      size_t first, size_t count, float *sums)
{
    const size_t line = 3 * (size_t)p->size.w;
    const uint8_t *from = p->rgb + (size_t)down->first[y] * line + first;
    const float *weight = down->weight + (size_t)y * (size_t)down->taps;
    memset(sums, 0, count * sizeof(*sums));
    for (int t = 0; t < down->taps; t++, from += line)
        for (size_t i = 0; weight[t] > 0 && i < count; i++)
            sums[i] += weight[t] * (float)from[i];
}

/* One pixel of three channels; sums begin with column `first`. */
static void add_columns(const struct axis *right, int x, int first,
                        const float *sums, float *rgb)
{
    const float *from = sums + 3 * (size_t)(right->first[x] - first),
                *weight = right->weight + (size_t)x * (size_t)right->taps;
    float r = 0, g = 0, b = 0;
    for (int t = 0; t < right->taps; t++, from += 3) {
        r += weight[t] * from[0];
        g += weight[t] * from[1];
        b += weight[t] * from[2];
    }
    rgb[0] = r;
    rgb[1] = g;
    rgb[2] = b;
}

static void put(const float *rgb, int channels, const struct levels *l,
                size_t plane, float *to)
{
    /* of ITU-R 601, as everybody's grey */
    const float grey = 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2];
    if (channels == 1)
        *to = l->scale[0] * grey + l->shift[0];
    for (int c = 0; channels == 3 && c < 3; c++)
        to[(size_t)c * plane] = l->scale[c] * rgb[c] + l->shift[c];
}

int resample(const struct picture *p, const struct cut *cut, struct shape part,
             const struct levels *levels, float *to)
{
    struct axis right = {0}, down = {0};
    float *sums = malloc(3 * (size_t)p->size.w * sizeof(*sums));
    const int failed =
        !sums || axis_make(&right, p->size.w, cut->full.w, cut->x, part.w)
        || axis_make(&down, p->size.h, cut->full.h, cut->y, part.h);
    if (!failed) {
        const int first = right.first[0],
                  end = right.first[part.w - 1] + right.taps;
        for (int y = 0; y < part.h; y++) {
            add_lines(p, &down, y, 3 * (size_t)first, 3 * (size_t)(end - first),
                      sums);
            for (int x = 0; x < part.w; x++) {
                float rgb[3];
                const int column = cut->mirrored ? part.w - 1 - x : x;
                add_columns(&right, x, first, sums, rgb);
                put(rgb, part.c, levels, shape_plane(part),
                    to + (size_t)y * (size_t)part.w + (size_t)column);
            }
        }
    }
    axis_free(&right);
    axis_free(&down);
    free(sums);
    return failed ? -1 : 0;
}
