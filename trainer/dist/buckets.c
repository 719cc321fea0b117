/* SPDX-License-Identifier: MIT */
#include "dist/buckets.h"

enum { STEPS = 6, FIRST = 32 };

double buckets_visible(int pieces, double latency, double seconds_of_all,
                       double backward)
{
    const double each = latency + (seconds_of_all - latency) / pieces;
    const double ready = backward / pieces; /* between two of them */
    /* The last starts when it is ready, or when those before are over. */
    const double queue = (pieces - 1) * each - (backward - ready);
    return each + (queue > 0 ? queue : 0);
}

void buckets_start(struct buckets *b, double latency, double seconds_of_all,
                   double backward)
{
    *b = (struct buckets){0};
    for (int i = 0; i < BUCKETS_CHOICES; i++) {
        b->expected[i] =
            buckets_visible(1 << i, latency, seconds_of_all, backward);
        if (b->expected[i] < b->expected[b->choice])
            b->choice = i;
    }
}

/* The best expected of those not tried, or -1. */
static int untried(const struct buckets *b)
{
    int best = -1;
    for (int i = 0; i < BUCKETS_CHOICES; i++)
        if (b->seen[i] <= 0 && (best < 0 || b->expected[i] < b->expected[best]))
            best = i;
    return best;
}

static void settle(struct buckets *b)
{
    for (int i = 0; i < BUCKETS_CHOICES; i++)
        if (b->seen[i] > 0
            && (!(b->seen[b->choice] > 0) || b->seen[i] < b->seen[b->choice]))
            b->choice = i;
    b->settled = true;
    b->usual = 0;
}

/* Twice as slow as in its first steps, for some: all is open. One alone,
 * however slow, does not do. */
static void doubt(struct buckets *b, double visible)
{
    const double most = 4 * b->usual;
    if (b->steps < FIRST) {
        b->usual += (visible - b->usual) / ++b->steps;
        b->kept = b->usual;
        return;
    }
    b->kept += ((visible < most ? visible : most) - b->kept) / 8;
    if (b->kept < 2 * b->usual)
        return;
    for (int i = 0; i < BUCKETS_CHOICES; i++)
        b->seen[i] = 0;
    b->settled = false;
    b->steps = 0;
}

void buckets_step(struct buckets *b, double visible)
{
    double *seen = &b->seen[b->choice];
    if (b->settled) {
        doubt(b, visible);
        return;
    }
    /* The first one of a size prepares what later ones find. */
    if (b->steps++ && (*seen <= 0 || visible < *seen))
        *seen = visible;
    if (b->steps < STEPS)
        return;
    b->steps = 0;
    const int next = untried(b);
    if (next < 0)
        settle(b);
    else
        b->choice = next;
}
