/* SPDX-License-Identifier: MIT */
#include "stragglers.h"

#include <math.h>
#include <stdlib.h>

int stragglers_open(struct stragglers *s, int nranks)
{
    *s = (struct stragglers){.nranks = nranks};
    s->ranks = calloc((size_t)nranks, sizeof(*s->ranks));
    return s->ranks ? 0 : -1;
}

void stragglers_close(struct stragglers *s)
{
    free(s->ranks);
    *s = (struct stragglers){0};
}

int stragglers_step(struct stragglers *s, const double *worked, double *late)
{
    int slowest = 0;
    double all = 0;
    for (int r = 0; r < s->nranks; r++) {
        all += worked[r];
        if (worked[r] > worked[slowest])
            slowest = r;
    }
    *late = worked[slowest] - (all - worked[slowest]) / (s->nranks - 1);
    s->nsteps++;
    s->ranks[slowest].steps++;
    s->ranks[slowest].late += *late;
    return slowest;
}

static double share(const struct stragglers *s, int rank)
{
    return (double)s->ranks[rank].steps / (double)s->nsteps;
}

/* The number of steps is binomial if chance picks the rank: Chernoff's bound of
 * so many or more, for any of the ranks. Three standard deviations would name
 * whoever is the slowest once, of many ranks in a few steps. */
bool stragglers_often(const struct stragglers *s, int rank)
{
    const double p = 1.0 / s->nranks, part = s->nsteps ? share(s, rank) : 0;
    if (part <= p)
        return false;
    const double others = part < 1 ? (1 - part) * log((1 - part) / (1 - p)) : 0;
    const double apart = part * log(part / p) + others;
    return s->nranks * exp(-(double)s->nsteps * apart) < 0.01;
}

static double late_ms(const struct stragglers *s, int rank)
{
    return 1e3 * s->ranks[rank].late / (double)s->ranks[rank].steps;
}

void stragglers_print(const struct stragglers *s, FILE *to)
{
    bool any = false;
    for (int r = 0; r < s->nranks && s->nranks > 1; r++) {
        if (!stragglers_often(s, r))
            continue;
        any = true;
        fprintf(to,
                "rank %d was the slowest in %.1f %% of %ld steps (by chance "
                "%.1f), by %.3f ms on average\n",
                r, 100 * share(s, r), s->nsteps, 100.0 / s->nranks,
                late_ms(s, r));
    }
    if (!any && s->nranks > 1)
        fputs("no rank was the slowest more often than by chance\n", to);
}

void stragglers_write(const struct stragglers *s, FILE *to)
{
    const char *before = "";
    fputc('[', to);
    for (int r = 0; r < s->nranks && s->nranks > 1; r++)
        if (stragglers_often(s, r)) {
            fprintf(to, "%s{\"rank\": %d, \"share\": %.6g, \"late_ms\": %.6g}",
                    before, r, share(s, r), late_ms(s, r));
            before = ", ";
        }
    fputc(']', to);
}
