/* SPDX-License-Identifier: MIT */
#include "comm/links.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A rate that differs by more is that of another link, and so is a latency
 * unless both are so short that ranks who take turns may be the reason. */
static const double other_rate = 2, other_latency = 4;
static const double turns_seconds = 200e-6;

enum { FIGURES = 12, TRUSTED = 3 /* jobs */ };
enum { BEGIN = sizeof("links ") - 1, HASH = 16 /* digits */ };
_Static_assert(sizeof(struct links) == FIGURES * sizeof(double),
               "struct links has other figures");

static bool apart(double a, double b, double factor)
{
    return a > factor * b || b > factor * a;
}

static double latency(const struct sim_link *link)
{
    return link->alpha + 2 * link->overhead;
}

static bool link_alike(const struct sim_link *a, const struct sim_link *b)
{
    return !apart(a->beta, b->beta, other_rate)
           && (fmax(latency(a), latency(b)) < turns_seconds
               || !apart(latency(a), latency(b), other_latency));
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bool links_alike(const struct links *a, const struct links *b)
{
    const bool shared = a->shared > 0 && b->shared > 0;
    return link_alike(&a->inside, &b->inside)
           && link_alike(&a->across, &b->across)
           && !(shared && apart(a->shared, b->shared, other_rate));
}

struct links links_middle(const struct links_history *h)
{
    double figure[LINKS_KEPT][FIGURES], middle[FIGURES];
    struct links links;
    const int n = h->n;
    memcpy(figure, h->job, sizeof(*h->job) * (size_t)n);
    for (int f = 0; f < FIGURES; f++) {
        double column[LINKS_KEPT];
        for (int i = 0; i < n; i++)
            column[i] = figure[i][f];
        qsort(column, (size_t)n, sizeof(*column), by_size);
        middle[f] = column[n / 2];
    }
    memcpy(&links, middle, sizeof(links));
    return links;
}

void links_add(struct links_history *h, const struct links *latest)
{
    const int kept = h->n < LINKS_KEPT ? h->n : LINKS_KEPT - 1;
    memmove(h->job + 1, h->job, sizeof(*h->job) * (size_t)kept);
    h->job[0] = *latest;
    h->n = kept + 1;
}

void links_keep_alike(struct links_history *h, const struct links *now)
{
    int kept = 0;
    for (int i = 0; i < h->n; i++)
        if (links_alike(&h->job[i], now))
            h->job[kept++] = h->job[i];
    h->n = kept;
}

enum links_verdict links_settle(struct links *now,
                                const struct links_history *before,
                                const struct links *first, bool repeats)
{
    struct links_history all = *before;
    const struct links middle = links_middle(before);
    if (links_alike(now, &middle) || (!repeats && before->n >= TRUSTED)) {
        links_add(&all, now);
        *now = links_middle(&all);
        return LINKS_SETTLED;
    }
    if (!first && repeats)
        return LINKS_ONCE_MORE;
    return first && links_alike(now, first) ? LINKS_CHANGED : LINKS_UNCERTAIN;
}

static double rate(double beta)
{
    return beta > 0 ? 1e-9 / beta : 0;
}

static void print_link(const char *name, const struct sim_link *link,
                       FILE *file)
{
    fprintf(file, " %s %.4g us %.4g us %.4g GB/s", name, 1e6 * link->alpha,
            1e6 * link->overhead, rate(link->beta));
}

void links_print(const struct links_line *line, FILE *file)
{
    const struct links *l = &line->links;
    fprintf(file, "links %016" PRIx64, line->hosts);
    print_link("inside", &l->inside, file);
    print_link("across", &l->across, file);
    print_link("in_host", &l->local, file);
    fprintf(file, " shared %.4g GB/s turn %.4g us machine %.4g GB/s\n",
            rate(l->shared), 1e6 * l->turn, rate(l->machine));
}

/* Seconds of microseconds, or seconds a byte of GB/s; negative: out of range.
 */
static double seconds(double us)
{
    return us >= 0 && us <= 1e9 ? 1e-6 * us : -1;
}

static double per_byte(double gigabytes)
{
    return gigabytes > 1e-9 && gigabytes < 1e9 ? 1e-9 / gigabytes
           : gigabytes == 0                    ? 0
                                               : -1;
}

static struct sim_link link_of(const double x[3])
{
    return (struct sim_link){.alpha = seconds(x[0]),
                             .overhead = seconds(x[1]),
                             .beta = per_byte(x[2])};
}

bool links_begin(const char *line)
{
    return !strncmp(line, "links ", BEGIN);
}

bool links_parse(const char *text, struct links_line *line)
{
    double x[FIGURES], figure[FIGURES];
    int end = 0;
    struct links *l = &line->links;
    if (!links_begin(text) || strspn(text + BEGIN, "0123456789abcdef") != HASH
        || sscanf(
               text,
               "links %16" SCNx64 " inside %lf us %lf us %lf GB/s across %lf "
               "us %lf us %lf GB/s in_host %lf us %lf us %lf GB/s shared %lf "
               "GB/s turn %lf us machine %lf GB/s %n",
               &line->hosts, &x[0], &x[1], &x[2], &x[3], &x[4], &x[5], &x[6],
               &x[7], &x[8], &x[9], &x[10], &x[11], &end)
               != 1 + FIGURES
        || !end || text[end])
        return false;
    *l = (struct links){
        .inside = link_of(&x[0]),
        .across = link_of(&x[3]),
        .local = link_of(&x[6]),
        .shared = per_byte(x[9]),
        .turn = seconds(x[10]),
        .machine = per_byte(x[11]),
    };
    memcpy(figure, l, sizeof(figure));
    for (int f = 0; f < FIGURES; f++)
        if (!(figure[f] >= 0))
            return false;
    return l->inside.beta > 0 && l->across.beta > 0;
}
