/* SPDX-License-Identifier: MIT */
/* Collectives by hosts: what crosses, how ranks wait and fail. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "hosts.h"

/* Nothing is tried, so that what is chosen is what runs. */
static const char *const still[] = {"COLL_CALIBRATE=off", "COLL_ADAPT=off",
                                    NULL};

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

static coll_status sum_or_gather(coll_comm *comm, enum coll_kind kind,
                                 const float *in, float *out, size_t count)
{
    switch (kind) {
    case REDUCE_SCATTER:
        return coll_reduce_scatter(in, out, count, COLL_F32, COLL_SUM, comm,
                                   NULL);
    case ALLGATHER:
        return coll_allgather(in, out, count, COLL_F32, comm, NULL);
    case REDUCE:
        return coll_reduce(in, out, count, COLL_F32, COLL_SUM, 0, comm, NULL);
    default:
        return coll_allreduce(in, out, count, COLL_F32, COLL_SUM, comm, NULL);
    }
}

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
    EXPECT(sum_or_gather(comm, kind, x, kind == ALLREDUCE ? x : y, bytes / 4)
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

Test(staged, each_byte_crosses_as_often_as_with_one_rank_a_host)
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

Test(staged, parts_cross_as_often_as_with_one_rank_a_host)
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
    EXPECT(sum_or_gather(comm, kind, x, y, count) == COLL_OK, "%s",
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

Test(staged, a_segment_crosses_while_another_is_combined_or_spread)
{
    static const char *const settings[] = {"COLL_CALIBRATE=off",
                                           "COLL_OP_SECONDS=20", NULL};
    cr_assert_eq(run_on("0011", settings, overlap), 0);
    cr_assert_eq(run_on("012012", settings, overlap), 0);
    cr_assert_eq(run_on("01122", settings, overlap), 0);
}

/* --- failures ------------------------------------------------------------- */

enum { IN, ACROSS, OUT };

static int victim, fatal_stage, fatal_segments;
static size_t fatal_count;

static bool in_stage(const struct staged *s, int stage)
{
    return stage == 1 ? s->crossing : s->inside && s->spreads == (stage == 2);
}

/* Ends in the middle of a stage. */
static void die_in_stage(coll_comm *comm, float *x)
{
    for (;;) {
        coll_request *request;
        if (coll_allreduce(x, x, fatal_count, COLL_F32, COLL_SUM, comm,
                           &request)
            != COLL_OK)
            _exit(3);
        do
            if (comm->first && in_stage(&comm->staged, fatal_stage))
                kill(getpid(), SIGKILL);
        while (coll_test(&request) == COLL_IN_PROGRESS);
    }
}

static int one_dies(coll_comm *comm, int rank, int n)
{
    static float x[1 << 20];
    char name[16];
    (void)n;
    EXPECT(coll_comm_set_algorithm(comm, "ring@by_hosts") == COLL_OK, "rules");
    cut_into(comm, fatal_segments);
    /* UCX 1.13 fails an assertion where a peer dies while they connect. */
    coll_status status =
        coll_allreduce(x, x, fatal_count, COLL_F32, COLL_SUM, comm, NULL);
    if (rank == victim)
        die_in_stage(comm, x);
    while (status == COLL_OK)
        status =
            coll_allreduce(x, x, fatal_count, COLL_F32, COLL_SUM, comm, NULL);
    EXPECT(status == COLL_ERR_PEER, "%d", status);
    snprintf(name, sizeof(name), "rank %d", victim);
    EXPECT(strstr(coll_last_error(comm), name), "%s", name);
    EXPECT(coll_comm_destroy(comm) == COLL_ERR_PEER, "destroy");
    _exit(0);
}

Test(staged, a_rank_that_dies_in_a_stage_is_named_to_all, .timeout = 60)
{
    static const struct {
        int victim;
        size_t count;
        int stage, segments;
    } deaths[] = {
        {1, 1 << 20, IN,     1},
        {1, 1 << 20, ACROSS, 1},
        {1, 1 << 20, OUT,    1},
        {2, 1 << 20, ACROSS, 1},
        {1, 1000,    OUT,    1},
        {2, 1000,    IN,     1},
        {2, 1000,    ACROSS, 1},
        {1, 1 << 20, IN,     8},
        {2, 1 << 20, ACROSS, 8},
        {1, 1 << 20, OUT,    8},
    };
    for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++) {
        victim = deaths[i].victim;
        fatal_count = deaths[i].count;
        fatal_stage = deaths[i].stage;
        fatal_segments = deaths[i].segments;
        cr_assert_eq(run_on("0011", quick, one_dies), 1, "death %zu", i);
    }
}

/* How many ranks are through with what is tried, in memory that all share. */
static _Atomic int *through;

static void share_mark(void)
{
    through = mmap(NULL, sizeof(*through), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq((void *)through, MAP_FAILED);
}

/* Without end: be_rank() has an alarm. */
static void wait_for(int ranks)
{
    static const struct timespec pause = {0, 1000000};
    while (atomic_load(through) < ranks)
        nanosleep(&pause, NULL);
}

/* Rank 1 calls something else: of the same way, or one that goes by messages
 * while the others are in shared memory. */
static size_t other_count;

static int different_calls(coll_comm *comm, int rank, int n)
{
    static float x[5000];
    EXPECT(coll_comm_set_algorithm(comm, "0-8000:@by_hosts;8000-:ring@block")
               == COLL_OK,
           "rules");
    /* Who is slow to leave it may hear already of what others found next. */
    coll_status status = coll_barrier(comm, NULL);
    if (status == COLL_OK)
        status = coll_allreduce(x, x, rank == 1 ? other_count : 1000, COLL_F32,
                                COLL_SUM, comm, NULL);
    EXPECT(status == COLL_ERR_MISMATCH, "%d", status);
    atomic_fetch_add(through, 1);
    if (rank == 0)
        wait_for(n); /* the news go through its process */
    coll_comm_destroy(comm);
    _exit(0);
}

Test(staged, different_calls_are_an_error_on_every_rank)
{
    static const size_t counts[] = {999, 5000};
    for (int i = 0; i < 2; i++) {
        share_mark();
        other_count = counts[i];
        cr_assert_eq(run_on("0011", quick, different_calls), 0, "count %zu",
                     counts[i]);
    }
}

/* Who waits in shared memory says for whom. */
static int too_slow(coll_comm *comm, int rank, int n)
{
    float x[10] = {0};
    EXPECT(coll_comm_set_algorithm(comm, "@by_hosts") == COLL_OK, "rules");
    if (rank == 1)
        wait_for(n - 1);
    const coll_status status =
        coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, NULL);
    EXPECT(status == COLL_ERR_TIMEOUT, "%d", status);
    atomic_fetch_add(through, 1);
    if (rank == 0)
        wait_for(n);
    coll_comm_destroy(comm);
    _exit(0);
}

Test(staged, an_operation_has_a_deadline)
{
    static const char *const settings[] = {"COLL_CALIBRATE=off",
                                           "COLL_OP_SECONDS=0.5", NULL};
    share_mark();
    cr_assert_eq(run_on("0011", settings, too_slow), 0);
}

/* Without shared memory there are no hosts to go by. */
static int nothing_shared(coll_comm *comm, int rank, int n)
{
    float x[10] = {0};
    (void)rank, (void)n;
    EXPECT(!comm->layout.by_hosts, "offered");
    EXPECT(coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, NULL) == COLL_OK,
           "as ever");
    EXPECT(coll_comm_set_algorithm(comm, "@by_hosts") == COLL_OK, "rule");
    EXPECT(coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, NULL)
                   == COLL_ERR_UNSUPPORTED
               && strstr(coll_last_error(NULL), "COLL_ALGO"),
           "what cannot be");
    return 0;
}

