/* SPDX-License-Identifier: MIT */
#include "rank_threads.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { MAX_RANKS = 8 };

int nhosts = 1;
static _Thread_local uint64_t my_host;

uint64_t __wrap_coll_topo_host_id(void);
uint64_t __wrap_coll_topo_host_id(void)
{
    return my_host;
}

struct thread {
    pthread_t id;
    coll_unique_id job;
    part_fn *part;
    int rank, nranks, wrong;
};

static void *be_rank(void *context)
{
    struct thread *t = context;
    coll_comm *comm;
    t->wrong = 1;
    my_host = (uint64_t)(t->rank * nhosts / t->nranks);
    if (coll_comm_init_rank(&comm, t->nranks, t->job, t->rank) != COLL_OK) {
        printf("# rank %d: %s\n", t->rank, coll_last_error(NULL));
        return NULL;
    }
    t->wrong = t->part(comm, t->rank, t->nranks);
    const coll_status failed = coll_comm_get_async_error(comm);
    if (coll_comm_destroy(comm) != failed)
        t->wrong = 1;
    return NULL;
}

int in_time(coll_comm *comm, int rank, int nranks, late_fn *part)
{
    enum { FIRST = 100000, LAST = 6400000 };
    int wrong = 0, late = 1;
    for (unsigned us = FIRST; late && !wrong && us <= LAST; us *= 2) {
        late = 0;
        wrong |= part(comm, rank, nranks, us, &late);
        int sums[2] = {wrong != 0, late};
        if (coll_allreduce(sums, sums, 2, COLL_I32, COLL_MAX, comm, NULL))
            return 1;
        wrong = sums[0];
        late = sums[1];
    }
    return wrong || late;
}

int run(int n, part_fn *part)
{
    struct thread threads[MAX_RANKS];
    coll_unique_id job = {{0}};
    int wrong = 0;
    /* Nobody would come to a hub for one. */
    if (n > 1 && coll_get_unique_id(&job) != COLL_OK) {
        printf("# %s\n", coll_last_error(NULL));
        return 0;
    }
    for (int r = 0; r < n; r++) {
        threads[r] =
            (struct thread){.job = job, .part = part, .rank = r, .nranks = n};
        pthread_create(&threads[r].id, NULL, be_rank, &threads[r]);
    }
    for (int r = 0; r < n; r++) {
        pthread_join(threads[r].id, NULL);
        wrong += threads[r].wrong;
    }
    return !wrong;
}
