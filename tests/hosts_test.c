/* SPDX-License-Identifier: MIT */
/* Collectives by hosts: real processes that take themselves for ranks of
 * several hosts, as the linker puts a host's number of the test's own in place
 * of the machine's (--wrap). */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "ranks.h"

/* "0011": the host of each rank. */
static const char *hosts;

uint64_t __wrap_coll_topo_host_id(void);
uint64_t __wrap_coll_topo_host_id(void)
{
    return (uint64_t)hosts[atoi(getenv("COLL_RANK"))];
}

#define EXPECT(condition, ...)                                                 \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);    \
            fprintf(stderr, __VA_ARGS__);                                      \
            fprintf(stderr, "; %s\n", coll_last_error(NULL));                  \
            return 1;                                                          \
        }                                                                      \
    } while (0)

static const char *const quick[] = {"COLL_CALIBRATE=off", NULL};

#define BY_HOSTS                                                               \
    "@by_hosts;reduce:@by_hosts;broadcast:@by_hosts;barrier:@by_hosts"
#define PARTS_BY_HOSTS ";reduce_scatter:@by_hosts;allgather:@by_hosts"

static int run_on(const char *host_of, const char *const *settings, rank_fn *fn)
{
    hosts = host_of;
    return run_ranks((int)strlen(host_of), settings, fn);
}

/* --- right results -------------------------------------------------------- */

struct call {
    enum coll_kind kind;
    size_t count;
    coll_dtype dtype;
    coll_op op;
    int root;
    bool in_place, shared;
};

static int value(int r, size_t i)
{
    return (int)((i * 7 + (size_t)r * 3) % 5) + 1;
}

static int wanted(const struct call *c, int n, size_t i)
{
    int x = value(0, i);
    if (c->kind == BROADCAST)
        return value(c->root, i);
    for (int r = 1; r < n; r++) {
        const int v = value(r, i);
        x = c->op == COLL_MAX    ? (v > x ? v : x)
            : c->op == COLL_BXOR ? x ^ v
                                 : x + v;
    }
    return c->op == COLL_AVG ? x / n : x;
}

static void put(coll_dtype dtype, void *x, size_t i, int v)
{
    if (dtype == COLL_F32)
        ((float *)x)[i] = (float)v;
    else if (dtype == COLL_F64)
        ((double *)x)[i] = v;
    else if (dtype == COLL_I32)
        ((int32_t *)x)[i] = v;
    else if (dtype == COLL_U8)
        ((uint8_t *)x)[i] = (uint8_t)v;
    else /* bf16: the upper half of an f32 */
        ((uint16_t *)x)[i] = (uint16_t)((union {
                                            float f;
                                            uint32_t bits;
                                        }){.f = (float)v}
                                            .bits
                                        >> 16);
}

static void *take(const struct call *c, size_t bytes)
{
    void *x = NULL;
    if (!c->shared)
        return malloc(bytes);
    return coll_mem_alloc(&x, bytes) == COLL_OK ? x : NULL;
}

static void give(const struct call *c, void *x)
{
    if (c->shared)
        coll_mem_free(x);
    else
        free(x);
}

static coll_status call(const struct call *c, const void *in, void *out,
                        coll_comm *comm)
{
    switch (c->kind) {
    case REDUCE:
        return coll_reduce(in, out, c->count, c->dtype, c->op, c->root, comm,
                           NULL);
    case BROADCAST:
        return coll_broadcast(in, out, c->count, c->dtype, c->root, comm, NULL);
    case REDUCE_SCATTER:
        return coll_reduce_scatter(in, out, c->count, c->dtype, c->op, comm,
                                   NULL);
    case ALLGATHER:
        return coll_allgather(in, out, c->count, c->dtype, comm, NULL);
    case BARRIER:
        return coll_barrier(comm, NULL);
    default:
        return coll_allreduce(in, out, c->count, c->dtype, c->op, comm, NULL);
    }
}

