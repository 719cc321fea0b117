/* SPDX-License-Identifier: MIT */
#include "bootstrap/arrivals.h"

#include <math.h>
#include <stdlib.h>

bool arrivals_complete(const struct arrivals *a)
{
    return a->come >= a->all;
}

void arrivals_add(struct arrivals *a, double at, size_t bytes)
{
    a->come += bytes;
    if (a->n < ARRIVALS_MAX)
        a->n++;
    else
        bytes += a->list[ARRIVALS_MAX - 1].bytes;
    a->list[a->n - 1] = (struct arrival){at, bytes};
}

static int by_time(const void *a, const void *b)
{
    const double x = ((const struct arrival *)a)->at;
    const double y = ((const struct arrival *)b)->at;
    return x < y ? -1 : x > y;
}

void arrivals_sort(struct arrivals *a)
{
    qsort(a->list, (size_t)a->n, sizeof(a->list[0]), by_time);
}

/* When so many bytes had come; 0: never. */
static double when(const struct arrivals *a, size_t bytes)
{
    size_t come = 0;
    for (int i = 0; i < a->n; i++) {
        come += a->list[i].bytes;
        if (come >= bytes)
            return a->list[i].at;
    }
    return 0;
}

double arrivals_rate(const struct arrivals *a, double now)
{
    const double took = when(a, a->all) - when(a, a->all / 2);
    if (arrivals_complete(a))
        return took > 0 ? (double)a->all / 2 / took : 0;
    return a->come > 0 && now > when(a, 1)
               ? (double)a->come / (now - when(a, 1))
               : 0;
}

double arrivals_without_pause(const struct arrivals *a)
{
    static const double pauses = 2; /* times as long as the others */
    const size_t half = a->all / 2;
    const double begun = when(a, half);
    double longest = 0, before = begun;
    if (!arrivals_complete(a))
        return 0;
    for (size_t come = half + ARRIVALS_GRAIN; come <= a->all;
         come += ARRIVALS_GRAIN) {
        longest = fmax(longest, when(a, come) - before);
        before = when(a, come);
    }
    const double took = before - begun;
    const double others =
        (took - longest) / ((double)half / ARRIVALS_GRAIN - 1);
    return longest > pauses * others ? others / ARRIVALS_GRAIN
                                     : took / (double)half;
}
