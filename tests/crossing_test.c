/* SPDX-License-Identifier: MIT */
/* Collectives by hosts: what crosses, and that memory and messages overlap. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "hosts.h"

/* --- what crosses between hosts ------------------------------------------- */

/* A transport that counts what it is given to send. */
struct counter {
    struct transport base;
    struct transport *real;
    uint64_t bytes;
};

static void count_and_send(struct transport *t, struct transfer *x)
{
    struct counter *c = (struct counter *)t;
    c->bytes += x->bytes;
    c->real->ops->send(c->real, x);
}

static void pass_on_recv(struct transport *t, struct transfer *x)
{
    struct counter *c = (struct counter *)t;
    c->real->ops->recv(c->real, x);
}

static const struct transport_ops counting = {
    .name = "counter", .send = count_and_send, .recv = pass_on_recv};

/* Bytes that all ranks together send, inside of hosts and between them, in a
 * collective on vectors or parts of so many bytes. */
static int count_bytes(coll_comm *comm, const char *rule, enum coll_kind kind,
                       size_t bytes, uint64_t *inside, uint64_t *between)
{
    const int n = coll_comm_count(comm), me = coll_comm_user_rank(comm);
    struct counter counters[16];
    uint64_t sent[2] = {0, 0};
    float *x = calloc(bytes, 2 * (size_t)n), *y = x + bytes / 4 * (size_t)n;
    EXPECT(coll_comm_set_algorithm(comm, rule) == COLL_OK, "%s", rule);
    for (int r = 0; r < n; r++) {
        counters[r] = (struct counter){{&counting}, comm->to[r], 0};
        comm->to[r] = &counters[r].base;
    }
    EXPECT(
        sum_or_gather(comm, kind, x, kind == ALLREDUCE ? x : y, bytes / 4, NULL)
            == COLL_OK,
        "%s", rule);
    for (int r = 0; r < n; r++) {
        comm->to[r] = counters[r].real;
        sent[hosts[r] != hosts[me]] += counters[r].bytes;
    }
    EXPECT(coll_allreduce(sent, sent, 2, COLL_U64, COLL_SUM, comm, NULL)
               == COLL_OK,
           "sum");
    *inside = sent[0];
    *between = sent[1];
    free(x);
    return 0;
}

/* The formulas of libcoll/README.md, for as many ranks as there are hosts. */
static int crossing(coll_comm *comm, int rank, int n)
{
    const uint64_t nhosts = (uint64_t)comm->nhosts;
    static const size_t sizes[] = {64, 4096, HOSTS_SLICES_MIN, 4000004};
    uint64_t inside, between;
    (void)rank, (void)n;
    for (size_t i = 0; i < 4; i++) {
        if (count_bytes(comm, "ring@by_hosts", ALLREDUCE, sizes[i], &inside,
                        &between))
            return 1;
        EXPECT(inside == 0, "%lu inside", (unsigned long)inside);
        EXPECT(between == 2 * (nhosts - 1) * sizes[i], "%zu: %lu between",
               sizes[i], (unsigned long)between);
        if (count_bytes(comm, "direct@by_hosts", ALLREDUCE, sizes[i], &inside,
                        &between))
            return 1;
        EXPECT(inside == 0, "%lu inside", (unsigned long)inside);
        EXPECT(between == nhosts * (nhosts - 1) * sizes[i], "%zu: %lu between",
               sizes[i], (unsigned long)between);
    }
    if (count_bytes(comm, "ring@block", ALLREDUCE, 4096, &inside, &between))
        return 1;
    EXPECT(inside > 0, "a plan of ranks sends nothing inside");
    return 0;
}

Test(crossing, each_byte_crosses_as_often_as_with_one_rank_a_host)
{
    cr_assert_eq(run_on("0011", quick, crossing), 0);
    cr_assert_eq(run_on("012012", quick, crossing), 0);
    cr_assert_eq(run_on("01122", quick, crossing), 0);
}

/* Each part is wanted on one host, or known to one: however they are numbered,
 * and in segments too. */
static int parts_crossing(coll_comm *comm, int rank, int n)
{
    static const size_t sizes[] = {4, 4096, 400004};
    (void)rank;
    for (int i = 0; i < 2 * 3 * 2; i++) {
        const bool gathers = i % 2, in_segments = i >= 6;
        const size_t bytes = sizes[i / 2 % 3];
        const uint64_t whole = (uint64_t)n * bytes;
        const uint64_t others = (uint64_t)comm->nhosts - 1;
        uint64_t inside, between;
        cut_into(comm, in_segments ? 4 : 1);
        if (count_bytes(comm,
                        gathers ? "allgather:ring@by_hosts"
                                : "reduce_scatter:ring@by_hosts",
                        gathers ? ALLGATHER : REDUCE_SCATTER, bytes, &inside,
                        &between))
            return 1;
        EXPECT(inside == 0, "%lu inside", (unsigned long)inside);
        EXPECT(between == others * whole, "parts of %zu: %lu between", bytes,
               (unsigned long)between);
    }
    return 0;
}

Test(crossing, parts_cross_as_often_as_with_one_rank_a_host)
{
    cr_assert_eq(run_on("0011", still, parts_crossing), 0);
    cr_assert_eq(run_on("012012", still, parts_crossing), 0);
}

/* --- overlap --------------------------------------------------------------
 */

