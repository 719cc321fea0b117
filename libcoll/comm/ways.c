/* SPDX-License-Identifier: MIT */
#include "comm/ways.h"

#include <math.h>

/* Who called first was answered before streams filled the queues. */
static float round_trip_of(const struct ways_seen *a, const struct ways_seen *b,
                           int round)
{
    const float x = a->round_trip[round], y = b->round_trip[round];
    return x > 0 && y > 0 ? fminf(x, y) : fmaxf(x, y);
}

static struct nearby_pair far_pair(const struct ways_seen *seen,
                                   const int *next, int host, int other,
                                   int round)
{
    struct nearby_pair pair = {
        .alpha = round_trip_of(&seen[host], &seen[other], round) / 2};
    if (round == 0 && next[other] == host)
        pair.beta = seen[host].seconds_per_byte;
    if (round == 0 && next[host] == other)
        pair.beta = fmaxf(pair.beta, seen[other].seconds_per_byte);
    return pair;
}

bool ways_find(int nhosts, const struct ways_seen *seen, const int *next,
               float far, struct nearby_pair *ways)
{
    const int nrounds = nearby_rounds(nhosts);
    bool known = true;
    for (int h = 0; h < nhosts; h++)
        for (int k = 0; k < nrounds; k++) {
            const int other = nearby_partner(nhosts, h, k);
            struct nearby_pair *way = &ways[h * nrounds + k];
            *way = (struct nearby_pair){0};
            if (other < 0)
                continue;
            const float both = round_trip_of(&seen[h], &seen[other], k);
            known &= both > 0;
            if (both > far)
                *way = far_pair(seen, next, h, other, k);
        }
    return known;
}

bool ways_are_all(int nhosts, const struct nearby_pair *ways)
{
    const int nrounds = nearby_rounds(nhosts);
    bool all = true;
    for (int h = 0; h < nhosts; h++)
        for (int k = 0; k < nrounds; k++) {
            const struct nearby_pair *way = &ways[h * nrounds + k];
            all &= nearby_partner(nhosts, h, k) < 0
                   || (way->alpha > 0 && (k > 0 || way->beta > 0));
        }
    return all;
}
