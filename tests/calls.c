/* SPDX-License-Identifier: MIT */
#include "calls.h"

#include <stdlib.h>
#include <time.h>

#include "ranks.h"

const char *const over_shm[] = {"COLL_TRANSPORT=shm", NULL};
const char *const over_ucx[] = {"COLL_TRANSPORT=ucx", NULL};

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

float value(int r, size_t i)
{
    return (float)((i * 7 + (size_t)r * 3) % 11) - 3;
}

const char *const call_names[NKINDS] = {
    "allreduce", "reduce",  "broadcast", "reduce_scatter", "allgather",
    "gather",    "scatter", "alltoall",  "barrier",
};

coll_status call(enum kind kind, const void *in, void *out, size_t count,
                 coll_dtype dtype, coll_op op, int root, coll_comm *comm,
                 coll_request **request)
{
    switch (kind) {
    case REDUCE:
        return coll_reduce(in, out, count, dtype, op, root, comm, request);
    case BROADCAST:
        return coll_broadcast(in, out, count, dtype, root, comm, request);
    case REDUCE_SCATTER:
        return coll_reduce_scatter(in, out, count, dtype, op, comm, request);
    case ALLGATHER:
        return coll_allgather(in, out, count, dtype, comm, request);
    case GATHER:
        return coll_gather(in, out, count, dtype, root, comm, request);
    case SCATTER:
        return coll_scatter(in, out, count, dtype, root, comm, request);
    case ALLTOALL:
        return coll_alltoall(in, out, count, dtype, comm, request);
    case BARRIER:
        return coll_barrier(comm, request);
    default:
        return coll_allreduce(in, out, count, dtype, op, comm, request);
    }
}

static float combined(int n, size_t i, coll_op op)
{
    float x = value(0, i);
    for (int r = 1; r < n; r++) {
        const float v = value(r, i);
        x = op == COLL_MAX ? (v > x ? v : x) : x + v;
    }
    return op == COLL_AVG ? x / (float)n : x;
}

float wanted(enum kind kind, int rank, int n, size_t count, size_t i,
             coll_op op, int root)
{
    switch (kind) {
    case BROADCAST:
        return value(root, i);
    case REDUCE_SCATTER:
        return combined(n, (size_t)rank * count + i, op);
    case ALLGATHER:
    case GATHER:
        return value((int)(i / count), i % count);
    case SCATTER:
        return value(root, (size_t)rank * count + i);
    case ALLTOALL:
        return value((int)(i / count), (size_t)rank * count + i % count);
    default:
        return combined(n, i, op);
    }
}

int check_f32(coll_comm *comm, enum kind kind, size_t count, int in_place,
              coll_op op)
{
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);
    const int root = (int)(count % (size_t)n);
    const size_t m = (size_t)n, mine = (size_t)rank * count;
    const int gives_part = kind == ALLGATHER || kind == GATHER;
    const int gets_part = kind == REDUCE_SCATTER || kind == SCATTER;
    const size_t ins = gets_part || kind == ALLTOALL ? m * count : count;
    const size_t outs = gives_part || kind == ALLTOALL ? m * count : count;
    const int gets = (kind != REDUCE && kind != GATHER) || rank == root;
    const int gives = (kind != BROADCAST && kind != SCATTER) || rank == root;
    float *in = malloc((m * count + 1) * sizeof(float)), *give = in;
    float *out = in_place ? in : malloc((m * count + 1) * sizeof(float));
    float *own_out = out;
    if (in_place && gets_part)
        out += mine;
    if (in_place && gives_part)
        give += mine;
    for (size_t i = 0; i < outs; i++)
        out[i] = 55;
    in[m * count] = own_out[m * count] = 99;
    for (size_t i = 0; i < ins; i++)
        give[i] = value(rank, i);
    EXPECT(call(kind, gives ? give : NULL, gets ? out : NULL, count, COLL_F32,
                op, root, comm, NULL)
               == COLL_OK,
           "%s, count %zu", call_names[kind], count);
    for (size_t i = 0; i < outs && gets; i++)
        EXPECT(out[i] == wanted(kind, rank, n, count, i, op, root),
               "%s of %s, count %zu, root %d, rank %d, element %zu: %g",
               call_names[kind], coll_op_name(op), count, root, rank, i,
               (double)out[i]);
    for (size_t i = 0; i < ins && !in_place; i++)
        EXPECT(in[i] == value(rank, i), "%s: input written", call_names[kind]);
    EXPECT(in[m * count] == 99 && own_out[m * count] == 99,
           "%s: written past the end", call_names[kind]);
    free(in);
    if (!in_place)
        free(own_out);
    return 0;
}
