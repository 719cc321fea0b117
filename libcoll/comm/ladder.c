/* SPDX-License-Identifier: MIT */
#include "comm/ladder.h"

#include <math.h>

#include "comm/price.h"

const int ladder_class[LADDER_RUNGS] = {2,  6,  8,  10, 12, 14,
                                        16, 18, 20, 22, 24, 26};

enum { MIN_SEGMENT = 4096, NONE = -1 };

void ladder_clear(struct ladder *l)
{
    for (int v = 0; v < LADDER_VARIANTS; v++)
        for (int r = 0; r < LADDER_RUNGS; r++)
            l->seconds[v][r] = NAN;
}

int ladder_may(int variant, size_t bytes)
{
    return variant == 0 || bytes >> variant >= MIN_SEGMENT;
}

static double bytes_at(int rung)
{
    return (double)price_bytes(ladder_class[rung]);
}

/* The nearest known rung from `rung` on, upwards or downwards; or NONE. */
static int known(const double *seconds, int rung, int step)
{
    while (rung >= 0 && rung < LADDER_RUNGS && isnan(seconds[rung]))
        rung += step;
    return rung >= 0 && rung < LADDER_RUNGS ? rung : NONE;
}

static double on_line(const double *seconds, int low, int high, double bytes)
{
    const double at =
        (bytes - bytes_at(low)) / (bytes_at(high) - bytes_at(low));
    return seconds[low] + at * (seconds[high] - seconds[low]);
}

/* A lone rung tells nothing of shorter vectors, and of longer ones that they
 * take no more than in proportion. */
double ladder_seconds(const struct ladder *l, int variant, size_t bytes)
{
    const double *seconds = l->seconds[variant], b = (double)bytes;
    int above = 0;
    while (above < LADDER_RUNGS && bytes_at(above) < b)
        above++;
    int high = known(seconds, above, 1);
    int low = known(seconds, above - 1, -1);
    if (!ladder_may(variant, bytes) || (high < 0 && low < 0))
        return INFINITY;
    if (low < 0 && bytes_at(high) > b && variant > 0)
        return INFINITY;
    if (high < 0) {
        high = low;
        low = known(seconds, high - 1, -1);
    } else if (low < 0) {
        low = high;
        high = known(seconds, low + 1, 1);
    }
    if (low >= 0 && high >= 0)
        return fmax(on_line(seconds, low, high, b), seconds[low] / 2);
    const int only = low >= 0 ? low : high;
    if (b < bytes_at(only))
        return INFINITY;
    return seconds[only] * b / bytes_at(only);
}

double ladder_best(const struct ladder *l, size_t bytes, int *variant)
{
    double best = INFINITY;
    *variant = 0;
    for (int v = 0; v < LADDER_VARIANTS; v++) {
        const double seconds = ladder_seconds(l, v, bytes);
        if (seconds < best) {
            best = seconds;
            *variant = v;
        }
    }
    return best;
}
