/* SPDX-License-Identifier: MIT */
/* Memory that the ranks of a host have in common.
 *
 * Three rounds of the control plane (agree.h): how long each one's memory is;
 * the file that rank 0 has moved its own to; whether all have mapped that. What
 * fails at one rank fails at all, and leaves each pages of its own.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "comm/agree.h"
#include "comm/owner.h"
#include "node/heap.h"

struct word {
    struct verdict verdict;
    struct heap_gift gift; /* of rank 0 */
    uint64_t bytes;
};

struct share {
    coll_comm *comm;
    void *buf;
    size_t bytes;
    bool has; /* the pages in common */
    struct word mine, *all;
};

static coll_status tell(struct share *s, coll_status status)
{
    if (status == COLL_ERR_SYSTEM) /* denied here; the communicator is good */
        status = COLL_ERR_MEMORY;
    return agree(s->comm, "share", status, &s->mine, s->all, sizeof(s->mine));
}

static coll_status check(struct share *s)
{
    const coll_comm *c = s->comm;
    s->mine.bytes = s->bytes;
    if (c->nranks > 1 && (!c->node || c->nhosts > 1))
        return fail(COLL_ERR_UNSUPPORTED, "comm",
                    "the ranks do not share memory: they are on several hosts, "
                    "or COLL_TRANSPORT says so; COLL_SPLIT_HOST makes groups "
                    "that do");
    return heap_check(s->buf, s->bytes);
}

static coll_status compare(const struct share *s)
{
    for (int r = 1; r < s->comm->nranks; r++)
        if (s->all[r].bytes != s->all[0].bytes)
            return fail(COLL_ERR_INVALID, "comm",
                        "coll_comm_share: rank %d has %llu bytes, rank 0 %llu",
                        r, (unsigned long long)s->all[r].bytes,
                        (unsigned long long)s->all[0].bytes);
    return COLL_OK;
}

static coll_status give(struct share *s)
{
    if (s->comm->rank)
        return COLL_OK;
    const coll_status status = heap_give(s->buf, s->bytes, &s->mine.gift);
    s->has = status == COLL_OK;
    return status;
}

static coll_status receive(struct share *s)
{
    if (!s->comm->rank)
        return COLL_OK;
    const coll_status status = heap_receive(s->buf, s->bytes, &s->all[0].gift);
    s->has = status == COLL_OK;
    return status;
}

static coll_status share(struct share *s)
{
    coll_status status = agree_begin(s->comm, "share", CALLED_SHARE);
    if (status < 0)
        return status;
    status = tell(s, check(s));
    if (status == COLL_OK)
        status = compare(s);
    if (status == COLL_OK)
        status = tell(s, give(s));
    if (status == COLL_OK)
        status = tell(s, receive(s));
    agree_end(s->comm, status);
    return status;
}

static void end(struct share *s, coll_status status)
{
    if (s->mine.gift.file.fd >= 0)
        close((int)s->mine.gift.file.fd);
    if (status < 0 && s->has)
        heap_disown(s->buf);
    free(s->all);
}

coll_status coll_comm_share(coll_comm *comm, void *buf, size_t bytes,
                            void **handle)
{
    if (!comm || !handle)
        return fail(COLL_ERR_INVALID, "comm", "coll_comm_share: %s is NULL",
                    comm ? "handle" : "the communicator");
    coll_status status = comm_enter(comm, "comm_share");
    if (status < 0)
        return status;
    struct share s = {
        .comm = comm,
        .buf = buf,
        .bytes = bytes,
        .mine.gift.file.fd = -1,
        .all = calloc((size_t)comm->nranks, sizeof(struct word)),
    };
    status =
        s.all ? share(&s)
              : fail(COLL_ERR_MEMORY, "comm",
                     "coll_comm_share: no memory for %d ranks", comm->nranks);
    end(&s, status);
    comm_leave(comm);
    if (status == COLL_OK)
        *handle = buf;
    return status;
}
