/* SPDX-License-Identifier: MIT */
/* How a communicator fails: the first reason wins and stays. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/told.h"
#include "comm/comm.h"

coll_status comm_fail(coll_comm *c, coll_status status, const char *sentence)
{
    pthread_mutex_lock(&c->mutex);
    if (atomic_load_explicit(&c->failed, memory_order_relaxed) == COLL_OK) {
        snprintf(c->sentence, sizeof(c->sentence), "%s", sentence);
        recorder_fail(&c->recorder, status, c->sentence);
        if (status == COLL_ERR_PEER)
            told_by_another();
        /* Read by comm_check() and coll_last_error(). */
        atomic_store_explicit(&c->failed, status, memory_order_release);
    }
    status =
        (coll_status)atomic_load_explicit(&c->failed, memory_order_relaxed);
    pthread_mutex_unlock(&c->mutex);
    return status;
}

coll_status comm_fail_with_job(coll_comm *c)
{
    return comm_fail(c, bootstrap_failure(c->bootstrap),
                     bootstrap_failure_sentence(c->bootstrap));
}

coll_status comm_finalize(coll_comm *c)
{
    pthread_mutex_lock(&c->mutex);
    const coll_status before =
        (coll_status)atomic_load_explicit(&c->failed, memory_order_relaxed);
    if (before == COLL_OK) {
        snprintf(c->sentence, sizeof(c->sentence),
                 "the communicator was finalized: only coll_comm_destroy() is "
                 "left");
        atomic_store_explicit(&c->finalized, true, memory_order_relaxed);
        /* Read by comm_check(), so that who sees it sees both above. */
        atomic_store_explicit(&c->failed, COLL_ERR_INVALID,
                              memory_order_release);
    }
    pthread_mutex_unlock(&c->mutex);
    return before;
}

coll_status coll_comm_get_async_error(const coll_comm *comm)
{
    if (!comm)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_comm_get_async_error: comm is NULL");
    const coll_status status = comm_check((coll_comm *)comm);
    return atomic_load_explicit(&comm->finalized, memory_order_relaxed)
               ? COLL_OK
               : status;
}

const char *coll_last_error(const coll_comm *comm)
{
    if (comm && coll_comm_get_async_error(comm) != COLL_OK)
        return comm->sentence;
    return fail_sentence();
}

coll_status coll_comm_abort_because(coll_comm *comm, const char *why)
{
    if (!comm || !why)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_comm_abort: the communicator%s is NULL",
                    comm ? "'s reason" : "");
    /* Who waits may wake, and destroy the communicator, before this returns:
     * coll_comm_destroy() waits for the count. */
    atomic_fetch_add_explicit(&comm->aborting, 1, memory_order_relaxed);
    comm_fail(comm, COLL_ERR_ABORTED, why);
    if (comm->bootstrap)
        bootstrap_abort(comm->bootstrap, COLL_ERR_ABORTED, why);
    atomic_fetch_sub_explicit(&comm->aborting, 1, memory_order_release);
    return COLL_OK;
}

coll_status coll_comm_abort(coll_comm *comm)
{
    char why[96];
    snprintf(why, sizeof(why), "rank %d called coll_comm_abort()",
             coll_comm_user_rank(comm));
    return coll_comm_abort_because(comm, why);
}

const char *coll_status_string(coll_status status)
{
    switch (status) {
    case COLL_OK:
        return "success";
    case COLL_IN_PROGRESS:
        return "in progress";
    case COLL_ERR_INVALID:
        return "invalid argument";
    case COLL_ERR_MEMORY:
        return "out of memory";
    case COLL_ERR_UNSUPPORTED:
        return "not supported";
    case COLL_ERR_PEER:
        return "another rank failed";
    case COLL_ERR_SYSTEM:
        return "system error";
    case COLL_ERR_TIMEOUT:
        return "deadline passed";
    case COLL_ERR_ABORTED:
        return "aborted";
    case COLL_ERR_MISMATCH:
        return "ranks made different calls";
    case COLL_ERR_BUSY:
        return "communicator in use by another call";
    }
    return "unknown status";
}
