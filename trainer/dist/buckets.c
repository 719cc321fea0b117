/* SPDX-License-Identifier: MIT */
#include "dist/buckets.h"

#include <math.h>

enum { SKIPPED = 2, STEPS = 6, FIRST = 32 };

int buckets_pieces(int choice)
{
    return 1 << (choice < BUCKETS_LATE ? choice : choice - BUCKETS_LATE + 1);
}

double buckets_visible(int pieces, double latency, double seconds_of_all,
                       double backward)
{
    const double each = latency + (seconds_of_all - latency) / pieces;
    const double ready = backward / pieces; /* between two of them */
    /* The last starts when it is ready, or when those before are over. */
    const double queue = (pieces - 1) * each - (backward - ready);
    return each + (queue > 0 ? queue : 0);
}

static void begin_trial(struct buckets *b)
{
    b->steps = 0;
    b->sum = b->longest = 0;
    b->shortest = INFINITY;
}

void buckets_start(struct buckets *b, const double *expected)
{
    *b = (struct buckets){0};
    begin_trial(b);
    for (int i = 0; i < BUCKETS_CHOICES; i++) {
        b->expected[i] = expected[i];
        if (b->expected[i] < b->expected[b->choice])
            b->choice = i;
    }
}

/* The best expected of those not tried, or -1. */
static int untried(const struct buckets *b)
{
    int best = -1;
    for (int i = 0; i < BUCKETS_CHOICES; i++)
        if (b->seen[i] <= 0 && isfinite(b->expected[i])
            && (best < 0 || b->expected[i] < b->expected[best]))
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
static bool doubt(struct buckets *b, double visible)
{
    const double most = 4 * b->usual;
    if (b->steps < FIRST) {
        b->usual += (visible - b->usual) / ++b->steps;
        b->kept = b->usual;
        return false;
    }
    b->kept += ((visible < most ? visible : most) - b->kept) / 8;
    if (b->kept < 2 * b->usual)
        return false;
    for (int i = 0; i < BUCKETS_CHOICES; i++)
        b->seen[i] = 0;
    b->settled = false;
    begin_trial(b);
    return true;
}

bool buckets_step(struct buckets *b, double seconds, double visible)
{
    if (b->settled)
        return doubt(b, visible);
    /* The first is of the choice before, which all leave one step later; the
     * first one of a size prepares what later ones find. */
    if (b->steps++ >= SKIPPED) {
        b->sum += seconds;
        b->longest = fmax(b->longest, seconds);
        b->shortest = fmin(b->shortest, seconds);
    }
    if (b->steps < SKIPPED + STEPS)
        return false;
    b->seen[b->choice] = (b->sum - b->longest - b->shortest) / (STEPS - 2);
    begin_trial(b);
    const int next = untried(b);
    if (next < 0)
        settle(b);
    else
        b->choice = next;
    return true;
}
