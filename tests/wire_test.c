/* SPDX-License-Identifier: MIT */
/* Sums in fewer bytes, of real processes that take themselves for ranks of
 * several hosts: how far they are off, that all ranks get the same bits, that
 * what a step loses comes in later ones, and how many bytes travel. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dist/codec.h"
#include "dist/wire.h"
#include "hosts.h"
#include "thorough.h"

enum { COUNT = 10007, STEPS = 20 };

static struct wire_settings how;
static int pieces;

struct world {
    struct wire *wire;
    struct arena x, lost;
    coll_comm *comm;
    int rank, nranks;
};

static float gradient(int rank, size_t i)
{
    const size_t mixed = (i * 2654435761u + (size_t)rank * 40503u) % 2003;
    return ((float)mixed / 1001.5f - 1) * ldexpf(1, -(int)(i / 1000));
}

static int set_up(struct world *w, coll_comm *comm, size_t count)
{
    *w = (struct world){.comm = comm,
                        .rank = coll_comm_user_rank(comm),
                        .nranks = coll_comm_count(comm)};
    EXPECT(!arena_alloc(&w->x, count), "memory");
    EXPECT(!wire_loses(how.kind) || !arena_alloc(&w->lost, count), "memory");
    EXPECT(!wire_open(&w->wire, how, comm, &w->x, &w->lost, 64), "open");
    return 0;
}

static void tear_down(struct world *w)
{
    wire_close(w->wire);
    arena_free(&w->x);
    arena_free(&w->lost);
}

/* As a backward pass would: the last piece first. */
static int sum_up(struct world *w)
{
    const size_t n = w->x.count;
    const size_t cuts = wire_is_whole(w->wire) ? 1 : (size_t)pieces;
    for (size_t k = cuts; k-- > 0;) {
        EXPECT(!wire_send(w->wire, n * k / cuts,
                          n * (k + 1) / cuts - n * k / cuts),
               "send");
        EXPECT(!wire_test(w->wire), "test");
    }
    EXPECT(!wire_finish(w->wire), "finish");
    return 0;
}

static int same_everywhere(struct world *w, const void *bits, size_t bytes)
{
    unsigned char *all = malloc(bytes * (size_t)w->nranks);
    EXPECT(all, "memory");
    EXPECT(!coll_allgather(bits, all, bytes, COLL_U8, w->comm, NULL), "gather");
    for (int r = 0; r < w->nranks; r++)
        EXPECT(!memcmp(all + (size_t)r * bytes, bits, bytes), "rank %d differs",
               r);
    free(all);
    return 0;
}

/* How far one sum may be off: of n numbers of at most `most` in size, whose sum
 * is at most n as large, after two roundings. */
static double bound(int n, double most)
{
    const double rounding = how.kind == WIRE_BF16   ? 1.0 / 256
                            : how.kind == WIRE_INT8 ? 1.0 / 254
                                                    : 0;
    return (2 + rounding) * n * most * rounding + n * n * most * 1e-7;
}

/* A block of int8 may reach a little over the place where sizes change. */
static double most_near(size_t i)
{
    const size_t before = i < 300 ? 0 : i - 300;
    return how.kind == WIRE_BF16 ? ldexp(1, -(int)(i / 1000))
                                 : ldexp(1, -(int)(before / 1000));
}

/* Hosts with two ranks each add up inside first. */
static bool expects_whole(void)
{
    return !strcmp(hosts, "0011") || !strcmp(hosts, "0101");
}

static int near_the_sum(coll_comm *comm, int rank, int n)
{
    struct world w;
    if (set_up(&w, comm, COUNT))
        return 1;
    for (size_t i = 0; i < COUNT; i++)
        w.x.x[i] = gradient(rank, i);
    EXPECT(wire_is_whole(w.wire) == expects_whole(), "hosts %s", hosts);
    if (sum_up(&w) || same_everywhere(&w, w.x.x, COUNT * sizeof(float)))
        return 1;
    for (size_t i = 0; i < COUNT; i++) {
        double sum = 0;
        for (int r = 0; r < n; r++)
            sum += gradient(r, i);
        EXPECT(fabs(w.x.x[i] - sum) <= bound(n, most_near(i)),
               "x[%zu] is %g, not %g", i, (double)w.x.x[i], sum);
    }
    tear_down(&w);
    return 0;
}

