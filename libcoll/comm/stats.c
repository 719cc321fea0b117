/* SPDX-License-Identifier: MIT */
/* What a communicator has done, in all and by collective. The counting is in
 * request.c, beside the records. */
#include "base/log.h"
#include "comm/explain.h"
#include "comm/owner.h"

static coll_statistics of_kind(const coll_comm *c, enum coll_kind kind)
{
    const struct tally *t = &c->tally[kind];
    return (coll_statistics){
        .operations = t->operations,
        .bytes_read = t->bytes_read,
        .bytes_written = t->bytes_written,
        .failures = t->failures,
        .vector_bytes = t->vector_bytes,
        .seconds = recorder_seconds(&c->recorder, t->ticks),
    };
}

coll_status coll_stats(const coll_comm *comm, coll_statistics *stats)
{
    if (!comm || !stats)
        return fail(COLL_ERR_INVALID, "comm", "coll_stats: %s is NULL",
                    comm ? "stats" : "the communicator");
    const coll_status status = comm_enter((coll_comm *)comm, "stats");
    if (status < 0)
        return status;
    coll_statistics all = {0};
    for (int k = 0; k < NKINDS; k++) {
        const coll_statistics one = of_kind(comm, (enum coll_kind)k);
        all.operations += one.operations;
        all.bytes_read += one.bytes_read;
        all.bytes_written += one.bytes_written;
        all.failures += one.failures;
        all.vector_bytes += one.vector_bytes;
        all.seconds += one.seconds;
    }
    *stats = all;
    comm_leave((coll_comm *)comm);
    return COLL_OK;
}

coll_status coll_stats_of(const coll_comm *comm, const char *collective,
                          coll_statistics *stats)
{
    if (!comm || !stats)
        return fail(COLL_ERR_INVALID, "comm", "coll_stats_of: %s is NULL",
                    comm ? "stats" : "the communicator");
    enum coll_kind kind;
    coll_status status = explain_kind("coll_stats_of", collective, &kind);
    if (status == COLL_OK)
        status = comm_enter((coll_comm *)comm, "stats_of");
    if (status < 0)
        return status;
    *stats = of_kind(comm, kind);
    comm_leave((coll_comm *)comm);
    return status;
}

coll_status coll_stats_messages(const coll_comm *comm, const char *collective,
                                uint64_t *messages)
{
    if (!comm || !messages)
        return fail(COLL_ERR_INVALID, "comm", "coll_stats_messages: %s is NULL",
                    comm ? "messages" : "the communicator");
    enum coll_kind only = NKINDS;
    coll_status status =
        collective ? explain_kind("coll_stats_messages", collective, &only)
                   : COLL_OK;
    if (status == COLL_OK)
        status = comm_enter((coll_comm *)comm, "stats_messages");
    if (status < 0)
        return status;
    *messages = 0;
    for (int k = 0; k < NKINDS; k++)
        if (only == NKINDS || k == (int)only)
            *messages += comm->tally[k].messages;
    comm_leave((coll_comm *)comm);
    return COLL_OK;
}
