/* SPDX-License-Identifier: MIT */
/* Made-up images that can be learnt: a smooth prototype per class, shifted in
 * brightness, plus noise. Needs no file and no memory per image; for tests,
 * and for nets whose input no data set here has.
 *
 *     synthetic             10000 training images of 1x28x28, a fifth for tests
 *     synthetic:500         500 of them
 *     synthetic:500x3x32x32 of another shape
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "data/dataset.h"
#include "random.h"

enum { NCLASSES = 10, MAX_SIDE = 1024, MAX_COUNT = 100000000 };

struct prototypes {
    uint64_t seed; /* of the part: its labels and noise */
    float *image;  /* NCLASSES of them */
};

static int bad_size(const char *where, char *error, size_t bytes)
{
    snprintf(error, bytes,
             "data set \"synthetic:%s\" has no such size, valid "
             "is COUNT or COUNTxCxHxW, such as 500 or 500x3x32x32, with COUNT "
             "from 1 to %d and sides from 1 to %d",
             where, MAX_COUNT, MAX_SIDE);
    return -1;
}

static int parse(struct dataset *d, const char *where, char *error,
                 size_t bytes)
{
    long size[4] = {10000, 1, 28, 28};
    char *at = (char *)where; /* strtol's signature */
    int n = 0;
    for (; where && n < 4; n++) {
        const char *start = at;
        size[n] = strtol(start, &at, 10);
        if (at == start || size[n] < 1 || size[n] > (n ? MAX_SIDE : MAX_COUNT))
            return bad_size(where, error, bytes);
        if (*at != 'x')
            break;
        at++;
    }
    if (where && (*at || (n != 0 && n != 3)))
        return bad_size(where, error, bytes);
    d->count = (size_t)size[0];
    d->image = (struct shape){1, (int)size[1], (int)size[2], (int)size[3]};
    d->nclasses = NCLASSES;
    return 0;
}

/* One wave per channel; class and channel choose direction and phase. */
static void draw(float *to, struct shape s, int label)
{
    for (int c = 0; c < s.c; c++) {
        const uint64_t seed = (uint64_t)(label * 64 + c);
        const float across = 1 + 3 * random_unit(seed, 0),
                    down = 1 + 3 * random_unit(seed, 1),
                    phase = random_unit(seed, 2);
        for (int y = 0; y < s.h; y++)
            for (int x = 0; x < s.w; x++)
                *to++ = sinf(6.2831853f
                             * (across * (float)x / (float)s.w
                                + down * (float)y / (float)s.h + phase));
    }
}

static int open_synthetic(struct dataset *d, const char *where,
                          enum dataset_part part, char *error, size_t bytes)
{
    if (parse(d, where, error, bytes))
        return -1;
    if (part == DATASET_TEST)
        d->count = (d->count + 4) / 5;
    const size_t n = shape_count(d->image);
    struct prototypes *own = calloc(1, sizeof(*own));
    if (own)
        own->image = malloc(NCLASSES * n * sizeof(float));
    if (!own || !own->image) {
        snprintf(error, bytes, "data set \"synthetic\": no memory");
        free(own);
        return -1;
    }
    own->seed = (uint64_t)part + 1;
    for (int i = 0; i < NCLASSES; i++)
        draw(own->image + (size_t)i * n, d->image, i);
    d->own = own;
    return 0;
}

static int read_synthetic(const struct dataset *d, size_t index, float *image,
                          int *label, char *error, size_t error_bytes)
{
    (void)error, (void)error_bytes;
    const struct prototypes *own = d->own;
    const size_t n = shape_count(d->image);
    const uint64_t seed = random_u64(own->seed, index);
    *label = (int)random_below(seed, 0, NCLASSES);
    const float *from = own->image + (size_t)*label * n;
    const float light = random_unit(seed, 1) - 0.5f;
    for (size_t i = 0; i < n; i++)
        image[i] = from[i] + light + 3 * (random_unit(seed, 2 + i) - 0.5f);
    return 0;
}

static void close_synthetic(struct dataset *d)
{
    struct prototypes *own = d->own;
    free(own->image);
    free(own);
}

const struct dataset_ops dataset_synthetic = {
    .name = "synthetic",
    .open = open_synthetic,
    .read = read_synthetic,
    .close = close_synthetic,
};