static int check(const struct call *c, coll_comm *comm)
{
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);
    const size_t elem = coll_dtype_bytes(c->dtype), bytes = c->count * elem;
    char *in = take(c, bytes + elem), *right = malloc(bytes + elem);
    char *out = c->in_place ? in : take(c, bytes + elem);
    const bool gets = c->kind != REDUCE || rank == c->root;
    memset(out, 0x55, bytes + elem);
    memset(in, 0x55, bytes + elem);
    for (size_t i = 0; i < c->count; i++) {
        put(c->dtype, in, i, value(rank, i));
        put(c->dtype, right, i, wanted(c, n, i));
    }
    EXPECT(call(c, c->kind == BROADCAST && rank != c->root ? NULL : in,
                gets ? out : NULL, comm)
               == COLL_OK,
           "%s, count %zu", kind_names[c->kind], c->count);
    EXPECT(!gets || !memcmp(out, right, bytes),
           "%s of %zu %s, %s, root %d, rank %d%s%s", kind_names[c->kind],
           c->count, coll_dtype_name(c->dtype), coll_op_name(c->op), c->root,
           rank, c->in_place ? ", in place" : "", c->shared ? ", shared" : "");
    EXPECT(in[bytes] == 0x55 && out[bytes] == 0x55, "written past the end");
    for (size_t i = 0; i < c->count && !c->in_place; i++)
        put(c->dtype, right, i, value(rank, i));
    EXPECT(c->in_place || !memcmp(in, right, bytes), "input written");
    EXPECT(c->kind == BARRIER || c->count == 0 || comm->staged.at == STAGED_OUT,
           "did not go by hosts");
    give(c, in);
    if (!c->in_place)
        give(c, out);
    free(right);
    return 0;
}

/* The same for vectors with a part for each rank. */
static int check_parts(coll_comm *comm, const struct call *c)
{
    const size_t rank = (size_t)coll_comm_user_rank(comm);
    const size_t n = (size_t)coll_comm_count(comm), m = c->count;
    const size_t elem = coll_dtype_bytes(c->dtype);
    const bool scatters = c->kind == REDUCE_SCATTER;
    const size_t ins = scatters ? n * m : m, outs = scatters ? m : n * m;
    char *memory[2] = {take(c, (n * m + 1) * elem), NULL};
    char *in = memory[0], *out = memory[0], *right = malloc((n * m + 1) * elem);
    if (!c->in_place)
        out = memory[1] = take(c, (n * m + 1) * elem);
    else if (scatters)
        out += rank * m * elem;
    else
        in += rank * m * elem;
    memset(memory[0], 0x55, (n * m + 1) * elem);
    for (size_t i = 0; i < ins; i++)
        put(c->dtype, in, i, value((int)rank, i));
    for (size_t i = 0; i < outs; i++)
        put(c->dtype, right, i,
            scatters ? wanted(c, (int)n, rank * m + i)
                     : value((int)(i / m), i % m));
    EXPECT(call(c, in, out, comm) == COLL_OK, "%s, count %zu",
           kind_names[c->kind], m);
    EXPECT(!memcmp(out, right, outs * elem), "%s of %zu %s, %s, rank %zu%s%s",
           kind_names[c->kind], m, coll_dtype_name(c->dtype),
           coll_op_name(c->op), rank, c->in_place ? ", in place" : "",
           c->shared ? ", shared" : "");
    for (size_t i = 0; i < ins && !c->in_place; i++)
        put(c->dtype, right, i, value((int)rank, i));
    EXPECT(c->in_place || !memcmp(in, right, ins * elem), "input written");
    EXPECT(memory[0][n * m * elem] == 0x55, "written past the end");
    EXPECT(m == 0 || comm->staged.parts, "did not go by hosts");
    for (int i = 0; i < 2 && memory[i]; i++)
        give(c, memory[i]);
    free(right);
    return 0;
}

static int every_way(coll_comm *comm, struct call c)
{
    for (int way = 0; way < 4; way++) {
        c.in_place = way & 1;
        c.shared = way & 2;
        if (c.kind == REDUCE_SCATTER || c.kind == ALLGATHER
                ? check_parts(comm, &c)
                : check(&c, comm))
            return 1;
    }
    return 0;
}

