/* SPDX-License-Identifier: MIT */
#include "comm/ladder.h"

#include <math.h>

#include "comm/price.h"

const int ladder_class[LADDER_RUNGS] = {2,  6,  8,  10, 12, 14,
                                        16, 18, 20, 22, 24, 26};

enum { MIN_SEGMENT = 4096, NONE = -1 };

void ladder_clear(struct ladder *l, size_t cache)
{
    *l = (struct ladder){.cache = cache};
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

static bool is_far(const struct ladder *l, int rung)
{
    return bytes_at(rung) > (double)l->cache;
}

/* The two known rungs by which a size goes: those next to it, or NONE. But on
 * its side of where vectors leave the caches, if there are two. */
static void find_rungs(const struct ladder *l, int variant, double bytes,
                       int *low, int *high)
{
    const double *seconds = l->seconds[variant];
    int above = 0;
    while (above < LADDER_RUNGS && bytes_at(above) < bytes)
        above++;
    *high = known(seconds, above, 1);
    *low = known(seconds, above - 1, -1);
    if (*high < 0 || *low < 0 || is_far(l, *high) == is_far(l, *low))
        return;
    const bool far = bytes > (double)l->cache;
    const int next =
        far ? known(seconds, *high + 1, 1) : known(seconds, *low - 1, -1);
    if (next < 0)
        return;
    *(far ? low : high) = far ? *high : *low;
    *(far ? high : low) = next;
}

/* A lone rung tells nothing of shorter vectors, and of longer ones that they
 * take no more than in proportion. */
double ladder_seconds(const struct ladder *l, int variant, size_t bytes)
{
    const double *seconds = l->seconds[variant], b = (double)bytes;
    int low, high;
    find_rungs(l, variant, b, &low, &high);
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
        return fmax(on_line(seconds, low, high, b),
                    seconds[low] * fmin(b / bytes_at(low), .5));
    const int only = low >= 0 ? low : high;
    if (b < bytes_at(only))
        return INFINITY;
    return seconds[only] * b / bytes_at(only);
}

void ladder_bound(struct ladder *l, int variant, int rung, double seconds)
{
    l->seconds[variant][rung] = seconds;
    l->bounds[variant] |= 1u << rung;
}

bool ladder_bounded(const struct ladder *l, int variant, int rung)
{
    return l->bounds[variant] >> rung & 1;
}

int ladder_leans_on(const struct ladder *l, int variant, size_t bytes)
{
    int low, high;
    find_rungs(l, variant, (double)bytes, &low, &high);
    const bool at_rung = high >= 0 && bytes_at(high) == (double)bytes;
    if (high >= 0 && ladder_bounded(l, variant, high))
        return high;
    return low >= 0 && !at_rung && ladder_bounded(l, variant, low) ? low : NONE;
}

void ladder_forget(struct ladder *l, int variant, int rung)
{
    l->seconds[variant][rung] = NAN;
    l->bounds[variant] &= ~(1u << rung);
}

bool ladder_knows(const struct ladder *l, int rung)
{
    for (int v = 0; v < LADDER_VARIANTS; v++)
        if (!isnan(l->seconds[v][rung]))
            return true;
    return false;
}

double ladder_floor(const struct ladder *l, int variant, int rung)
{
    double most = 0;
    for (int r = 0; r < LADDER_RUNGS; r++) {
        const double share = fmin(bytes_at(rung) / bytes_at(r), 1);
        const bool tells = r <= rung || is_far(l, r) == is_far(l, rung);
        if (tells && !isnan(l->seconds[variant][r]))
            most = fmax(most, share * l->seconds[variant][r]);
    }
    return most;
}

int ladder_below(const struct ladder *l, int variant, int rung)
{
    return known(l->seconds[variant], rung - 1, -1);
}

bool ladder_sure(const struct ladder *l, int variant, int rung)
{
    const double little = 1.05, *seconds = l->seconds[variant];
    const int low = known(seconds, rung - 1, -1);
    const int high = known(seconds, rung + 1, 1);
    if (low < 0 || high < 0 || ladder_bounded(l, variant, low)
        || ladder_bounded(l, variant, high)
        || is_far(l, low) != is_far(l, high))
        return false;
    const double bytes = bytes_at(rung);
    const int lower = known(seconds, low - 1, -1);
    const int higher = known(seconds, high + 1, 1);
    double least = ladder_floor(l, variant, rung);
    if (lower >= 0 && !ladder_bounded(l, variant, lower))
        least = fmax(least, on_line(seconds, lower, low, bytes));
    if (higher >= 0 && !ladder_bounded(l, variant, higher)
        && is_far(l, higher) == is_far(l, rung))
        least = fmax(least, on_line(seconds, high, higher, bytes));
    return on_line(seconds, low, high, bytes) <= little * least;
}

/* More segments than the best so far must take less than `earned` of its time.
 */
static double best_of(const struct ladder *l, size_t bytes, double earned,
                      int *variant)
{
    double best = INFINITY;
    *variant = 0;
    for (int v = 0; v < LADDER_VARIANTS; v++) {
        const double seconds = ladder_seconds(l, v, bytes);
        if (seconds < earned * best) {
            best = seconds;
            *variant = v;
        }
    }
    return best;
}

double ladder_best(const struct ladder *l, size_t bytes, int *variant)
{
    return best_of(l, bytes, 1, variant);
}

double ladder_choice(const struct ladder *l, size_t bytes, int *variant)
{
    return best_of(l, bytes, 0.985, variant);
}
