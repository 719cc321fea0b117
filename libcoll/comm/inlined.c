/* SPDX-License-Identifier: MIT */
#include "comm/inlined.h"

#include <math.h>

#include "base/log.h"
#include "comm/copy.h"
#include "comm/request.h"
#include "node/heap.h"

enum { BATCHES = 4, OPS = 12, LOOKS = 256, FLOATS = NODE_INLINE_BYTES / 4 };
static const double most_seconds = 5e-3;

struct meter {
    coll_comm *comm;
    float *in, *out; /* [FLOATS]; memory that all reach, so direct is at best */
    double until;
    bool late; /* some rank was; all know it of the same operation */
    volatile float read;
};

static coll_status step(void *context)
{
    return node_step(context);
}

static coll_status run(struct meter *m, bool direct, size_t count)
{
    struct node *n = m->comm->node;
    n->call = (struct node_call){.kind = ALLREDUCE,
                                 .dtype = COLL_F32,
                                 .in = m->in,
                                 .out = m->out,
                                 .count = count,
                                 .elem_bytes = sizeof(float),
                                 .combine = op_combine(COLL_F32, COLL_SUM),
                                 .tag = (uint32_t)count};
    (direct ? node_start_direct : node_start_inline)(n);
    coll_status status = COLL_IN_PROGRESS;
    for (int i = 0; i < LOOKS && status == COLL_IN_PROGRESS; i++)
        status = node_step(n);
    return status == COLL_IN_PROGRESS
               ? comm_wait(m->comm, step, n, m->comm->join_seconds,
                           "a first operation on shared memory")
               : status;
}

/* What OPS operations take. What goes in was written just before, and what came
 * out is read, as users do: it depends on which core has these lines. */
static coll_status take(struct meter *m, bool direct, size_t count,
                        float *seconds)
{
    enum { LINE = 64 / sizeof(float) };
    double spent = 0, begin = comm_clock();
    const float late = begin > m->until;
    coll_status status = COLL_OK;
    for (int i = 0; i < OPS && status == COLL_OK; i++) {
        for (size_t j = 0; j < count; j++)
            m->in[j] = late;
        begin = comm_clock();
        status = run(m, direct, count);
        spent += comm_clock() - begin;
        for (size_t j = 0; j < count; j += LINE)
            m->read += m->out[j];
    }
    m->late |= m->out[0] > 0;
    *seconds = (float)spent;
    return status;
}

/* The least of each rank: what else runs only adds. */
static coll_status take_all(struct meter *m, float least[2][INLINED_SIZES])
{
    coll_status status = COLL_OK;
    for (int s = 0; s < INLINED_SIZES; s++)
        for (int i = 0; i < 2 * BATCHES && status == COLL_OK && !m->late; i++) {
            const bool direct = i % 2;
            float seconds;
            status =
                take(m, direct, ((size_t)INLINED_LEAST << s) / sizeof(float),
                     &seconds);
            if (i < 2 || seconds < least[direct][s])
                least[direct][s] = seconds;
        }
    return status;
}

size_t inlined_best(const float inlined[INLINED_SIZES],
                    const float direct[INLINED_SIZES])
{
    size_t best = INLINED_LEAST / 2;
    float gain = 0, most = 0;
    for (int s = 0; s < INLINED_SIZES; s++) {
        gain += logf(direct[s] / inlined[s]);
        if (gain > most) {
            most = gain;
            best = (size_t)INLINED_LEAST << s;
        }
    }
    return best;
}

/* All count with the same sums. */
static coll_status agree(struct meter *m, float least[2][INLINED_SIZES])
{
    struct node *n = m->comm->node;
    memcpy(m->in, least, 2 * INLINED_SIZES * sizeof(float));
    const coll_status status = run(m, false, 2 * INLINED_SIZES);
    if (status < 0)
        return status;
    m->comm->select.node.allreduce_bytes =
        inlined_best(m->out, m->out + INLINED_SIZES);
    if (n->me == 0)
        for (int s = 0; s < INLINED_SIZES; s++)
            log_line(COLL_LOG_DEBUG, "shm",
                     "%d bytes: %.3g us copied, %.3g us read where they lie",
                     INLINED_LEAST << s, 1e6 * m->out[s] / (OPS * n->n),
                     1e6 * m->out[INLINED_SIZES + s] / (OPS * n->n));
    return COLL_OK;
}

coll_status inlined_measure(coll_comm *c)
{
    struct meter m = {.comm = c};
    float least[2][INLINED_SIZES];
    void *memory;
    if (!c->select.node.nranks || c->crowded || !c->calibrates)
        return COLL_OK;
    if (c->same && copy_serves(c) && c->parent->select.node.nranks) {
        c->select.node = c->parent->select.node;
        return COLL_OK;
    }
    coll_status status = heap_alloc(&memory, 2 * FLOATS * sizeof(float));
    if (status < 0)
        return status;
    m.in = memory;
    m.out = m.in + FLOATS;
    *m.in = 0;
    status = run(&m, false, 1); /* all are here: the time begins */
    m.until = comm_clock() + most_seconds;
    if (status == COLL_OK)
        status = take_all(&m, least);
    if (status == COLL_OK && !m.late)
        status = agree(&m, least);
    heap_free(memory);
    return status;
}