/* Averages of whole numbers, as those of others are rounded. */
static int every_call(coll_comm *comm, int rank, int n)
{
    const size_t counts[] = {0, 1, 7, (size_t)n, 900, 4096 + 5, 50021, 300007};
    static const enum coll_kind kinds[] = {ALLREDUCE, REDUCE, BROADCAST,
                                           REDUCE_SCATTER, ALLGATHER};
    const int nkinds = layout_in_blocks(&comm->layout) ? 5 : 3;
    static const coll_dtype dtypes[] = {COLL_F32, COLL_F64, COLL_I32, COLL_U8,
                                        COLL_BF16};
    static const coll_op ops[] = {COLL_SUM, COLL_MAX, COLL_AVG, COLL_BXOR};
    (void)rank;
    EXPECT(comm->layout.by_hosts, "not offered");
    EXPECT(coll_comm_set_algorithm(comm, BY_HOSTS) == COLL_OK, "rules");
    EXPECT(nkinds == 3
               || coll_comm_set_algorithm(comm, BY_HOSTS PARTS_BY_HOSTS)
                      == COLL_OK,
           "rules");
    unsigned turn = 0;
    for (int k = 0; k < nkinds; k++)
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 2; j++, turn++) {
                const coll_dtype d = dtypes[turn % 5];
                const coll_op op =
                    d == COLL_I32 ? ops[turn % 4] : ops[turn % 2];
                const struct call c = {.kind = kinds[k],
                                       .count =
                                           k < 3 ? counts[i] : counts[i] / 4,
                                       .dtype = d,
                                       .op = op,
                                       .root = (int)(turn % (unsigned)n)};
                if (every_way(comm, c))
                    return 1;
            }
    return check(&(struct call){.kind = BARRIER}, comm);
}

static const char *const layouts[] = {"0011", "0101",     "011222",
                                      "001",  "00001111", "021120"};

Test(hosts, every_collective_is_right, .timeout = 110)
{
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        cr_assert_eq(run_on(layouts[i], quick, every_call), 0, "hosts %s",
                     layouts[i]);
}

/* Without the right to read other processes all goes through the segment. */
Test(hosts, every_collective_is_right_through_the_segment, .timeout = 110)
{
    static const char *const settings[] = {"COLL_CALIBRATE=off",
                                           "COLL_SINGLE_COPY=off", NULL};
    cr_assert_eq(run_on("0011", settings, every_call), 0);
    cr_assert_eq(run_on("000111", settings, every_call), 0);
}
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

/* Bytes that all ranks together send, inside of hosts and between them, in an
 * allreduce of so many bytes. */
static int count_bytes(coll_comm *comm, const char *rule, size_t bytes,
                       uint64_t *inside, uint64_t *between)
{
    const int n = coll_comm_count(comm), me = coll_comm_user_rank(comm);
    struct counter counters[16];
    uint64_t sent[2] = {0, 0};
    float *x = calloc(bytes, 1);
    EXPECT(coll_comm_set_algorithm(comm, rule) == COLL_OK, "%s", rule);
    for (int r = 0; r < n; r++) {
        counters[r] = (struct counter){{&counting}, comm->to[r], 0};
        comm->to[r] = &counters[r].base;
    }
    EXPECT(coll_allreduce(x, x, bytes / 4, COLL_F32, COLL_SUM, comm, NULL)
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
        if (count_bytes(comm, "ring@by_hosts", sizes[i], &inside, &between))
            return 1;
        EXPECT(inside == 0, "%lu inside", (unsigned long)inside);
        EXPECT(between == 2 * (nhosts - 1) * sizes[i], "%zu: %lu between",
               sizes[i], (unsigned long)between);
        if (count_bytes(comm, "direct@by_hosts", sizes[i], &inside, &between))
            return 1;
        EXPECT(inside == 0, "%lu inside", (unsigned long)inside);
        EXPECT(between == nhosts * (nhosts - 1) * sizes[i], "%zu: %lu between",
               sizes[i], (unsigned long)between);
    }
    if (count_bytes(comm, "ring@block", 4096, &inside, &between))
        return 1;
    EXPECT(inside > 0, "a plan of ranks sends nothing inside");
    return 0;
}

