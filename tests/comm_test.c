/* SPDX-License-Identifier: MIT */
/* Communicators of real processes and threads: every algorithm, dtype and
 * transport against an oracle, and what happens when a rank does wrong. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "coll/coll.h"
#include "ranks.h"

static const char *const over_shm[] = {"COLL_TRANSPORT=shm", NULL};
static const char *const over_ucx[] = {"COLL_TRANSPORT=ucx", NULL};

#define EXPECT(condition, ...)                                                 \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);    \
            fprintf(stderr, __VA_ARGS__);                                      \
            fprintf(stderr, "; %s\n", coll_last_error(NULL));                  \
            return 1;                                                          \
        }                                                                      \
    } while (0)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Element i of rank r; sums over 16 ranks stay exact in an f32. */
static float value(int r, size_t i)
{
    return (float)((i * 7 + (size_t)r * 3) % 11) - 3;
}

static int check_f32(coll_comm *comm, int rank, int n, size_t count,
                     int in_place, coll_op op)
{
    float *in = malloc((count + 1) * sizeof(float));
    float *out = in_place ? in : malloc((count + 1) * sizeof(float));
    for (size_t i = 0; i < count; i++)
        in[i] = value(rank, i);
    in[count] = out[count] = 99;
    EXPECT(coll_allreduce(in, out, count, COLL_F32, op, comm, NULL) == COLL_OK,
           "count %zu", count);
    for (size_t i = 0; i < count; i++) {
        float want = value(0, i);
        for (int r = 1; r < n; r++) {
            const float v = value(r, i);
            want = op == COLL_MAX ? (v > want ? v : want) : want + v;
        }
        if (op == COLL_AVG)
            want /= (float)n;
        EXPECT(out[i] == want, "count %zu, element %zu: %g, not %g", count, i,
               (double)out[i], (double)want);
        EXPECT(in_place || in[i] == value(rank, i), "input written");
    }
    EXPECT(out[count] == 99, "written past the end");
    free(in);
    if (!in_place)
        free(out);
    return 0;
}

static int every_algorithm(coll_comm *comm, int rank, int n)
{
    const size_t m = (size_t)n;
    const size_t counts[] = {0, 1, m - 1, m, m + 1, 7, 1009, 50021, 300007};
    coll_algorithm_info algo;
    for (int a = 0; coll_algorithm_get(a, &algo); a++) {
        EXPECT(coll_comm_set_algorithm(comm, algo.name) == COLL_OK, "%s",
               algo.name);
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
            for (int in_place = 0; in_place < 2; in_place++)
                for (coll_op op = COLL_SUM; op <= COLL_AVG; op++)
                    if (op != COLL_PROD && op != COLL_MIN
                        && check_f32(comm, rank, n, counts[i], in_place, op)) {
                        fprintf(stderr, "with %s\n", algo.name);
                        return 1;
                    }
    }
    return 0;
}

Test(comm, allreduce_is_right_over_shared_memory, .timeout = 110)
{
    const int sizes[] = {1, 2, 3, 4, 5, 8};
    for (int i = 0; i < 6; i++)
        cr_assert_eq(run_ranks(sizes[i], over_shm, every_algorithm), 0,
                     "%d ranks", sizes[i]);
}

Test(comm, allreduce_is_right_over_ucx, .timeout = 110)
{
    const int sizes[] = {2, 3, 5};
    for (int i = 0; i < 3; i++)
        cr_assert_eq(run_ranks(sizes[i], over_ucx, every_algorithm), 0,
                     "%d ranks", sizes[i]);
}

/* Every pair of dtype and op either works on two ranks or says that it is not
 * defined; ones stay ones under all but sum. */
