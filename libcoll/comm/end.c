/* SPDX-License-Identifier: MIT */
/* Communicators: finalize and destroy. */
#include <sched.h>
#include <stdlib.h>

#include "base/log.h"
#include "comm/calls.h"
#include "comm/comm.h"
#include "comm/group.h"
#include "comm/owner.h"
#include "comm/p2p.h"
#include "comm/red_op.h"
#include "comm/request.h"
#include "comm/store.h"

static void close_transports(coll_comm *c)
{
    for (int i = 0; i < c->nopen; i++)
        c->open[i]->ops->close(c->open[i]);
    c->nopen = 0;
}

void comm_release(coll_comm *c, bool in_order)
{
    close_transports(c);
    p2p_free(c);
    node_free(c->node);
    if (c->bootstrap)
        bootstrap_leave(c->bootstrap);
    bootstrap_close_refuge(c->refuge);
    recorder_close(&c->recorder, !in_order); /* the link looks at it */
    comm_free_prepared(c);
    red_op_free_all(c);
    select_free(&c->select);
    layout_free(&c->layout);
    hosts_free(&c->hosts);
    free(c->meeting);
    free(c->rules);
    free(c->to);
    free(c->ways);
    free(c->host_of);
    free(c->ranks);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}

static coll_status flushed(void *context)
{
    const coll_comm *c = context;
    coll_status all = COLL_OK;
    for (int i = 0; i < c->nopen; i++) {
        const struct transport_ops *ops = c->open[i]->ops;
        const coll_status status =
            ops->flush ? ops->flush(c->open[i]) : COLL_OK;
        all = status != COLL_OK && all == COLL_OK ? status : all;
    }
    return all;
}

static coll_status sent(void *context)
{
    const coll_comm *c = context;
    return c->p2p->sending ? COLL_IN_PROGRESS : COLL_OK;
}

/* What was sent to this rank and is on its way. */
static coll_status landed(void *context)
{
    const coll_comm *c = context;
    return c->p2p->flying.first ? COLL_IN_PROGRESS : COLL_OK;
}

/* Returns once no rank waits for a message of this one, nor this one for what
 * was sent. call: for sentences. */
static coll_status part(coll_comm *c, const char *call)
{
    coll_status status = p2p_open(c);
    if (status == COLL_OK)
        status = comm_drain(c);
    if (status == COLL_OK)
        status = comm_wait(c, sent, c, c->op_seconds, "an outstanding send");
    if (status == COLL_OK)
        status = p2p_leave(c);
    if (status < 0)
        return status;
    calls_sign(c, CALLED_DESTROY);
    status = comm_wait(c, flushed, c, c->join_seconds, "the last flush");
    if (status == COLL_OK)
        status = comm_meet_alike(c, call);
    /* What was sent before all came here is here, or in what this rank reads.
     */
    if (status == COLL_OK)
        status = p2p_listen(c);
    return status < 0 ? status
                      : comm_wait(c, landed, c, c->join_seconds,
                                  "a message that was sent");
}

/* Ends what there is to do with the others: in order, or else they learn of it.
 */
static coll_status leave(coll_comm *c, const char *call)
{
    progress_part(c);
    c->helped = false;
    coll_status status = comm_check(c);
    if (status == COLL_OK && c->rank == 0)
        store_save(c);
    if (status == COLL_OK)
        status = part(c, call);
    /* What came during its last wait may have failed it, with no step left that
     * would have said so. */
    if (status == COLL_OK)
        status = comm_check(c);
    if (status == COLL_OK)
        return COLL_OK;
    const coll_status failed = comm_check(c);
    if (failed == COLL_OK)
        comm_fail(c, status, fail_sentence());
    else
        fail(failed, "comm", "%s", c->sentence);
    comm_end_requests(c, status);
    /* Nothing happens if they know. */
    if (c->bootstrap)
        bootstrap_abort(c->bootstrap, status, c->sentence);
    return status;
}

/* What lets the others end as they like. The rest is memory, which any thread
 * may still look at. */
static coll_status finalize(coll_comm *c)
{
    if (atomic_load_explicit(&c->finalized, memory_order_relaxed))
        return fail(COLL_ERR_INVALID, "comm", "coll_comm_finalize: %s",
                    c->sentence);
    const coll_status status = leave(c, "coll_comm_finalize()");
    if (status < 0)
        return status;
    if (record_runs(&c->recorder))
        record_end(&c->recorder, COLL_OK);
    const coll_status before = comm_finalize(c);
    /* Receives, to which nobody sends any more. */
    comm_end_requests(c, before < 0 ? before : COLL_ERR_INVALID);
    close_transports(c);
    if (c->bootstrap)
        bootstrap_depart(c->bootstrap);
    return before < 0 ? fail(before, "comm", "%s", c->sentence) : COLL_OK;
}

coll_status coll_comm_finalize(coll_comm *comm)
{
    if (!comm)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_comm_finalize: the communicator is NULL");
    coll_status status = group_check_unused(comm, "comm_finalize");
    if (status == COLL_OK)
        status = comm_enter(comm, "comm_finalize");
    if (status < 0)
        return status;
    status = finalize(comm);
    comm_leave(comm);
    return status;
}

coll_status coll_comm_destroy(coll_comm *comm)
{
    if (!comm)
        return COLL_OK;
    coll_status status = group_check_unused(comm, "comm_destroy");
    if (status == COLL_OK)
        status = comm_enter(comm, "comm_destroy");
    if (status < 0)
        return status;
    if (!atomic_load_explicit(&comm->finalized, memory_order_relaxed))
        status = leave(comm, "coll_comm_destroy()");
    /* Pairs with the end of coll_comm_abort() in another thread. */
    while (atomic_load_explicit(&comm->aborting, memory_order_acquire))
        sched_yield();
    comm_release(comm, status == COLL_OK);
    return status;
}