Test(staged, without_shared_memory_all_goes_by_messages)
{
    static const char *const settings[] = {"COLL_TRANSPORT=ucx",
                                           "COLL_CALIBRATE=off", NULL};
    cr_assert_eq(run_on("0011", settings, nothing_shared), 0);
}

/* Who waits long leaves the processor to others, whatever it waits for. */
static int wait_asleep(coll_comm *comm, int rank, int n)
{
    float x[10] = {0};
    struct timespec before, after;
    EXPECT(coll_comm_set_algorithm(comm, "@by_hosts") == COLL_OK, "rules");
    EXPECT(coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, NULL) == COLL_OK,
           "first");
    if (rank == n - 1)
        sleep(2);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    EXPECT(coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, NULL) == COLL_OK,
           "second");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    const double used = (double)(after.tv_sec - before.tv_sec)
                        + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
    /* The leader of the late one's host looks for messages meanwhile. */
    EXPECT(used < (rank == 3 ? 1 : 0.1), "rank %d used %g s of 2", rank, used);
    return 0;
}

Test(staged, waiting_takes_little_of_a_processor)
{
    cr_assert_eq(run_on("0001111", quick, wait_asleep), 0);
}

static int rules(coll_comm *comm, int rank, int n)
{
    float x[10] = {0};
    (void)rank, (void)n;
    EXPECT(coll_comm_set_algorithm(comm, "ring@byhosts") == COLL_ERR_INVALID
               && strstr(coll_last_error(NULL), "\"@byhosts\"")
               && strstr(coll_last_error(NULL), "@by_hosts"),
           "an order that there is not");
    EXPECT(coll_comm_set_algorithm(comm, "rign@by_hosts") == COLL_ERR_INVALID
               && strstr(coll_last_error(NULL), "did you mean ring?"),
           "an algorithm that there is not");
    EXPECT(coll_comm_set_algorithm(comm, "^@by_hosts") == COLL_OK, "forbid");
    EXPECT(coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, NULL) == COLL_OK
               && comm->staged.nsegments == 0,
           "was forbidden");
    EXPECT(coll_comm_set_algorithm(comm, "ring@by_hosts") == COLL_OK, "ring");
    EXPECT(coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, NULL) == COLL_OK
               && comm->staged.nsegments > 0
               && !strcmp(algos[comm->last.algo].name, "ring"),
           "was wanted");
    return 0;
}

Test(staged, rules_name_the_order)
{
    cr_assert_eq(run_on("0011", quick, rules), 0);
}
