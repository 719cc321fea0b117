/* SPDX-License-Identifier: MIT */
/* The idea.
 *
 * One candidate is held for the best and serves the operations. Others are
 * tried on a budget: an operation earns a quarter of its time in credit while
 * the class is young, 2 % later, and a trial takes place when the credit covers
 * what it is expected to cost beyond the best; or half, if it is the first of
 * that candidate. What it did cost is paid when that is known. Who is near the
 * best is tried often, who is far seldom; what the tried ones took corrects the
 * predictions of the others.
 *
 * Noise must not move the choice. What a candidate takes is the median of its
 * last samples, so a spike changes nothing. A challenger becomes the best only
 * if that median is better by 3.3 %, and if the evidence against chance
 * suffices: the sum of by how much each sample beat the best, less an
 * allowance, and never below zero (Page, "Continuous inspection schemes",
 * Biometrika 1954). With an allowance d and a threshold h, both in standard
 * deviations, samples of an equal pass it once in about exp(2dh) (Wald,
 * "Sequential analysis", 1947), and those of one that is better by g do after h
 * / (g - d). A spread is 0.8 standard deviations, so d = 0.5 and h = 16: once
 * in some ten millions, at 400 trials in 10,000 operations; 32 samples for a
 * gain of one deviation, and five, the fewest, for a large one. So a small gain
 * is asked for many samples and a large one for few. Whoever leads is tried
 * every other operation, which costs nothing if it is as good as it seems. What
 * the best takes is also known from samples only: while they are few, more
 * evidence is asked.
 *
 * The world may change: a link gets slow, another job comes. When five samples
 * of the best in a row are far from what it has long taken, what is known of
 * the others becomes a mere prediction, and the class is young again; and as a
 * switch is then likely to be right, it takes less evidence. Of many that then
 * seem better one is tried until it is best or has lost its lead: in turn, each
 * would be long in gathering evidence. So it is if five samples of the best
 * show that what an earlier job has kept is of another world.
 *
 * What waits in the network when an operation ends delays the next one. So a
 * sample of the best that comes after that of another and is not longer than
 * that one was expected to be says nothing of the world. And some are fast only
 * as long as they are tried: where a network lets bursts pass and then no more
 * than its rate (a token bucket), who moves most lives on what others saved. So
 * who has become the best and then takes longer than its trials rests for long
 * when it has lost that place, each time twice as long.
 */
#include "comm/learn.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Log times, in 1/256 octaves. */
enum {
    OCTAVE = 256,
    LIMIT = 60 * OCTAVE,   /* of what is believed of a time, either way */
    BETTER = 12,           /* 3.3 %: what a challenger must gain */
    ALLOWANCE = 8,         /* 2.2 %, or 5/8 of a spread: see evidence */
    CLEARLY = 24,          /* and 3 spreads: gains that are tried at once */
    FAR = 97,              /* x 1.3, and 3 spreads: not as before */
    BAD = OCTAVE,          /* x 2: tried no more for long */
    BROKEN = 48,           /* x 1.14: not as it promised */
    HOPELESS = 5 * OCTAVE, /* x 32: not tried */
    LEAST_SPREAD = 4,      /* half a step of what travels */
    FIRST_SPREAD = 16,     /* until it is known */
    FRESH_SPREAD = 32,     /* at most, when the world has changed */
    MOST_SPREAD = 64,      /* that one sample shows */
};
/* Credit, in 1/1024 of what the best takes; evidence, of a spread. */
enum {
    ONE = 1024,
    ENOUGH = 20 * ONE,
    ENOUGH_CHANGED = 6 * ONE, /* while young as the world has changed */
    AT_MOST = 6 * ONE,        /* of one sample */
    LEADS = 3 * ONE,          /* is tried until it is best, or has lost it */
    EARNED = ONE / 50,        /* by an operation */
    EARNED_YOUNG = ONE / 4,
    FRESH = 4 * ONE, /* at least, when the world has changed */
    MOST = 32 * ONE,
    LOAN = 4 * ONE, /* at most, or half, for a first trial */
};
/* Operations, and samples. */
enum {
    YOUNG = 200, /* or, for many candidates, YOUNG_EACH */
    YOUNG_EACH = 16,
    PAUSE_YOUNG = 2, /* from one trial to the next: the best has to run */
    PAUSE = 25,
    CLEAR_OF = 8,       /* of so many, all but one may go to a clear gain, */
    LEAD_OF = 2,        /* or to one that leads */
    REST = 256,         /* of a bad candidate; doubled each time, */
    MOST_BROKEN = 6,    /* so often at most */
    FIRST_SAMPLES = 3,  /* of the best before any trial; that are believed */
    SWITCH_SAMPLES = 5, /* of a challenger */
    ODD_SAMPLES = 5,    /* of the best in a row: the world has changed */
    FEW_HELD = 5,       /* of the best: twice the evidence is asked */
    MOST_HELD = 128,
};

