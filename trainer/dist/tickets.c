/* SPDX-License-Identifier: MIT */
#include "dist/tickets.h"

#include <stdlib.h>

static long less(long a, long b)
{
    return a < b ? a : b;
}

long tickets_at_once(long n, long tau, int nworkers)
{
    return less(tau, (n + nworkers - 1) / nworkers);
}

long tickets_count(long n, long at_once, long first)
{
    return first < n ? less(at_once, n - first) : 0;
}

long tickets_first(long n, long at_once, int worker, long *first)
{
    *first = worker * at_once;
    return tickets_count(n, at_once, *first);
}

int tickets_open(struct tickets *t, int nworkers, long tau)
{
    *t = (struct tickets){.nworkers = nworkers, .tau = tau};
    t->seen = calloc((size_t)nworkers, sizeof(*t->seen));
    if (!t->seen || pthread_mutex_init(&t->lock, NULL)) {
        free(t->seen);
        t->seen = NULL;
        return -1;
    }
    return 0;
}

void tickets_close(struct tickets *t)
{
    if (t->seen)
        pthread_mutex_destroy(&t->lock);
    free(t->seen);
    *t = (struct tickets){0};
}

void tickets_start(struct tickets *t, long n)
{
    t->end = n;
    t->at_once = tickets_at_once(n, t->tau, t->nworkers);
    t->next = less(n, t->nworkers * t->at_once);
}

void tickets_stop(struct tickets *t)
{
    const long round = t->nworkers * t->at_once;
    pthread_mutex_lock(&t->lock);
    t->end = less(t->end, (t->next + round - 1) / round * round);
    pthread_mutex_unlock(&t->lock);
}

long tickets_take(struct tickets *t)
{
    pthread_mutex_lock(&t->lock);
    const long first = t->next, n = tickets_count(t->end, t->at_once, first);
    t->next += n;
    pthread_mutex_unlock(&t->lock);
    return n ? first + 1 : 0;
}

void tickets_changed(struct tickets *t, int worker)
{
    pthread_mutex_lock(&t->lock);
    const uint64_t others = t->served - t->seen[worker];
    t->staleness[others < STALENESS_MOST ? others : STALENESS_MOST - 1]++;
    /* Its own change is none that it does not know. */
    t->seen[worker]++;
    t->served++;
    pthread_mutex_unlock(&t->lock);
}

void tickets_read(struct tickets *t, int worker)
{
    pthread_mutex_lock(&t->lock);
    t->seen[worker] = t->served;
    pthread_mutex_unlock(&t->lock);
}