/* What came out so far and what all ranks keep is what went in. */
static int nothing_is_lost(coll_comm *comm, int rank, int n)
{
    struct world w;
    static double sum[COUNT], kept[COUNT];
    memset(sum, 0, sizeof(sum));
    if (set_up(&w, comm, COUNT))
        return 1;
    for (int step = 1; step <= STEPS; step++) {
        for (size_t i = 0; i < COUNT; i++)
            w.x.x[i] = gradient(rank + step, i);
        if (sum_up(&w) || same_everywhere(&w, w.x.x, COUNT * sizeof(float)))
            return 1;
        for (size_t i = 0; i < COUNT; i++)
            sum[i] += w.x.x[i];
    }
    for (size_t i = 0; i < COUNT; i++)
        kept[i] = w.lost.x[i];
    EXPECT(!coll_allreduce(kept, kept, COUNT, COLL_F64, COLL_SUM, comm, NULL),
           "sum");
    for (size_t i = 0; i < COUNT; i++) {
        double all = 0;
        for (int step = 1; step <= STEPS; step++)
            for (int r = 0; r < n; r++)
                all += gradient(r + step, i);
        EXPECT(fabs(sum[i] + kept[i] - all)
                   <= STEPS * n * most_near(i) * n * 1e-6,
               "x[%zu]: %g and %g are not %g", i, sum[i], kept[i], all);
        /* Kept is no more than some steps are. */
        EXPECT(how.kind != WIRE_INT8
                   || fabs(kept[i]) <= 2.1 * bound(n, most_near(i)),
               "x[%zu] keeps %g", i, kept[i]);
    }
    tear_down(&w);
    return 0;
}

static int no_number_is_told(coll_comm *comm, int rank, int n)
{
    struct world w;
    if (set_up(&w, comm, COUNT))
        return 1;
    for (size_t i = 0; i < COUNT; i++)
        w.x.x[i] = gradient(rank, i);
    if (rank == n - 1)
        w.x.x[COUNT / 3] = NAN;
    if (sum_up(&w))
        return 1;
    EXPECT(isnan(w.x.x[COUNT / 3]), "swallowed: %g", (double)w.x.x[COUNT / 3]);
    tear_down(&w);
    return 0;
}

/* Two pieces go before anybody else has sent one: what a backward pass has yet
 * to do need not wait. */
static int two_pieces_wait_for_nobody(coll_comm *comm, int rank, int n)
{
    struct world w;
    char word = 0;
    how = (struct wire_settings){WIRE_INT8, 100, false};
    if (set_up(&w, comm, COUNT))
        return 1;
    for (size_t i = 0; i < COUNT; i++)
        w.x.x[i] = gradient(rank, i);
    EXPECT(!rank || !coll_recv(&word, 1, COLL_I8, 0, 0, comm, NULL, NULL),
           "word");
    EXPECT(!wire_send(w.wire, COUNT / 2, COUNT - COUNT / 2)
               && !wire_send(w.wire, COUNT / 4, COUNT / 2 - COUNT / 4),
           "two");
    for (int r = 1; r < n && !rank; r++)
        EXPECT(!coll_send(&word, 1, COLL_I8, r, 0, comm, NULL), "to %d", r);
    EXPECT(!wire_send(w.wire, 0, COUNT / 4) && !wire_finish(w.wire), "rest");
    if (same_everywhere(&w, w.x.x, COUNT * sizeof(float)))
        return 1;
    tear_down(&w);
    return 0;
}

/* Vectors shorter than there are ranks have empty shares. */
static int short_ones(coll_comm *comm, int rank, int n)
{
    for (size_t count = 1; count < 100; count += 49) {
        struct world w;
        if (set_up(&w, comm, count))
            return 1;
        for (size_t i = 0; i < count; i++)
            w.x.x[i] = 127 * (rank == 0);
        if (sum_up(&w) || same_everywhere(&w, w.x.x, count * sizeof(float)))
            return 1;
        EXPECT(how.kind == WIRE_TOPK || w.x.x[0] == 127, "%g",
               (double)w.x.x[0]);
        tear_down(&w);
    }
    (void)n;
    return 0;
}

