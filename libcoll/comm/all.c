/* SPDX-License-Identifier: MIT */
/* A job whose ranks are threads of this process. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/comm.h"

/* All or none: the threads wait until every one of them has started. */
struct start {
    pthread_mutex_t mutex;
    bool go; /* guarded by the mutex */
    coll_unique_id id;
    int nranks;
};

struct member {
    pthread_t thread;
    struct start *start;
    int rank;
    coll_comm *comm;
    coll_status status;
    char sentence[SENTENCE_BYTES];
};

static void *be_rank(void *context)
{
    struct member *m = context;
    pthread_mutex_lock(&m->start->mutex);
    const bool go = m->start->go;
    pthread_mutex_unlock(&m->start->mutex);
    if (!go)
        return NULL;
    m->status =
        coll_comm_init_rank(&m->comm, m->start->nranks, m->start->id, m->rank);
    if (m->status < 0)
        snprintf(m->sentence, sizeof(m->sentence), "%s", fail_sentence());
    return NULL;
}

static coll_status run_threads(struct start *start, struct member *members)
{
    int n = 0, error = 0;
    pthread_mutex_lock(&start->mutex);
    for (; n < start->nranks && !error; n += !error) {
        members[n] = (struct member){.start = start, .rank = n};
        error = pthread_create(&members[n].thread, NULL, be_rank, &members[n]);
    }
    coll_status status = COLL_OK;
    if (error)
        status = fail(COLL_ERR_SYSTEM, "comm",
                      "coll_comm_init_all: cannot start a thread for rank %d "
                      "of %d: %s",
                      n, start->nranks, strerror(error));
    else if (start->nranks > 1) /* nobody would come to a hub for one */
        status = coll_get_unique_id(&start->id);
    start->go = status == COLL_OK;
    pthread_mutex_unlock(&start->mutex);
    for (int r = 0; r < n; r++)
        pthread_join(members[r].thread, NULL);
    return status;
}

/* Of ranks that have met, the first one's failure is that of all. */
static coll_status judge(struct member *members, int nranks)
{
    int failed = 0;
    while (failed < nranks && members[failed].status == COLL_OK)
        failed++;
    if (failed == nranks)
        return COLL_OK;
    for (int r = 0; r < nranks; r++)
        if (members[r].comm) {
            coll_comm_abort(members[r].comm);
            coll_comm_destroy(members[r].comm);
        }
    return fail(members[failed].status, "comm", "%s", members[failed].sentence);
}

coll_status coll_comm_init_all(coll_comm **comms, int nranks)
{
    if (!comms || nranks < 1)
        return fail(COLL_ERR_INVALID, "comm", "coll_comm_init_all: %s",
                    comms ? "nranks must be at least 1" : "comms is NULL");
    struct start start = {.nranks = nranks};
    struct member *members = calloc((size_t)nranks, sizeof(*members));
    if (!members)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks", nranks);
    pthread_mutex_init(&start.mutex, NULL);
    coll_status status = run_threads(&start, members);
    if (status == COLL_OK)
        status = judge(members, nranks);
    for (int r = 0; r < nranks && status == COLL_OK; r++)
        comms[r] = members[r].comm;
    pthread_mutex_destroy(&start.mutex);
    free(members);
    return status;
}
