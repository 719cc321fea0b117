/* SPDX-License-Identifier: MIT */
/* The choice of an algorithm, corrected by what operations took.
 *
 * A struct learn stands for one collective and one class of sizes; its
 * operations are those of which the time gets known. Every rank has a copy of
 * its own and makes the same calls in the same order with the same numbers, so
 * all copies are alike, byte by byte, and all ranks choose alike without a
 * message for it. Nothing here reads a clock, draws a random number or rounds a
 * float but learn_quantise(), whose result is what travels.
 *
 * A log time is in 1/256 octaves above 100 ns: 256 * log2(seconds / 100e-9).
 */
#ifndef COMM_LEARN_H
#define COMM_LEARN_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LEARN_CANDIDATES = 32,
    LEARN_WINDOW = 9, /* samples that an estimate is the median of */
    LEARN_CODE_BITS = 10,
};

/* Members belong to learn.c. Without padding, so that memcmp() compares. */
struct learn_candidate {
    int64_t rest_until; /* an operation before which it is not tried */
    int32_t prior;      /* what it was expected to take */
    int32_t estimate;   /* the median of recent[] */
    int32_t least;      /* the least that estimate ever was */
    int32_t evidence;   /* that it is better than the best, in 1/1024 spreads */
    uint32_t trials;    /* since the world last changed */
    int16_t bad;        /* how often in a row it was far worse */
    int16_t promised;   /* its estimate when it became the best */
    int16_t broken;     /* how often it then was not as promised */
    int16_t samples;    /* in recent[] */
    int16_t recalled;   /* what an earlier job measured: the one sample there
                           is; negative: it was replaced by real ones */
    int16_t recent[LEARN_WINDOW]; /* the newest first */
};

_Static_assert(sizeof(struct learn_candidate) == 36 + 2 * (LEARN_WINDOW + 1),
               "no padding");

struct learn {
    int64_t operations;
    int64_t young_until; /* an operation; until then trials are frequent */
    int64_t pause_until; /* an operation before which nobody is tried */
    int32_t n, best;
    int32_t trial;   /* whose turn it is to be tried; negative: nobody's */
    int32_t credit;  /* for trials, in 1/1024 of what the best takes */
    int32_t settled; /* what the best has long taken, in 1/16 of a unit */
    int32_t spread;  /* mean deviation of its samples, in 1/16 of a unit */
    int32_t ratio;   /* how far priors are off: what is measured less what was
                        expected, the median of the candidates */
    int32_t held;    /* samples of the best since it is, or takes what
                        it takes */
    int32_t changed; /* the world has, once or more often */
    int32_t odd;     /* how many samples of the best in a row were far too long;
                        negative: too short */
    int32_t last;    /* the candidate of the latest sample, */
    int32_t last_expected; /* and what it was expected to take before that */
    struct learn_candidate candidate[LEARN_CANDIDATES];
};

/* n candidates, 1 to LEARN_CANDIDATES; prior[]: what each is predicted to take,
 * as log times. Only how they compare matters until one is measured. */
void learn_start(struct learn *, int n, const int32_t prior[]);

/* What an earlier job measured, to be called before the first operation. Counts
 * as one sample, until the first real one takes its place. */
void learn_recall(struct learn *, int candidate, int32_t log_time);

/* The candidate for the operation that now starts, now and then one to be tried
 * that is not the best. Once per operation. */
int learn_choose(struct learn *);

/* What a finished operation took. May come when later ones were chosen already,
 * and not at all for some. A candidate that does not exist is ignored. */
void learn_observe(struct learn *, int candidate, int32_t log_time);

/* Whether what the next operation takes is worth being asked where that costs
 * something: trials are frequent and some candidate had few or seems better, or
 * the best does not take what it took. Never where there is one candidate. */
bool learn_is_curious(const struct learn *);

/* What is held for the best now. */
static inline int learn_best(const struct learn *l)
{
    return l->best;
}

/* What a candidate takes; of how many samples that is the median is returned.
 * Without any it is what is expected after all. */
static inline int learn_estimate(const struct learn *l, int candidate,
                                 int32_t *log_time)
{
    const struct learn_candidate *c = &l->candidate[candidate];
    *log_time = c->samples ? c->estimate : c->prior + l->ratio;
    return c->samples;
}

/* Seconds as they travel: 10 bits, 1/32 octave from 100 ns to 420 s. 0 means
 * none, also for what is not positive or no number. */
uint16_t learn_quantise(double seconds);
/* Of a code from 1 to 1023. */
static inline int32_t learn_log_time(uint16_t code)
{
    return ((int32_t)code - 1) * 8;
}

#endif
