/* SPDX-License-Identifier: MIT */
/* Collectives by hosts: how ranks wait and fail. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hosts.h"
#include "thorough.h"

/* --- failures ------------------------------------------------------------- */

enum { IN, ACROSS, OUT };

static int victim, fatal_stage, fatal_segments;
static size_t fatal_count;
static enum coll_kind fatal_kind;

/* In place where that is one vector. */
static coll_status fatal_call(coll_comm *comm, coll_request **request)
{
    static float x[1 << 18], y[1 << 18];
    return sum_or_gather(comm, fatal_kind, x, fatal_kind == ALLREDUCE ? x : y,
                         fatal_count, request);
}

static bool in_stage(const struct staged *s, int stage)
{
    return stage == 1 ? s->crossing : s->inside && s->spreads == (stage == 2);
}

/* Ends in the middle of a stage. */
static void die_in_stage(coll_comm *comm)
{
    for (;;) {
        coll_request *request;
        if (fatal_call(comm, &request) != COLL_OK)
            _exit(3);
        do
            if (comm->first && in_stage(&comm->staged, fatal_stage))
                kill(getpid(), SIGKILL);
        while (coll_test(&request) == COLL_IN_PROGRESS);
    }
}

static int one_dies(coll_comm *comm, int rank, int n)
{
    char name[16];
    (void)n;
    EXPECT(coll_comm_set_algorithm(comm, "ring@by_hosts" PARTS_BY_HOSTS)
               == COLL_OK,
           "rules");
    cut_into(comm, fatal_segments);
    /* UCX 1.13 fails an assertion where a peer dies while they connect. */
    coll_status status = fatal_call(comm, NULL);
    if (rank == victim)
        die_in_stage(comm);
    while (status == COLL_OK)
        status = fatal_call(comm, NULL);
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
        enum coll_kind kind;
    } deaths[] = {
        {1, 1 << 18, IN,     1, ALLREDUCE     },
        {1, 1 << 18, ACROSS, 1, ALLREDUCE     },
        {1, 1 << 18, OUT,    1, ALLREDUCE     },
        {2, 1 << 18, ACROSS, 1, ALLREDUCE     },
        {1, 1000,    OUT,    1, ALLREDUCE     },
        {2, 1000,    IN,     1, ALLREDUCE     },
        {2, 1000,    ACROSS, 1, ALLREDUCE     },
        {1, 1 << 18, IN,     8, ALLREDUCE     },
        {2, 1 << 18, ACROSS, 8, ALLREDUCE     },
        {1, 1 << 18, OUT,    8, ALLREDUCE     },
        {1, 1 << 16, IN,     8, REDUCE_SCATTER},
        {2, 1 << 16, ACROSS, 8, REDUCE_SCATTER},
        {2, 1 << 16, ACROSS, 8, ALLGATHER     },
        {1, 1 << 16, OUT,    8, ALLGATHER     },
    };
    for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]);
         i += thorough() ? 1 : 3) {
        victim = deaths[i].victim;
        fatal_count = deaths[i].count;
        fatal_stage = deaths[i].stage;
        fatal_segments = deaths[i].segments;
        fatal_kind = deaths[i].kind;
        cr_assert_eq(run_on("0011", quick, one_dies), 1, "death %zu", i);
    }
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
    mark_rank();
    if (rank == 0)
        await_marks(n); /* the news go through its process */
    EXPECT(status == COLL_ERR_MISMATCH, "%d", status);
    coll_comm_destroy(comm);
    _exit(0);
}

Test(staged, different_calls_are_an_error_on_every_rank)
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
    EXPECT(coll_comm_set_algorithm(comm, "@by_hosts") == COLL_OK, "rules");
    if (rank == 1) {
        await_marks(n - 1);
        await_failure(comm);
    }
    const coll_status status =
        coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, NULL);
    mark_rank();
    if (rank == 0)
        await_marks(n);
    EXPECT(status == COLL_ERR_TIMEOUT, "%d", status);
    coll_comm_destroy(comm);
    _exit(0);
}

Test(staged, an_operation_has_a_deadline)
{
    static const char *const settings[] = {"COLL_CALIBRATE=off",
                                           "COLL_OP_SECONDS=0.5", NULL};
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

/* Between two hosts a ring sends two messages, of each segment and from each
 * rank that carries something: of a short vector the first of a host. */
static int messages_cross(coll_comm *comm, int rank, int n)
{
    enum { LONG = 1 << 18 };
    static float x[LONG];
    const size_t counts[] = {1000, LONG};
    uint64_t before = 0, after = 0;
    (void)n;
    EXPECT(coll_comm_set_algorithm(comm, "ring@by_hosts") == COLL_OK, "rules");
    cut_into(comm, 4);
    for (int i = 0; i < 2; i++) {
        EXPECT(sum_or_gather(comm, ALLREDUCE, x, x, counts[i], NULL) == COLL_OK
                   && coll_stats_messages(comm, "allreduce", &after) == COLL_OK,
               "allreduce");
        const uint64_t wanted = i || rank % 2 == 0 ? 2 : 0;
        EXPECT(comm->staged.nsegments == 4 && after - before == 4 * wanted,
               "%llu messages in %d segments",
               (unsigned long long)(after - before), comm->staged.nsegments);
        before = after;
    }
    return 0;
}

Test(staged, messages_are_counted)
{
    cr_assert_eq(run_on("0011", still, messages_cross), 0);
}
