/* SPDX-License-Identifier: MIT */
/* Many small collectives of random kinds and sizes, each result checked.
 *
 *   soak OPERATIONS [SEED [BYTES [NAPS]]]      under collrun
 *
 * All ranks draw the same operations; each draws its own delays before them,
 * up to 3 ms before one in NAPS (default 65536) of them.
 * Vectors of both kinds of memory, in place or not, blocking or as requests of
 * which up to four are under way. Every value is a small whole number, so sums
 * are exact in each dtype. Rank 0 prints "ok OPERATIONS". */
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "coll/coll.h"

enum { FLIGHTS = 4 };
enum kind {
    ALLREDUCE,
    REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    ALLGATHER,
    BARRIER,
    GATHER,
    SCATTER,
    ALLTOALL,
    NKINDS
};

static int rank, nranks;
static coll_comm *comm;

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static void die(const char *what, long number)
{
    fprintf(stderr, "soak: rank %d: operation %ld: %s: %s\n", rank, number,
            what, coll_last_error(comm));
    abort();
}

/* One operation under way. */
struct flight {
    enum kind kind;
    int root;
    size_t count; /* as the call takes it */
    coll_dtype dtype;
    coll_op op;
    long number;
    bool in_place;
    void *send, *recv, *memory[2];
    coll_request *request;
};

/* Whether send, or recv, has a part for each rank. */
static bool sends_parts(const struct flight *f)
{
    return f->kind == REDUCE_SCATTER || f->kind == SCATTER
           || f->kind == ALLTOALL;
}

static bool gets_parts(const struct flight *f)
{
    return f->kind == ALLGATHER || f->kind == GATHER || f->kind == ALLTOALL;
}

static bool reduces(const struct flight *f)
{
    return f->kind == ALLREDUCE || f->kind == REDUCE
           || f->kind == REDUCE_SCATTER;
}

static size_t elem_of(const struct flight *f)
{
    return coll_dtype_bytes(f->dtype);
}

static int value(int r, size_t i, long number)
{
    return (int)((i * 3 + (size_t)r * 5 + (size_t)number) & 7);
}

/* The result of a reduction, times the ranks if it is an average. */
static int total(const struct flight *f, size_t i)
{
    int sum = 0, most = 0;
    for (int r = 0; r < nranks; r++) {
        const int v = value(r, i, f->number);
        sum += v;
        most = v > most ? v : most;
    }
    return f->op == COLL_MAX ? most : sum;
}

static void put(const struct flight *f, void *x, size_t i, int v)
{
    switch (f->dtype) {
    case COLL_F32:
        ((float *)x)[i] = (float)v;
        break;
    case COLL_F64:
        ((double *)x)[i] = v;
        break;
    case COLL_I32:
        ((int32_t *)x)[i] = v;
        break;
    default:
        ((uint16_t *)x)[i] = (uint16_t)v;
        break;
    }
}

static bool holds(const struct flight *f, const void *x, size_t i, int v)
{
    if (f->op == COLL_AVG) /* drawn for this dtype only */
        return ((const float *)x)[i] == (float)v / (float)nranks;
    switch (f->dtype) {
    case COLL_F32:
        return ((const float *)x)[i] == (float)v;
    case COLL_F64:
        return ((const double *)x)[i] == v;
    case COLL_I32:
        return ((const int32_t *)x)[i] == v;
    default:
        return ((const uint16_t *)x)[i] == (uint16_t)v;
    }
}

static coll_status start(struct flight *f, coll_request **request)
{
    switch (f->kind) {
    case ALLREDUCE:
        return coll_allreduce(f->send, f->recv, f->count, f->dtype, f->op, comm,
                              request);
    case REDUCE:
        return coll_reduce(f->send, f->recv, f->count, f->dtype, f->op, f->root,
                           comm, request);
    case BROADCAST:
        return coll_broadcast(f->send, f->recv, f->count, f->dtype, f->root,
                              comm, request);
    case REDUCE_SCATTER:
        return coll_reduce_scatter(f->send, f->recv, f->count, f->dtype, f->op,
                                   comm, request);
    case ALLGATHER:
        return coll_allgather(f->send, f->recv, f->count, f->dtype, comm,
                              request);
    case GATHER:
        return coll_gather(f->send, f->recv, f->count, f->dtype, f->root, comm,
                           request);
    case SCATTER:
        return coll_scatter(f->send, f->recv, f->count, f->dtype, f->root, comm,
                            request);
    case ALLTOALL:
        return coll_alltoall(f->send, f->recv, f->count, f->dtype, comm,
                             request);
    default:
        return coll_barrier(comm, request);
    }
}

static void fill(struct flight *f)
{
    const size_t n = (size_t)nranks, part = f->count * elem_of(f);
    const size_t sent = sends_parts(f) ? n * f->count : f->count;
    f->send = f->memory[0];
    f->recv = f->in_place ? f->memory[0] : f->memory[1];
    if (f->in_place && sends_parts(f) && !gets_parts(f))
        f->recv = (char *)f->send + (size_t)rank * part;
    if (f->in_place && gets_parts(f) && !sends_parts(f))
        f->send = (char *)f->recv + (size_t)rank * part;
    for (size_t i = 0; i < sent; i++)
        put(f, f->send, i, value(rank, i, f->number));
}