/* An allreduce that splits its vector moves it twice, as alltoall and allgather
 * do; all count what one rank holds in full. */
static int bytes_fall(coll_comm *comm, int rank, int n)
{
    struct world w;
    coll_statistics all, to, from;
    enum { LONG = 64 * 256 * 12 };
    if (set_up(&w, comm, LONG))
        return 1;
    for (size_t i = 0; i < LONG; i++)
        w.x.x[i] = gradient(rank, i % COUNT);
    EXPECT(!coll_allreduce(w.x.x, w.x.x, LONG, COLL_F32, COLL_SUM, comm, NULL)
               && !sum_up(&w),
           "sums");
    EXPECT(!coll_stats_of(comm, "allreduce", &all)
               && !coll_stats_of(comm, "alltoall", &to)
               && !coll_stats_of(comm, "allgather", &from),
           "stats");
    const double f32 = 2.0 * LONG * sizeof(float);
    const double moved = (double)(to.vector_bytes + from.vector_bytes);
    EXPECT(2 * all.vector_bytes >= f32, "%g", (double)all.vector_bytes);
    const double factor =
        how.kind == WIRE_BF16 ? 2
        : how.kind == WIRE_INT8
            ? 4 / (1 + 4.0 / 256)
            : 100 / how.top / n; /* 8 bytes once, not 4 twice */
    EXPECT(fabs(f32 / moved / factor - 1) < 0.002, "%g times less, not %g",
           f32 / moved, factor);
    tear_down(&w);
    return 0;
}

/* One job for all: starting it takes longer. */
static int all_claims(coll_comm *comm, int rank, int n)
{
    static rank_fn *const claims[] = {near_the_sum, nothing_is_lost,
                                      no_number_is_told, short_ones};
    for (int kind = WIRE_BF16; kind <= WIRE_TOPK; kind++)
        for (size_t k = 0; k < sizeof(claims) / sizeof(claims[0]); k++)
            for (pieces = 1; pieces <= (expects_whole() || k > 1 ? 1 : 4);
                 pieces += 3) {
                const bool all = claims[k] == near_the_sum;
                how = (struct wire_settings){(enum wire_kind)kind,
                                             all ? 100 : 2, false};
                if (claims[k] == nothing_is_lost && !wire_loses(how.kind))
                    continue;
                EXPECT(!claims[k](comm, rank, n), "kind %d, claim %zu", kind,
                       k);
            }
    pieces = 1;
    return 0;
}

static int fewer_bytes(coll_comm *comm, int rank, int n)
{
    how =
        (struct wire_settings){(enum wire_kind)atoi(getenv("KIND")), 1, false};
    pieces = 1;
    return bytes_fall(comm, rank, n);
}

static const char *const over_ucx[] = {"COLL_TRANSPORT=ucx",
                                       "COLL_CALIBRATE=off", NULL};

Test(wire, among_ranks_that_are_alone)
{
    cr_assert_eq(run_on("0000", over_ucx, all_claims), 0);
}

Test(wire, among_hosts_with_other_numbers_of_ranks)
{
    cr_assert_eq(run_on("001", quick, all_claims), 0);
}

Test(wire, among_hosts_that_add_up_first)
{
    static const char *const places[] = {"0101", "0011"};
    for (unsigned i = 0; i < cases(2, 1); i++)
        cr_assert_eq(run_on(places[i], quick, all_claims), 0);
}

Test(wire, sends_a_piece_before_the_sum_of_the_last)
{
    static const char *const soon[] = {
        "COLL_TRANSPORT=ucx", "COLL_CALIBRATE=off", "COLL_OP_SECONDS=20", NULL};
    cr_assert_eq(run_on("0000", soon, two_pieces_wait_for_nobody), 0);
}

Test(wire, moves_fewer_bytes)
{
    static const char *const settings[][4] = {
        {"COLL_TRANSPORT=ucx", "COLL_CALIBRATE=off", "KIND=1", NULL},
        {"COLL_TRANSPORT=ucx", "COLL_CALIBRATE=off", "KIND=2", NULL},
        {"COLL_TRANSPORT=ucx", "COLL_CALIBRATE=off", "KIND=3", NULL}
    };
    for (int k = 0; k < 3; k++)
        cr_assert_eq(run_on("0000", settings[k], fewer_bytes), 0);
}