/* A transport that sends nothing of a segment before the next one is combined
 * inside, or the last one spread: where nothing is done in memory meanwhile, an
 * operation never ends. */
struct holder {
    struct transport base;
    struct transport **real; /* by rank */
    const struct staged *staged;
    struct transfer *held[EXEC_WINDOW];
    int n;
    bool spreads; /* nothing is to be combined */
};

static bool too_early(const struct holder *h)
{
    const struct staged *s = h->staged;
    if (h->spreads)
        return s->out < s->crossed;
    return s->in < s->nsegments && s->in < s->crossed + 2;
}

static bool release(struct transport *t)
{
    struct holder *h = (struct holder *)t;
    const int n = h->n;
    for (int i = 0; i < n && !too_early(h); i++) {
        struct transport *to = h->real[h->held[i]->peer];
        to->ops->send(to, h->held[i]);
        h->n--;
    }
    return n > h->n;
}

static void hold_send(struct transport *t, struct transfer *x)
{
    struct holder *h = (struct holder *)t;
    h->held[h->n++] = x;
    release(t);
}

static void recv_at_once(struct transport *t, struct transfer *x)
{
    struct transport *from = ((struct holder *)t)->real[x->peer];
    from->ops->recv(from, x);
}

static void cancel_held(struct transport *t)
{
    struct holder *h = (struct holder *)t;
    for (int i = 0; i < h->n; i++)
        h->held[i]->status = COLL_ERR_ABORTED;
    h->n = 0;
}

static const struct transport_ops holding = {.name = "holder",
                                             .send = hold_send,
                                             .recv = recv_at_once,
                                             .progress = release,
                                             .cancel = cancel_held};

/* What element i of the vectors is, and what it comes to on this rank. */
static float given(int rank, size_t i)
{
    return (float)(rank + (int)(i % 7));
}

static float wanted(enum coll_kind kind, int rank, int n, size_t count,
                    size_t i)
{
    if (kind == ALLGATHER)
        return given((int)(i / count), i % count);
    if (kind == REDUCE_SCATTER)
        i += (size_t)rank * count;
    return (float)(n * (n - 1) / 2 + n * (int)(i % 7));
}

/* By what carries every rank's slice, what goes through leaders, and parts. */
static int overlap_of(coll_comm *comm, struct holder *h, enum coll_kind kind)
{
    enum { COUNT = 50021, SEGMENTS = 4, MOST = 6 };
    static float x[MOST * COUNT], y[MOST * COUNT];
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);
    const bool parts = kind == REDUCE_SCATTER || kind == ALLGATHER;
    const size_t count = parts ? COUNT / 2 : COUNT;
    const size_t total = kind == ALLGATHER ? count * (size_t)n : count;
    const int calls = parts ? comm->nhosts : 1; /* of node/, for a segment */
    h->spreads = kind == ALLGATHER;
    for (size_t i = 0; i < count * (size_t)n; i++)
        x[i] = given(rank, i);
    EXPECT(sum_or_gather(comm, kind, x, y, count, NULL) == COLL_OK, "%s",
           kind_names[kind]);
    for (size_t i = 0; i < total && (kind != REDUCE || rank == 0); i++)
        EXPECT(y[i] == wanted(kind, rank, n, count, i), "%s, %zu: %g",
               kind_names[kind], i, (double)y[i]);
    EXPECT(comm->staged.nsegments == SEGMENTS, "%d segments",
           comm->staged.nsegments);
    /* The root of a reduce sends nothing that could be held. */
    EXPECT(kind == REDUCE || !comm->node || !comm->staged.carries
               || comm->staged.overlaps >= (SEGMENTS - 1) * calls,
           "%s: %d overlaps", kind_names[kind], comm->staged.overlaps);
    return 0;
}

static int overlap(coll_comm *comm, int rank, int n)
{
    static const enum coll_kind kinds[] = {ALLREDUCE, REDUCE, REDUCE_SCATTER,
                                           ALLGATHER};
    struct transport *real[16];
    struct holder h = {{&holding}, real, &comm->staged, {NULL}, 0, false};
    const int nkinds = layout_even(&comm->layout) ? 4 : 2;
    (void)rank;
    EXPECT(
        coll_comm_set_algorithm(
            comm,
            nkinds == 4
                ? "ring@by_hosts;reduce:binomial_tree@by_hosts" PARTS_BY_HOSTS
                : "ring@by_hosts;reduce:binomial_tree@by_hosts")
            == COLL_OK,
        "rules");
    cut_into(comm, 4);
    for (int r = 0; r < n; r++) {
        real[r] = comm->to[r];
        comm->to[r] = &h.base;
    }
    comm->open[comm->nopen++] = &h.base;
    for (int k = 0; k < nkinds; k++)
        if (overlap_of(comm, &h, kinds[k]))
            return 1;
    comm->nopen--;
    for (int r = 0; r < n; r++)
        comm->to[r] = real[r];
    return 0;
}

Test(crossing, a_segment_crosses_while_another_is_combined_or_spread)
{
    static const char *const settings[] = {"COLL_CALIBRATE=off",
                                           "COLL_OP_SECONDS=20", NULL};
    cr_assert_eq(run_on("0011", settings, overlap), 0);
    cr_assert_eq(run_on("012012", settings, overlap), 0);
    cr_assert_eq(run_on("01122", settings, overlap), 0);
}