static int within(int x, int least, int most)
{
    return x < least ? least : x > most ? most : x;
}

static int smaller(int x, int y)
{
    return x < y ? x : y;
}

static int larger(int x, int y)
{
    return x < y ? y : x;
}

/* The lower one of two medians: of two samples, a spike loses. */
static int median(const int16_t *x, int n)
{
    int16_t sorted[LEARN_CANDIDATES] = {x[0]};
    for (int i = 1; i < n; i++) {
        int k = i;
        for (; k > 0 && sorted[k - 1] > x[i]; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = x[i];
    }
    return sorted[(n - 1) / 2];
}

/* By what a time exceeds that of the best, in credit; difference: of their
 * logs. 2^f is 1 + f - 0.343 f (1 - f), within 0.3 %. */
static int excess(int difference)
{
    const int d = within(difference, 0, 8 * OCTAVE), f = d % OCTAVE;
    return ((ONE + 4 * f - f * (OCTAVE - f) * 351 / 65536) << d / OCTAVE) - ONE;
}

static int best_estimate(const struct learn *l)
{
    return l->candidate[l->best].estimate;
}

/* What a challenger has to beat: what the best has long taken, or takes now
 * where that is less by more than the error of a median. */
static int to_beat(const struct learn *l)
{
    return smaller(best_estimate(l) + l->spread / 32, l->settled / 16);
}

/* What a trial is expected to take. Of a bad candidate half is hoped for (of
 * the logs): that its sample was a spike, or that it is again as it was. */
static int expected(const struct learn *l, const struct learn_candidate *c)
{
    const int predicted = c->prior + l->ratio;
    if (!c->samples)
        return predicted;
    const int hoped = c->samples > 1 ? c->least : predicted;
    if (c->estimate > best_estimate(l) + BAD && hoped < c->estimate)
        return (c->estimate + hoped) / 2;
    return c->estimate;
}

static int price(const struct learn *l, const struct learn_candidate *c)
{
    return excess(expected(l, c) - best_estimate(l));
}

/* Whether c seems so much better that there is no need to wait. */
static bool is_clear(const struct learn *l, const struct learn_candidate *c)
{
    const int gain = to_beat(l) - expected(l, c);
    return gain > CLEARLY && gain > 3 * l->spread / 16;
}

static bool seems_better(const struct learn *l, const struct learn_candidate *c)
{
    return c->estimate <= to_beat(l) - BETTER;
}

static bool may_try(const struct learn *l, const struct learn_candidate *c)
{
    return l->operations >= c->rest_until
           && expected(l, c) <= best_estimate(l) + HOPELESS;
}

/* What c would have had of the budget after another trial; who has least comes
 * first. A time that was measured counts more than a prediction, and the least
 * that it ever was is what counts: who was once better is worth a look. */
static int64_t share(const struct learn *l, const struct learn_candidate *c)
{
    if (is_clear(l, c))
        return expected(l, c) - to_beat(l);
    if (c->evidence >= LEADS)
        return -c->evidence / ONE;
    const int least = smaller(c->estimate, c->least) - best_estimate(l);
    const int cost = c->samples ? 16 * excess(least) : price(l, c) / 8;
    return (c->trials + INT64_C(1)) * (ONE / 2 + cost);
}

/* Corrects the predictions and says whose turn it is. */
static void plan_trial(struct learn *l)
{
    int16_t off[LEARN_CANDIDATES];
    int n = 0;
    for (const struct learn_candidate *c = l->candidate;
         c < l->candidate + l->n; c++)
        if (c->samples)
            off[n++] = (int16_t)(c->estimate - c->prior);
    l->ratio = n ? median(off, n) : 0;
    l->trial = -1;
    if (l->candidate[l->best].samples < FIRST_SAMPLES)
        return;
    int64_t least = INT64_MAX;
    for (int i = 0; i < l->n; i++) {
        const struct learn_candidate *c = &l->candidate[i];
        if (i != l->best && may_try(l, c) && share(l, c) < least) {
            least = share(l, c);
            l->trial = i;
        }
    }
}

static void add_sample(struct learn_candidate *c, int log_time)
{
    if (c->recalled > 0) { /* that was the one sample */
        c->samples = 0;
        c->recalled = (int16_t)-c->recalled;
    }
    memmove(c->recent + 1, c->recent, sizeof(c->recent) - sizeof(c->recent[0]));
    c->recent[0] = (int16_t)log_time;
    c->samples = (int16_t)smaller(c->samples + 1, LEARN_WINDOW);
    c->estimate = median(c->recent, c->samples);
    if (c->samples >= FIRST_SAMPLES)
        c->least = smaller(c->least, c->estimate);
}

static void settle(struct learn *l)
{
    l->settled = best_estimate(l) * 16;
    l->held = larger(l->candidate[l->best].samples, 1);
    l->odd = 0;
}

/* Nothing that was known is trusted but the last samples of the best. */
static void start_again(struct learn *l)
{
    for (int i = 0; i < l->n; i++) {
        struct learn_candidate *c = &l->candidate[i];
        const int prior = c->samples ? c->estimate : c->prior + l->ratio;
        if (i != l->best)
            *c = (struct learn_candidate){.prior = within(prior, -LIMIT, LIMIT),
                                          .least = LIMIT};
    }
    struct learn_candidate *best = &l->candidate[l->best];
    best->prior = l->settled / 16;
    best->samples = ODD_SAMPLES;
    best->estimate = median(best->recent, ODD_SAMPLES);
    settle(l);
    l->young_until = l->operations + larger(YOUNG, l->n * YOUNG_EACH);
    l->pause_until = 0;
    l->changed = 1;
    l->spread = smaller(l->spread, FRESH_SPREAD * 16);
    l->credit = larger(l->credit, FRESH);
}

/* What an earlier job measured was of another world; what the model says is of
 * this one. */
static void forget_recalled(struct learn *l)
{
    for (int i = 0; i < l->n; i++) {
        struct learn_candidate *c = &l->candidate[i];
        if (c->recalled > 0) {
            c->samples = 0;
            c->least = LIMIT;
        }
        c->recalled = 0;
    }
}

static void observe_best(struct learn *l, int time)
{
    struct learn_candidate *c = &l->candidate[l->best];
    const int off = time - l->settled / 16;
    const int far = larger(FAR, 3 * l->spread / 16);
    add_sample(c, time);
    if (c->samples < LEARN_WINDOW) {
        settle(l);
        if (c->samples == ODD_SAMPLES && c->recalled
            && abs(c->estimate + c->recalled) > far)
            forget_recalled(l);
        return;
    }
    const bool delayed =
        off > far && l->last != l->best && time <= l->last_expected;
    l->odd = delayed      ? l->odd
             : off > far  ? larger(l->odd, 0) + 1
             : off < -far ? smaller(l->odd, 0) - 1
                          : 0;
    if (l->odd == ODD_SAMPLES || l->odd == -ODD_SAMPLES) {
        start_again(l);
        return;
    }
    l->held = smaller(l->held + 1, MOST_HELD);
    l->settled += within((c->estimate * 16 - l->settled) / 16, -64, 64);
    const int deviation = smaller(off < 0 ? -off : off, MOST_SPREAD);
    l->spread = larger(l->spread + (deviation * 16 - l->spread) / 32,
                       LEAST_SPREAD * 16);
}

/* The spread of c's samples, if it is larger than that of the best. */
static int spread_of(const struct learn *l, const struct learn_candidate *c)
{
    int16_t off[LEARN_WINDOW];
    for (int i = 0; i < c->samples; i++) {
        const int d = c->recent[i] - c->estimate;
        off[i] = (int16_t)(d < 0 ? -d : d);
    }
    return larger(median(off, c->samples), l->spread / 16);
}

/* The evidence that is asked. */
static int enough(const struct learn *l)
{
    if (l->changed && l->operations < l->young_until)
        return ENOUGH_CHANGED;
    return ENOUGH + ENOUGH * FEW_HELD / l->held;
}

/* Who did not keep what it promised rests. */
static void become_best(struct learn *l, int i)
{
    struct learn_candidate *old = &l->candidate[l->best];
    if (old->promised && l->settled / 16 > old->promised + BROKEN) {
        old->broken = (int16_t)smaller(old->broken + 1, MOST_BROKEN);
        old->rest_until = l->operations + ((int64_t)REST << old->broken);
    }
    l->best = i;
    l->candidate[i].bad = 0;
    l->candidate[i].promised = (int16_t)l->candidate[i].estimate;
    for (int k = 0; k < l->n; k++)
        l->candidate[k].evidence = 0;
    settle(l);
}

static void observe_other(struct learn *l, int i, int time)
{
    struct learn_candidate *c = &l->candidate[i];
    const int best = best_estimate(l), paid = price(l, c);
    int cost = excess(time - best);
    if (!c->samples || c->estimate < best + BAD) /* a spike is not its fault */
        cost = smaller(cost, 4 * (ONE + paid));
    l->credit = within(l->credit + paid - cost, -2 * MOST, MOST);
    if (c->samples && time < c->estimate - larger(FAR, 4 * spread_of(l, c)))
        c->samples = 0; /* it is not any more as it was */
    add_sample(c, time);
    const int most_bad = c->least < best ? 2 : 6;
    if (time > best + BAD)
        c->rest_until = l->operations + (REST << c->bad);
    c->bad = (int16_t)(time > best + BAD ? smaller(c->bad + 1, most_bad) : 0);
    const int spread = spread_of(l, c);
    const int gain = to_beat(l) - time - larger(ALLOWANCE, spread * 5 / 8);
    c->evidence += within(gain * ONE / spread, -AT_MOST, AT_MOST);
    c->evidence = within(c->evidence, 0, 2 * enough(l));
    if (c->samples >= SWITCH_SAMPLES && c->evidence >= enough(l)
        && seems_better(l, c))
        become_best(l, i);
}

void learn_start(struct learn *l, int n, const int32_t prior[])
{
    assert(n >= 1 && n <= LEARN_CANDIDATES);
    memset(l, 0, sizeof(*l));
    l->n = n;
    l->trial = -1;
    l->spread = FIRST_SPREAD * 16;
    l->young_until = larger(YOUNG, n * YOUNG_EACH);
    for (int i = 0; i < n; i++) {
        struct learn_candidate *c = &l->candidate[i];
        c->prior = c->estimate = within(prior[i], -LIMIT, LIMIT);
        c->least = LIMIT;
        if (c->prior < l->candidate[l->best].prior)
            l->best = i;
    }
    settle(l);
}

void learn_recall(struct learn *l, int candidate, int32_t log_time)
{
    if (candidate < 0 || candidate >= l->n || l->operations)
        return;
    struct learn_candidate *c = &l->candidate[candidate];
    add_sample(c, within(log_time, 1, LIMIT));
    c->recalled = c->recent[0];
    if (!l->candidate[l->best].samples || c->estimate < best_estimate(l))
        l->best = candidate;
    settle(l);
}

static bool has_to_wait(const struct learn *l, const struct learn_candidate *c)
{
    return is_clear(l, c)         ? l->operations % CLEAR_OF == 0
           : c->evidence >= LEADS ? l->operations % LEAD_OF == 0
                                  : l->operations < l->pause_until;
}

int learn_choose(struct learn *l)
{
    l->operations++;
    const bool young = l->operations < l->young_until;
    l->credit = smaller(l->credit + (young ? EARNED_YOUNG : EARNED), MOST);
    if (l->trial < 0)
        return l->best;
    struct learn_candidate *c = &l->candidate[l->trial];
    const int cost = price(l, c);
    const int advance = c->samples ? cost : larger(cost / 2, cost - LOAN);
    if (has_to_wait(l, c) || advance > l->credit)
        return l->best;
    l->credit -= cost;
    l->pause_until = l->operations + (young ? PAUSE_YOUNG : PAUSE);
    c->trials++;
    return l->trial;
}

void learn_observe(struct learn *l, int candidate, int32_t log_time)
{
    if (candidate < 0 || candidate >= l->n)
        return;
    const bool was_best = candidate == l->best;
    const int due = expected(l, &l->candidate[candidate]);
    if (was_best)
        observe_best(l, within(log_time, -LIMIT, LIMIT));
    else
        observe_other(l, candidate, within(log_time, -LIMIT, LIMIT));
    l->last = candidate;
    l->last_expected = due;
    /* Not each time: it takes a look at every candidate. */
    if (!was_best || l->operations < l->young_until || l->operations % 16 == 0)
        plan_trial(l);
}

/* What is known of c may not be enough, or shows that it should be the best. */
static bool is_open(const struct learn *l, const struct learn_candidate *c)
{
    const bool near = !c->samples || c->estimate <= best_estimate(l) + FAR;
    const bool better = c->evidence >= ONE && seems_better(l, c);
    return may_try(l, c)
           && ((c->samples < FIRST_SAMPLES && near) || better
               || is_clear(l, c));
}

bool learn_is_curious(const struct learn *l)
{
    if (l->n < 2 || l->odd != 0
        || l->candidate[l->best].samples < FIRST_SAMPLES)
        return l->n > 1;
    for (int i = 0; i < l->n && l->operations < l->young_until; i++)
        if (i != l->best && is_open(l, &l->candidate[i]))
            return true;
    return false;
}

uint16_t learn_quantise(double seconds)
{
    if (!(seconds > 0))
        return 0;
    const double code = 1.5 + 32 * log2(seconds / 100e-9);
    return code < 1 ? 1 : code > 1023 ? 1023 : (uint16_t)code;
}
