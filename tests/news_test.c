/* SPDX-License-Identifier: MIT */
/* What ranks tell each other of their operations, and that all learn the same
 * of it. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "comm/request.h"
#include "hosts.h"
#include "thorough.h"

/* One of those in which all hear of all. */
static coll_status any_call(coll_comm *comm, int turn)
{
    static const size_t counts[] = {1, 100, 8192, 300007};
    static float x[300007];
    const bool parts = layout_even(&comm->layout);
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

static bool in_segments; /* long vectors */

/* The least of all ranks' numbers reaches all in one operation. */
static int least_news(coll_comm *comm, int rank, int n)
{
    const bool parts = layout_even(&comm->layout);
    int most = 0; /* segments */
    EXPECT(coll_comm_set_algorithm(comm, in_segments ? "ring@by_hosts;" BY_HOSTS
                                         : parts     ? BY_HOSTS PARTS_BY_HOSTS
                                                     : BY_HOSTS)
               == COLL_OK,
           "rules");
    if (in_segments)
        cut_into(comm, 4);
    for (int turn = 0; turn < 70; turn++) {
        const int least = turn / 7 % n; /* who has it; all others have more */
        comm->news = (uint16_t)(rank == least ? 5 : 10 + rank);
        comm->staged.news = 5;
        EXPECT(any_call(comm, turn) == COLL_OK, "turn %d", turn);
        EXPECT(comm->staged.news == 5, "turn %d, rank %d: %d of %d", turn, rank,
               comm->staged.news, least);
        if (comm->staged.nsegments > most)
            most = comm->staged.nsegments;
    }
    EXPECT(!in_segments || most == 4, "%d segments", most);
    return 0;
}

Test(news, every_rank_hears_the_least_news_of_all)
{
    static const char *const settings[] = {"COLL_CALIBRATE=off",
                                           "COLL_ADAPT=off", NULL};
    cr_assert_eq(run_on("0011", settings, least_news), 0);
    cr_assert_eq(run_on("011222", settings, least_news), 0);
    cr_assert_eq(run_on("021120", settings, least_news), 0);
    in_segments = true;
    cr_assert_eq(run_on("001", settings, least_news), 0);
    cr_assert_eq(run_on("011222", settings, least_news), 0);
}

/* --- learning ------------------------------------------------------------- */

static uint64_t hash(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *x = bytes;
    for (size_t i = 0; i < n; i++)
        h = (h ^ x[i]) * 0x100000001b3u;
    return h;
}

/* Of all that is known. */
static uint64_t digest(const struct select *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int k = 0; k < NPOOLS * NKINDS; k++)
        for (int i = 0; i < PRICE_HALVES; i++) {
            const struct select_class *class =
                s->class[k / NKINDS][k % NKINDS][i];
            if (!class)
                continue;
            h = hash(h, &class->learn, sizeof(class->learn));
            h = hash(h, &class->ran, sizeof(class->ran));
            h = hash(h, &class->passed, sizeof(class->passed));
            h = hash(h, &class->distance, sizeof(class->distance));
        }
    return h;
}

/* Whether all ranks know the same, and went through it on the same way: what
 * was known after each operation is in `path`. */
static int same_on_all(coll_comm *comm, uint64_t path, int n)
{
    uint64_t mine[2] = {digest(&comm->select), path}, all[32];
    EXPECT(coll_allgather(mine, all, 2, COLL_U64, comm, NULL) == COLL_OK,
           "all");
    for (int r = 0; r < n; r++) {
        EXPECT(all[2 * r] == mine[0], "rank %d learned other things", r);
        EXPECT(all[2 * r + 1] == path, "rank %d learned otherwise", r);
    }
    return 0;
}

/* By hosts and by messages in turn, as trials have it: rarely, where one of
 * them was priced far above the other. */
static int learn_alike(coll_comm *comm, int rank, int n)
{
    static const size_t counts[] = {2, 900, 20000};
    static float x[20000];
    uint64_t path = 0;
    bool by_hosts = false, by_ranks = false, tried[3] = {false};
    (void)rank;
    for (int turn = 0; turn < 600 || (turn < 6000 && !(by_hosts && by_ranks));
         turn++) {
        EXPECT(coll_allreduce(x, x, counts[turn % 3], COLL_F32, COLL_MAX, comm,
                              NULL)
                   == COLL_OK,
               "turn %d", turn);
        by_hosts |= layout_by_hosts(comm->last.order);
        by_ranks |= !layout_by_hosts(comm->last.order);
        tried[turn % 3] |= comm->last.trial;
        path = path * 31 + digest(&comm->select);
    }
    EXPECT(by_hosts && by_ranks, "all went one way");
    for (int i = 0; i < 3; i++)
        EXPECT(tried[i], "no trial of %zu", counts[i]);
    return same_on_all(comm, path, n);
}