/* Element i of this rank's result. */
static int wanted(const struct flight *f, size_t i)
{
    const size_t mine = (size_t)rank * f->count;
    switch (f->kind) {
    case BROADCAST:
        return value(f->root, i, f->number);
    case SCATTER:
        return value(f->root, mine + i, f->number);
    case GATHER:
    case ALLGATHER:
        return value((int)(i / f->count), i % f->count, f->number);
    case ALLTOALL:
        return value((int)(i / f->count), mine + i % f->count, f->number);
    default:
        return total(f, (f->kind == REDUCE_SCATTER ? mine : 0) + i);
    }
}

static void check(const struct flight *f)
{
    const size_t all = gets_parts(f) ? (size_t)nranks * f->count : f->count;
    if (f->kind == BARRIER
        || ((f->kind == REDUCE || f->kind == GATHER) && rank != f->root))
        return;
    for (size_t i = 0; i < all; i++) {
        const int v = wanted(f, i);
        if (!holds(f, f->recv, i, v)) {
            fprintf(stderr, "soak: kind %d count %zu dtype %s root %d %s\n",
                    f->kind, f->count, coll_dtype_name(f->dtype), f->root,
                    f->in_place ? "in place" : "");
            die("a wrong element", f->number);
        }
    }
}

static void land(struct flight *f)
{
    if (f->request && coll_wait(&f->request) < 0)
        die("coll_wait", f->number);
    check(f);
}

/* Mostly none; now and then so long that others sleep. */
static void delay(uint64_t x, uint64_t naps)
{
    const struct timespec nap = {.tv_nsec = (long)(x >> 32) % 3000000};
    if (x % 1024 == 0)
        sched_yield();
    if (x % naps == naps - 1)
        nanosleep(&nap, NULL);
}

/* Flights 0 and 2 in shared memory, 1 in the caller's own, 3 in either: so some
 * ranks have what others have not. */
static bool is_own(int i)
{
    return i == 3 ? rank % 2 : i % 2;
}

static void allocate(struct flight *f, int i, size_t bytes)
{
    for (int k = 0; k < 2; k++)
        if (is_own(i) ? !(f->memory[k] = aligned_alloc(64, bytes))
                      : coll_mem_alloc(&f->memory[k], bytes) < 0)
            die("no memory", 0);
}

int main(int argc, char **argv)
{
    static const coll_dtype dtypes[] = {COLL_F32, COLL_F64, COLL_I32, COLL_U16};
    struct flight flights[FLIGHTS] = {0};
    const long operations = argc > 1 ? atol(argv[1]) : 10000;
    uint64_t shared = argc > 2 ? (uint64_t)atol(argv[2]) * 2 + 1 : 12345;
    const size_t most = argc > 3 ? (size_t)atol(argv[3]) : 4096;
    const uint64_t naps = argc > 4 ? (uint64_t)atol(argv[4]) : 65536;
    if (coll_comm_init(&comm) < 0)
        die("coll_comm_init", 0);
    rank = coll_comm_user_rank(comm);
    nranks = coll_comm_count(comm);
    uint64_t own = shared * (uint64_t)(rank + 3) | 1;
    for (int i = 0; i < FLIGHTS; i++)
        allocate(&flights[i], i, (most * (size_t)nranks + 63) / 64 * 64);

    for (long k = 0; k < operations; k++) {
        struct flight *f = &flights[k % FLIGHTS];
        if (f->request)
            land(f);
        const uint64_t x = draw(&shared);
        f->number = k;
        f->kind = (enum kind)((x >> 8 & 0xff) % NKINDS);
        f->root = (int)(x >> 16 & 0xff) % nranks;
        f->dtype = dtypes[x >> 24 & 3];
        /* Some ranks in place and some not, where that makes a difference. */
        f->in_place =
            (x >> 26 & 3) == 0
            || ((x >> 26 & 3) == 1 && f->kind == ALLTOALL && rank % 3);
        f->op = !reduces(f)                      ? COLL_SUM
                : x & 16                         ? COLL_MAX
                : x & 32 && f->dtype == COLL_F32 ? COLL_AVG
                                                 : COLL_SUM;
        /* Short ones most often: half of the bits decide on the length. */
        const size_t longest = most / elem_of(f) >> (x >> 28 & 7);
        f->count = (x >> 32) % (longest + 1);
        fill(f);
        delay(draw(&own), naps);
        const bool request = (x & 15) == 0;
        if (start(f, request ? &f->request : NULL) < 0)
            die("the call", k);
        if (!request)
            check(f);
    }
    for (int i = 0; i < FLIGHTS; i++)
        if (flights[i].request)
            land(&flights[i]);
    for (int i = 0; i < FLIGHTS; i++)
        for (int k = 0; k < 2; k++)
            if (is_own(i))
                free(flights[i].memory[k]);
            else if (coll_mem_free(flights[i].memory[k]) < 0)
                die("coll_mem_free", operations);
    if (coll_comm_destroy(comm) < 0)
        die("coll_comm_destroy", operations);
    if (rank == 0)
        printf("ok %ld\n", operations);
    return 0;
}