static int every_dtype(coll_comm *comm, int rank, int n)
{
    (void)rank;
    for (coll_dtype d = COLL_I8; d <= COLL_F8E5M2; d++)
        for (coll_op op = COLL_SUM; op <= COLL_LOR; op++) {
            const int floats = d >= COLL_F16, bitwise = op >= COLL_BAND;
            unsigned char in[64] = {0}, out[64] = {0};
            const coll_status status =
                coll_allreduce(in, out, 8, d, op, comm, NULL);
            EXPECT(
                status == (floats && bitwise ? COLL_ERR_UNSUPPORTED : COLL_OK),
                "%s of %s: %d", coll_op_name(op), coll_dtype_name(d), status);
        }
    int64_t x = 5, y = 0;
    EXPECT(coll_allreduce(&x, &y, 1, COLL_I64, COLL_SUM, comm, NULL) == 0,
           "i64");
    EXPECT(y == 5 * n, "%ld", (long)y);
    return 0;
}

Test(comm, every_dtype_and_op_works_or_says_no)
{
    cr_assert_eq(run_ranks(2, over_shm, every_dtype), 0);
}

static int many_requests(coll_comm *comm, int rank, int n)
{
    enum { REQUESTS = 20, COUNT = 5000 };
    static double in[REQUESTS][COUNT], out[REQUESTS][COUNT];
    coll_request *requests[REQUESTS];
    for (int k = 0; k < REQUESTS; k++) {
        for (int i = 0; i < COUNT; i++)
            in[k][i] = rank + k + i;
        EXPECT(coll_allreduce(in[k], out[k], COUNT, COLL_F64, COLL_SUM, comm,
                              &requests[k])
                   == COLL_OK,
               "request %d", k);
    }
    /* The last is waited for first; the others are polled. */
    EXPECT(coll_wait(&requests[REQUESTS - 1]) == COLL_OK, "wait");
    EXPECT(requests[REQUESTS - 1] == NULL, "not cleared");
    for (int k = 0; k < REQUESTS - 1; k++) {
        coll_status status;
        while ((status = coll_test(&requests[k])) == COLL_IN_PROGRESS)
            ;
        EXPECT(status == COLL_OK, "test %d", k);
    }
    for (int k = 0; k < REQUESTS; k++)
        for (int i = 0; i < COUNT; i++)
            EXPECT(out[k][i] == n * (n - 1) / 2 + n * (k + i), "%d %d", k, i);
    return 0;
}

Test(comm, many_requests_run_in_order)
{
    cr_assert_eq(run_ranks(3, over_shm, many_requests), 0);
    cr_assert_eq(run_ranks(2, over_ucx, many_requests), 0);
}

static int wrong_arguments(coll_comm *comm, int rank, int n)
{
    (void)rank, (void)n;
    float x[8] = {0};
    EXPECT(coll_allreduce(NULL, x, 1, COLL_F32, COLL_SUM, comm, NULL)
               == COLL_ERR_INVALID,
           "NULL");
    EXPECT(strstr(coll_last_error(NULL), "send is NULL"), "sentence");
    EXPECT(coll_allreduce(x, x + 1, 4, COLL_F32, COLL_SUM, comm, NULL)
               == COLL_ERR_INVALID,
           "overlap");
    EXPECT(coll_allreduce(x, x, 1, (coll_dtype)77, COLL_SUM, comm, NULL)
               == COLL_ERR_INVALID,
           "dtype");
    EXPECT(coll_allreduce(x, x, 1, COLL_F32, (coll_op)-1, comm, NULL)
               == COLL_ERR_INVALID,
           "op");
    EXPECT(coll_allreduce(x, x, 1, COLL_F32, COLL_SUM, NULL, NULL)
               == COLL_ERR_INVALID,
           "comm");
    EXPECT(coll_allreduce(x, x, SIZE_MAX / 2, COLL_F32, COLL_SUM, comm, NULL)
               == COLL_ERR_INVALID,
           "size");
    EXPECT(coll_comm_set_algorithm(comm, "rign") == COLL_ERR_INVALID, "algo");
    EXPECT(strstr(coll_last_error(NULL), "did you mean ring?"), "nearest");
    EXPECT(strstr(coll_last_error(NULL), "recursive_doubling"), "list");
    /* None of this harmed the communicator. */
    return check_f32(comm, rank, n, 10, 0, COLL_SUM);
}

Test(comm, wrong_arguments_are_refused_and_do_no_harm)
{
    cr_assert_eq(run_ranks(2, over_shm, wrong_arguments), 0);
}