Test(news, all_ranks_learn_alike)
{
    if (thorough())
        cr_assert_eq(run_on("0011", NULL, learn_alike), 0);
    cr_assert_eq(run_on("01101", NULL, learn_alike), 0);
}

/* --- meetings ------------------------------------------------------------- */

static uint64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

enum { FLIGHTS = 3, LONGEST = 9000 };

/* A reduce or broadcast under way, or now and then another one. */
struct flight {
    int kind, root;
    size_t count;
    int32_t value, in[LONGEST], out[LONGEST];
    coll_request *request;
};

static coll_status start(coll_comm *comm, struct flight *f, int rank)
{
    for (size_t i = 0; i < f->count; i++)
        f->in[i] = f->value + (int32_t)i + rank;
    if (f->kind == 0)
        return coll_allreduce(f->in, f->out, f->count, COLL_I32, COLL_MAX, comm,
                              &f->request);
    return f->kind == 1 ? coll_reduce(f->in, f->out, f->count, COLL_I32,
                                      COLL_MAX, f->root, comm, &f->request)
                        : coll_broadcast(f->in, f->out, f->count, COLL_I32,
                                         f->root, comm, &f->request);
}

static int land(coll_comm *comm, struct flight *f, int rank, int n)
{
    const int32_t from = f->kind == 2 ? f->root : n - 1;
    if (!f->request)
        return 0;
    EXPECT(coll_wait(&f->request) == COLL_OK, "%s", coll_last_error(comm));
    for (size_t i = 0; i < f->count && (f->kind != 1 || f->root == rank); i++)
        EXPECT(f->out[i] == f->value + (int32_t)i + from, "kind %d, %zu of %zu",
               f->kind, i, f->count);
    return 0;
}

/* All draw the same calls, from changing roots; each sleeps when it likes. */
static int reduce_and_broadcast(coll_comm *comm, int rank, int n)
{
    static const size_t counts[] = {2, 300, LONGEST};
    static struct flight flights[FLIGHTS];
    int trials[NKINDS] = {0};
    uint64_t shared = 5, own = (uint64_t)rank;
    for (int turn = 0; turn < 1500; turn++) {
        struct flight *f = &flights[turn % FLIGHTS];
        if (land(comm, f, rank, n))
            return 1;
        f->kind = draw(&shared) % 20 ? 1 + (int)(draw(&shared) % 2) : 0;
        f->root = (int)(draw(&shared) % (uint64_t)n);
        f->count = counts[draw(&shared) % 3];
        f->value = turn;
        if (draw(&own) % 64 == 0)
            usleep(500);
        EXPECT(start(comm, f, rank) == COLL_OK, "turn %d", turn);
        if (draw(&shared) % 4 && land(comm, f, rank, n))
            return 1;
        trials[comm->last_kind] += comm->last.trial;
    }
    for (int i = 0; i < FLIGHTS; i++)
        if (land(comm, &flights[i], rank, n))
            return 1;
    EXPECT(trials[REDUCE] > 9 && trials[BROADCAST] > 9, "%d and %d trials",
           trials[REDUCE], trials[BROADCAST]);
    coll_statistics stats;
    EXPECT(coll_stats(comm, &stats) == COLL_OK && stats.operations == 1500,
           "%lu operations", (unsigned long)stats.operations);
    return same_on_all(comm, 0, n);
}

Test(news, all_ranks_learn_alike_of_reduce_and_broadcast, .timeout = 60)
{
    static const char *const layouts[] = {"01101", "0123", "0011"};
    for (unsigned i = 0; i < cases(3, 1); i++)
        cr_assert_eq(run_on(layouts[i], quick, reduce_and_broadcast), 0,
                     "hosts %s", layouts[i]);
}

static const char *const full[] = {"COLL_DETERMINISM=full",
                                   "COLL_CALIBRATE=off", NULL};

/* Sums that are to be in pairs try what gives the same bits, to any root. */
static int learn_with_equal_bits(coll_comm *comm, int rank, int n)
{
    enum { COUNT = 5000 };
    static float x[COUNT], y[COUNT], first[COUNT];
    int trials[NKINDS] = {0};
    bool known = false;
    uint64_t own = (uint64_t)rank;
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)draw(&own) / (float)(1 << draw(&own) % 20);
    for (int turn = 0; turn < 1500; turn++) {
        const int root = turn / 2 % n;
        const bool all = turn % 2 == 0;
        EXPECT(
            (all ? coll_allreduce(x, y, COUNT, COLL_F32, COLL_SUM, comm, NULL)
                 : coll_reduce(x, y, COUNT, COLL_F32, COLL_SUM, root, comm,
                               NULL))
                == COLL_OK,
            "turn %d", turn);
        trials[comm->last_kind] += comm->last.trial;
        if (!known)
            memcpy(first, y, sizeof(first));
        known = true;
        EXPECT((!all && root != rank) || !memcmp(first, y, sizeof(first)),
               "turn %d has other bits", turn);
    }
    /* As many as noise lets seem worth it; of reduces few are timed. */
    EXPECT(comm->last.pool == POOL_PAIRS && trials[ALLREDUCE] > 0
               && trials[REDUCE] > 0,
           "%d and %d trials", trials[ALLREDUCE], trials[REDUCE]);
    return same_on_all(comm, 0, n);
}