Test(hosts, each_byte_crosses_as_often_as_with_one_rank_a_host)
{
    cr_assert_eq(run_on("0011", quick, crossing), 0);
    cr_assert_eq(run_on("012012", quick, crossing), 0);
    cr_assert_eq(run_on("01122", quick, crossing), 0);
}

/* --- learning ------------------------------------------------------------- */

/* One of those in which all hear of all. */
static coll_status any_call(coll_comm *comm, int turn)
{
    static const size_t counts[] = {1, 100, 8192, 300007};
    static float x[300007];
    const bool parts = layout_in_blocks(&comm->layout);
    switch (turn % 7) {
    case 4:
        return parts ? coll_allgather(x, x + 1000, 100, COLL_F32, comm, NULL)
                     : COLL_OK;
    case 5:
        return parts ? coll_reduce_scatter(x, x + 200000, 10000, COLL_F32,
                                           COLL_SUM, comm, NULL)
                     : COLL_OK;
    case 6:
        return coll_barrier(comm, NULL);
    default:
        return coll_allreduce(x, x, counts[turn % 7], COLL_F32, COLL_SUM, comm,
                              NULL);
    }
}

/* The least of all ranks' numbers reaches all in one operation. */
static int least_news(coll_comm *comm, int rank, int n)
{
    const bool parts = layout_in_blocks(&comm->layout);
    EXPECT(coll_comm_set_algorithm(comm,
                                   parts ? BY_HOSTS PARTS_BY_HOSTS : BY_HOSTS)
               == COLL_OK,
           "rules");
    for (int turn = 0; turn < 70; turn++) {
        const int least = turn / 7 % n; /* who has it; all others have more */
        comm->news = (uint16_t)(rank == least ? 5 : 10 + rank);
        comm->staged.news = 5;
        EXPECT(any_call(comm, turn) == COLL_OK, "turn %d", turn);
        EXPECT(comm->staged.news == 5, "turn %d, rank %d: %d of %d", turn, rank,
               comm->staged.news, least);
    }
    return 0;
}

Test(hosts, every_rank_hears_the_least_news_of_all)
{
    static const char *const settings[] = {"COLL_CALIBRATE=off",
                                           "COLL_ADAPT=off", NULL};
    cr_assert_eq(run_on("0011", settings, least_news), 0);
    cr_assert_eq(run_on("011222", settings, least_news), 0);
    cr_assert_eq(run_on("021120", settings, least_news), 0);
}

static uint64_t digest(const struct select *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; i < PRICE_CLASSES; i++) {
            const struct select_class *class = s->class[k][i];
            const unsigned char *x =
                class ? (const unsigned char *)&class->learn : NULL;
            for (size_t b = 0; x && b < sizeof(class->learn); b++)
                h = (h ^ x[b]) * 0x100000001b3u;
        }
    return h;
}

/* By hosts and by messages in turn, as trials have it. */
static int learn_alike(coll_comm *comm, int rank, int n)
{
    static const size_t counts[] = {2, 900, 20000};
    static float x[20000];
    uint64_t mine, all[16];
    bool by_hosts = false, by_ranks = false;
    (void)rank;
    for (int turn = 0; turn < 600; turn++) {
        EXPECT(coll_allreduce(x, x, counts[turn % 3], COLL_F32, COLL_MAX, comm,
                              NULL)
                   == COLL_OK,
               "turn %d", turn);
        by_hosts |= comm->last.order == ORDER_HOSTS;
        by_ranks |= comm->last.order != ORDER_HOSTS;
    }
    mine = digest(&comm->select);
    EXPECT(coll_allgather(&mine, all, 1, COLL_U64, comm, NULL) == COLL_OK,
           "all");
    for (int r = 0; r < n; r++)
        EXPECT(all[r] == mine, "rank %d learned other things", r);
    EXPECT(by_hosts && by_ranks, "all went one way");
    return 0;
}

