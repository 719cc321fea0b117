/* SPDX-License-Identifier: MIT */
#include "learn_world.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { SAVED = 6 }; /* at most */

double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

struct world world(int n, int seed)
{
    struct world w = {.state = (uint64_t)seed * 7919 + (uint64_t)n,
                      .n = n,
                      .noise = 0.05,
                      .gaussian = seed % 2,
                      .delay = seed / 2 % DELAYS};
    draw(&w.state);
    return w;
}

int32_t log_time(double seconds)
{
    return learn_log_time(learn_quantise(seconds));
}

void start(struct world *w)
{
    int32_t prior[LEARN_CANDIDATES];
    for (int i = 0; i < w->n; i++)
        prior[i] = log_time(w->predicted[i]);
    learn_start(&w->learn, w->n, prior);
}

double sample(struct world *w, int candidate)
{
    double noise = 2 * draw(&w->state) - 1;
    if (w->gaussian)
        noise = sqrt(-2 * log((1 + noise) / 2 + DBL_MIN))
                * cos(6.283185307 * draw(&w->state));
    const double more = w->seconds[w->before] - w->seconds[candidate];
    w->before = candidate;
    double seconds = w->seconds[candidate];
    if (w->greedy) {
        if (candidate == w->greedy && w->saved < 1)
            seconds *= 2;
        w->saved = fmin(fmax(w->saved + (candidate == w->greedy ? -1 : 0.5), 0),
                        SAVED);
    }
    return (seconds + w->backlog * fmax(0, more))
           * fmax(0.2, 1 + w->noise * noise)
           * (draw(&w->state) < w->spikes ? 50 : 1);
}

int operate(struct world *w)
{
    const int candidate = learn_choose(&w->learn);
    cr_assert(candidate >= 0 && candidate < w->n, "%d", candidate);
    w->excess +=
        fmax(0, w->seconds[candidate] - w->seconds[learn_best(&w->learn)]);
    if (w->waiting == w->delay) {
        if (w->delay) {
            learn_observe(&w->learn, w->candidate[0], log_time(w->sample[0]));
            w->waiting--;
            for (int i = 0; i < w->waiting; i++) {
                w->candidate[i] = w->candidate[i + 1];
                w->sample[i] = w->sample[i + 1];
            }
        } else {
            learn_observe(&w->learn, candidate, log_time(sample(w, candidate)));
            return candidate;
        }
    }
    w->candidate[w->waiting] = candidate;
    w->sample[w->waiting++] = sample(w, candidate);
    return candidate;
}

static int compare(const void *x, const void *y)
{
    return *(const int *)x - *(const int *)y;
}

void show(const char *what, int *x, int n)
{
    qsort(x, (size_t)n, sizeof(*x), compare);
    cr_log_info("%s: median %d, 90 %% %d, 99 %% %d, worst %d", what, x[n / 2],
                x[n * 9 / 10], x[n * 99 / 100], x[n - 1]);
}

int until_best(struct world *w, bool is, int candidate, int limit)
{
    int i = 0;
    while (i < limit && (learn_best(&w->learn) == candidate) != is) {
        operate(w);
        i++;
    }
    return i;
}
