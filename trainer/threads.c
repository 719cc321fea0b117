/* SPDX-License-Identifier: MIT */
/* Where the threads of the ranks run. */
#include <stdio.h>
#include <stdlib.h>

#include "train.h"

/* NULL with cpus set, or why threads are not bound. */
static const char *choose(struct train *t, int nthreads)
{
    t->cpus = malloc((size_t)nthreads * sizeof(*t->cpus));
    if (!t->cpus)
        return "no memory";
    if (coll_comm_place_threads(t->comm, nthreads, t->cpus) == COLL_OK)
        return NULL;
    free(t->cpus);
    t->cpus = NULL;
    return coll_last_error(NULL);
}

/* Whether each rank has a core besides those of its threads. */
static bool find_spare(const struct train *t, long nthreads)
{
    int *cpus = malloc((size_t)(nthreads + 1) * sizeof(*cpus));
    const bool found =
        cpus
        && coll_comm_place_threads(t->comm, (int)nthreads + 1, cpus) == COLL_OK;
    free(cpus);
    return found;
}

int train_place(struct train *t)
{
    if (t->settings.prefetch == PREFETCH_AUTO)
        t->loader.spare =
            find_spare(t, t->settings.threads ? t->settings.threads : 1);
    const long nthreads = t->settings.threads;
    const bool wanted = nthreads > 1 && !t->settings.unbound;
    const char *why = wanted ? choose(t, (int)nthreads) : NULL;
    /* One line is enough: hosts are mostly alike. */
    double first = why ? t->rank : t->nranks;
    if (why)
        snprintf(t->note, sizeof(t->note),
                 "rank %d: threads are not bound to cores: %s; ranks that "
                 "collrun has bound have one, --bind none leaves them all",
                 t->rank, why);
    const coll_status status =
        strategy_reduce(&t->strategy, &first, 1, COLL_MIN);
    if (status)
        return train_comm_failed(t, status);
    if (first < t->rank)
        t->note[0] = '\0';
    if (t->cpus)
        crew_bind(t->cpus[0]);
    return 0;
}
