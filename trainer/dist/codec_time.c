/* SPDX-License-Identifier: MIT */
/* How long codes take, tried out. */
#include <stdint.h>
#include <stdlib.h>

#include "clock.h"
#include "dist/codec.h"

enum { MOST = 1 << 16, TRIES = 3 };

struct sample {
    size_t n;
    float *x, *lost;
    void *code;
};

static void close_sample(struct sample *s)
{
    free(s->x);
    free(s->lost);
    free(s->code);
}

/* Numbers of all signs and many sizes, as gradients are. */
static int open_sample(struct sample *s, size_t n, size_t code_bytes)
{
    *s = (struct sample){n, malloc(n * sizeof(float)), calloc(n, sizeof(float)),
                         malloc(code_bytes)};
    if (!s->x || !s->lost || !s->code) {
        close_sample(s);
        return -1;
    }
    uint32_t random = 1;
    for (size_t i = 0; i < n; i++) {
        random = random * 1664525 + 1013904223;
        const float u = (float)(random >> 8) / (1 << 23) - 1;
        s->x[i] = u * u * u;
    }
    return 0;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

double codec_seconds(const struct codec *codec, size_t n)
{
    struct sample s;
    double best = 0;
    const size_t some = least(n, MOST);
    if (!some)
        return 0;
    if (open_sample(&s, some, codec->bytes(some)))
        return -1;
    for (int i = 0; i < TRIES; i++) {
        const double begin = clock_now();
        codec->encode(s.x, s.lost, some, s.code);
        codec->add(s.code, some, s.lost);
        codec->decode(s.code, some, s.lost);
        const double spent = clock_now() - begin;
        best = i == 0 || spent < best ? spent : best;
    }
    close_sample(&s);
    return best * (double)n / (double)some;
}

double topk_seconds(size_t n, double percent, int npeers)
{
    struct sample s;
    double best = 0;
    const size_t some = least(n, MOST), count = topk_count(some, percent);
    if (!some)
        return 0;
    if (open_sample(&s, some, topk_bytes(count)))
        return -1;
    for (int i = 0; i < TRIES; i++) {
        const double begin = clock_now();
        topk_encode(s.x, s.lost, some, count, s.code);
        for (int r = 0; r < npeers; r++)
            topk_add(s.code, count, s.x);
        const double spent = clock_now() - begin;
        best = i == 0 || spent < best ? spent : best;
    }
    close_sample(&s);
    return best * (double)n / (double)some;
}