Test(news, sums_of_equal_bits_are_learned_about, .timeout = 60)
{
    static const char *const layouts[] = {"0011", "0123", "01234"};
    for (unsigned i = 0; i < cases(3, 1); i++)
        cr_assert_eq(run_on(layouts[i], full, learn_with_equal_bits), 0,
                     "hosts %s", layouts[i]);
}

/* What the first broadcast of a size took, as all know it after a barrier. */
static int first_sample(coll_comm *comm, size_t bytes, double *seconds)
{
    EXPECT(coll_barrier(comm, NULL) == COLL_OK, "barrier");
    const struct learn *l =
        &comm->select.class[POOL_ANY][BROADCAST][price_half(bytes)]->learn;
    EXPECT(l->candidate[l->best].samples == 1, "%d samples",
           l->candidate[l->best].samples);
    *seconds = select_seconds(l->candidate[l->best].recent[0]);
    return 0;
}

/* How late the root comes to the call counts for nothing, when the last one has
 * it counts. */
static int longest_of_all(coll_comm *comm, int rank, int n)
{
    int32_t x[100] = {0};
    double seconds;
    comm->crowded = false; /* there the longest always counts */
    EXPECT(coll_barrier(comm, NULL) == COLL_OK, "connect");
    if (rank == 0)
        sleep(1);
    EXPECT(coll_broadcast(x, x, 100, COLL_I32, 0, comm, NULL) == COLL_OK,
           "late");
    if (first_sample(comm, sizeof(x), &seconds))
        return 1;
    EXPECT(seconds < 0.9, "with a late root %g s", seconds);
    EXPECT(coll_broadcast(x, x, 1, COLL_I32, 0, comm, NULL) == COLL_OK, "own");
    if (rank == n - 1) /* as if it had come to it so late */
        comm->news = (uint16_t)((1 << LEARN_CODE_BITS) - learn_quantise(1));
    if (first_sample(comm, sizeof(*x), &seconds))
        return 1;
    EXPECT(seconds > 0.98 && seconds < 1.02, "%g s instead of 1", seconds);
    return 0;
}

Test(news, a_broadcast_takes_from_the_meeting_until_the_last_one_has_it)
{
    cr_assert_eq(run_on("0123", quick, longest_of_all), 0);
}

static int die_in_a_meeting(coll_comm *comm, int32_t *x)
{
    for (;;) {
        coll_request *request;
        if (coll_broadcast(x, x, 10, COLL_I32, 0, comm, &request) != COLL_OK)
            return 1;
        do
            if (comm->first && comm->first->meeting)
                kill(getpid(), SIGKILL);
        while (coll_test(&request) == COLL_IN_PROGRESS);
    }
}

static int one_dies(coll_comm *comm, int rank, int n)
{
    int32_t x[10] = {0};
    (void)n;
    coll_status status = coll_barrier(comm, NULL); /* UCX connects */
    if (rank == 1)
        return die_in_a_meeting(comm, x);
    while (status == COLL_OK)
        status = coll_broadcast(x, x, 10, COLL_I32, 0, comm, NULL);
    EXPECT(status == COLL_ERR_PEER, "%d", status);
    EXPECT(strstr(coll_last_error(comm), "rank 1"), "who");
    EXPECT(coll_comm_destroy(comm) == COLL_ERR_PEER, "destroy");
    _exit(0);
}

Test(news, a_rank_that_dies_in_a_meeting_is_named_to_all, .timeout = 60)
{
    cr_assert_eq(run_on("0123", quick, one_dies), 1);
    cr_assert_eq(run_on("0011", quick, one_dies), 1);
}

/* Who calls something else than the others learns of it in the meeting. */
static int other_roots(coll_comm *comm, int rank, int n)
{
    int32_t x[10] = {0};
    /* Who is slow to leave it may hear already of what others found next. */
    coll_status status = coll_barrier(comm, NULL);
    if (status == COLL_OK)
        status = coll_broadcast(x, x, 10, COLL_I32, rank == n - 1, comm, NULL);
    mark_rank();
    if (rank == 0)
        await_marks(n); /* the news go through its process */
    EXPECT(status == COLL_ERR_MISMATCH, "%d", status);
    EXPECT(strstr(coll_last_error(comm), "called broadcast of 10 i32, root "),
           "%s", coll_last_error(comm));
    coll_comm_destroy(comm);
    _exit(0);
}

Test(news, different_roots_are_an_error_on_every_rank)
{
    cr_assert_eq(run_on("0123", quick, other_roots), 0);
}
