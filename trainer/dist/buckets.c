/* SPDX-License-Identifier: MIT */
#include "dist/buckets.h"

#include <math.h>

enum { SKIPPED = 2, STEPS = 6, FIRST = 32, OUT = -1 /* for trials */ };

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

static void begin_rounds(struct buckets *b)
{
    for (int i = 0; i < BUCKETS_CHOICES; i++)
        b->trials[i] = isfinite(b->expected[i]) ? 0 : OUT;
    b->round = 1;
    b->settled = false;
    begin_trial(b);
}

void buckets_start(struct buckets *b, const double *expected)
{
    *b = (struct buckets){0};
    for (int i = 0; i < BUCKETS_CHOICES; i++) {
        b->expected[i] = expected[i];
        if (b->expected[i] < b->expected[b->choice])
            b->choice = i;
    }
    begin_rounds(b);
}

/* The best expected of those not yet tried in this round, or -1. */
static int untried(const struct buckets *b)
{
    int best = -1;
    for (int i = 0; i < BUCKETS_CHOICES; i++)
        if (b->trials[i] >= 0 && b->trials[i] < b->round
            && (best < 0 || b->expected[i] < b->expected[best]))
            best = i;
    return best;
}

/* Leaves a third of them, those of the shortest steps; how many. */
static int end_round(struct buckets *b)
{
    int left = 0, stay;
    for (int i = 0; i < BUCKETS_CHOICES; i++)
        left += b->trials[i] != OUT;
    for (stay = (left + 1) / 3 > 1 ? (left + 1) / 3 : 1; left > stay; left--) {
        int worst = -1;
        for (int i = 0; i < BUCKETS_CHOICES; i++)
            if (b->trials[i] != OUT
                && (worst < 0 || b->seen[i] > b->seen[worst]))
                worst = i;
        b->trials[worst] = OUT;
    }
    b->round++;
    return stay;
}

static void end_trial(struct buckets *b)
{
    const double mean = (b->sum - b->longest - b->shortest) / (STEPS - 2);
    double *seen = &b->seen[b->choice];
    *seen = b->trials[b->choice] ? *seen : 0;
    *seen += (mean - *seen) / ++b->trials[b->choice];
    begin_trial(b);
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
    begin_rounds(b);
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
    end_trial(b);
    if (untried(b) < 0 && end_round(b) == 1) {
        b->settled = true;
        b->usual = 0;
    }
    b->choice = untried(b);
    return true;
}