static int one_aborts(coll_comm *comm, int rank, int n)
{
    float x[100] = {0};
    (void)n;
    /* All have joined once rank 1 is through; others may be still inside. */
    coll_status status =
        coll_allreduce(x, x, 1, COLL_F32, COLL_SUM, comm, NULL);
    if (rank == 1) {
        coll_comm_abort(comm);
        _exit(0);
    }
    const double start = now();
    if (status == COLL_OK)
        status = coll_allreduce(x, x, 100, COLL_F32, COLL_SUM, comm, NULL);
    EXPECT(status == COLL_ERR_ABORTED, "%d", status);
    EXPECT(strstr(coll_last_error(comm), "rank 1"), "%s",
           coll_last_error(comm));
    EXPECT(now() - start < 2, "late");
    EXPECT(coll_comm_get_async_error(comm) == COLL_ERR_ABORTED, "async");
    coll_comm_destroy(comm);
    _exit(0);
}

static int one_is_killed(coll_comm *comm, int rank, int n)
{
    static float x[1 << 20];
    (void)n;
    coll_status status =
        coll_allreduce(x, x, 1, COLL_F32, COLL_SUM, comm, NULL);
    if (rank == 1) {
        usleep(20000); /* the others are inside by then, or will be */
        kill(getpid(), SIGKILL);
    }
    const double start = now();
    while (status == COLL_OK && now() - start < 10)
        status = coll_allreduce(x, x, 1 << 20, COLL_F32, COLL_SUM, comm, NULL);
    EXPECT(status == COLL_ERR_PEER, "%d", status);
    EXPECT(strstr(coll_last_error(comm), "rank 1"), "%s",
           coll_last_error(comm));
    EXPECT(now() - start < 3, "late: %g s", now() - start);
    EXPECT(coll_comm_destroy(comm) == COLL_ERR_PEER, "destroy");
    _exit(0);
}

Test(comm, abort_wakes_the_others_and_names_the_rank)
{
    cr_assert_eq(run_ranks(3, over_shm, one_aborts), 0);
    cr_assert_eq(run_ranks(2, over_ucx, one_aborts), 0);
}

Test(comm, a_killed_rank_is_named_to_all)
{
    cr_assert_eq(run_ranks(4, over_shm, one_is_killed), 1); /* itself */
    cr_assert_eq(run_ranks(3, over_ucx, one_is_killed), 1);
}

static int different_calls(coll_comm *comm, int rank, int n)
{
    float x[100] = {0};
    (void)n;
    const coll_status status =
        coll_allreduce(x, x, rank ? 100 : 99, COLL_F32, COLL_SUM, comm, NULL);
    EXPECT(status == COLL_ERR_MISMATCH, "%d", status);
    coll_comm_destroy(comm);
    _exit(0);
}

Test(comm, different_calls_are_an_error_on_every_rank)
{
    cr_assert_eq(run_ranks(2, over_shm, different_calls), 0);
    cr_assert_eq(run_ranks(2, over_ucx, different_calls), 0);
}

static int too_slow(coll_comm *comm, int rank, int n)
{
    float x[10] = {0};
    (void)n;
    if (rank == 1)
        sleep(2);
    const coll_status status =
        coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, NULL);
    EXPECT(status == COLL_ERR_TIMEOUT, "%d", status);
    coll_comm_destroy(comm);
    _exit(0);
}

Test(comm, an_operation_has_a_deadline)
{
    static const char *const settings[] = {"COLL_OP_SECONDS=0.5", NULL};
    cr_assert_eq(run_ranks(2, settings, too_slow), 0);
}

Test(comm, one_rank_alone_needs_nobody)
{
    unsetenv("COLL_RANK");
    cr_assert_eq(run_ranks(1, NULL, every_algorithm), 0);
    coll_comm *comm;
    cr_assert_eq(coll_comm_init(&comm), COLL_OK);
    cr_assert_eq(coll_comm_count(comm), 1);
    cr_assert_eq(coll_comm_user_rank(comm), 0);
    cr_assert_eq(coll_comm_destroy(comm), COLL_OK);
    cr_assert_eq(coll_comm_destroy(NULL), COLL_OK);
}