Test(hosts, all_ranks_learn_alike)
{
    cr_assert_eq(run_on("0011", NULL, learn_alike), 0);
    cr_assert_eq(run_on("01101", NULL, learn_alike), 0);
}

/* --- failures ------------------------------------------------------------- */

static int victim, fatal_stage;
static size_t fatal_count;

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
            if (comm->first && comm->staged.active
                && (int)comm->staged.at == fatal_stage)
                kill(getpid(), SIGKILL);
        while (coll_test(&request) == COLL_IN_PROGRESS);
    }
}

static int one_dies(coll_comm *comm, int rank, int n)
{
    static float x[1 << 20];
    char name[16];
    (void)n;
    EXPECT(coll_comm_set_algorithm(comm, "@by_hosts") == COLL_OK, "rules");
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

Test(hosts, a_rank_that_dies_in_a_stage_is_named_to_all, .timeout = 60)
{
    static const struct {
        int victim;
        size_t count;
        int stage;
    } deaths[] = {
        {1, 1 << 20, STAGED_IN    },
        {1, 1 << 20, STAGED_ACROSS},
        {1, 1 << 20, STAGED_OUT   },
        {2, 1 << 20, STAGED_ACROSS},
        {1, 1000,    STAGED_OUT   },
        {2, 1000,    STAGED_IN    },
        {2, 1000,    STAGED_ACROSS},
    };
    for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++) {
        victim = deaths[i].victim;
        fatal_count = deaths[i].count;
        fatal_stage = deaths[i].stage;
        cr_assert_eq(run_on("0011", quick, one_dies), 1, "death %zu", i);
    }
}

/* Rank 1 calls something else: of the same way, or one that goes by messages
 * while the others are in shared memory. */
static size_t other_count;

static int different_calls(coll_comm *comm, int rank, int n)
{
    static float x[5000];
    (void)n;
    EXPECT(coll_comm_set_algorithm(comm, "0-8000:@by_hosts;8000-:ring@block")
               == COLL_OK,
           "rules");
    /* Who is slow to leave it may hear already of what others found next. */
    coll_status status = coll_barrier(comm, NULL);
    if (status == COLL_OK)
        status = coll_allreduce(x, x, rank == 1 ? other_count : 1000, COLL_F32,
                                COLL_SUM, comm, NULL);
    EXPECT(status == COLL_ERR_MISMATCH, "%d", status);
    if (rank == 0)
        usleep(300000); /* the news go through its process */
    coll_comm_destroy(comm);
    _exit(0);
}

Test(hosts, different_calls_are_an_error_on_every_rank)
{
    static const size_t counts[] = {999, 5000};
    for (int i = 0; i < 2; i++) {
        other_count = counts[i];
        cr_assert_eq(run_on("0011", quick, different_calls), 0, "count %zu",
                     counts[i]);
    }
}

/* Who waits in shared memory says for whom. */
static int too_slow(coll_comm *comm, int rank, int n)
{
    float x[10] = {0};
    (void)n;
    EXPECT(coll_comm_set_algorithm(comm, "@by_hosts") == COLL_OK, "rules");
    if (rank == 1)
        sleep(2);
    const coll_status status =
        coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, NULL);
    EXPECT(status == COLL_ERR_TIMEOUT, "%d", status);
    coll_comm_destroy(comm);
    _exit(0);
}

Test(hosts, an_operation_has_a_deadline)
{
    static const char *const settings[] = {"COLL_CALIBRATE=off",
                                           "COLL_OP_SECONDS=0.5", NULL};
    cr_assert_eq(run_on("0011", settings, too_slow), 0);
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
               && comm->staged.at == STAGED_IN,
           "was forbidden");
    EXPECT(coll_comm_set_algorithm(comm, "ring@by_hosts") == COLL_OK, "ring");
    EXPECT(coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, NULL) == COLL_OK
               && comm->staged.at == STAGED_OUT
               && !strcmp(algos[comm->last.algo].name, "ring"),
           "was wanted");
    return 0;
}

Test(hosts, rules_name_the_order)
{
    cr_assert_eq(run_on("0011", quick, rules), 0);
}
