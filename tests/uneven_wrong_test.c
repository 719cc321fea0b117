/* SPDX-License-Identifier: MIT */
/* v-calls that are wrong: arguments that no call may have, and lengths that
 * ranks say differently. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hosts.h"
#include "thorough.h"
#include "uneven_calls.h"

static int wrong_arguments(coll_comm *comm, int rank, int n)
{
    const size_t counts[] = {1, 2}, lots[] = {SIZE_MAX, 2, SIZE_MAX};
    const size_t many[] = {SIZE_MAX / 8, SIZE_MAX / 8};
    const size_t far[] = {0, SIZE_MAX / 2}, gap[] = {4, 0};
    float x[8] = {0}, y[8] = {0};
    (void)n;
    REFUSED(coll_allgather_v(x, y, NULL, NULL, COLL_F32, comm, NULL),
            "coll_allgather_v: recvcounts is NULL");
    REFUSED(coll_allgather_v(x, y, counts, NULL, COLL_F32, NULL, NULL),
            "coll_allgather_v: the communicator is NULL");
    REFUSED(coll_allgather_v(x, y, lots, NULL, COLL_F32, comm, NULL),
            "recvcounts add up to more than");
    REFUSED(coll_reduce_scatter_v(x, y, many, COLL_F32, COLL_SUM, comm, NULL),
            "coll_reduce_scatter_v: 4611686018427387902 elements of 4 bytes");
    REFUSED(coll_allgather_v(x, y, counts, far, COLL_F32, comm, NULL),
            "displs[1] is 9223372036854775807");
    REFUSED(coll_allgather_v(NULL, y, counts, NULL, COLL_F32, comm, NULL),
            "coll_allgather_v: send is NULL");
    REFUSED(
        coll_reduce_scatter_v(x, NULL, counts, COLL_F32, COLL_SUM, comm, NULL),
        "coll_reduce_scatter_v: recv is NULL");
    REFUSED(coll_allgather_v(x + !rank, x, counts, NULL, COLL_F32, comm, NULL),
            "overlap without send being recv + displs[rank]");
    REFUSED(coll_reduce_scatter_v(x, x + !rank, counts, COLL_F32, COLL_SUM,
                                  comm, NULL),
            "overlap without recv being where");
    REFUSED(coll_allgather_v(x, y, counts, NULL, (coll_dtype)77, comm, NULL),
            "coll_allgather_v: 77 is no coll_dtype");
    REFUSED(coll_gather_v(x, counts[rank], y, rank ? NULL : counts, NULL,
                          COLL_F32, 2, comm, NULL),
            "coll_gather_v: root 2 is no rank of 2");
    REFUSED(coll_gather_v(rank ? NULL : x, 2, y, counts, NULL, COLL_F32, 0,
                          comm, NULL),
            rank ? "coll_gather_v: send is NULL"
                 : "this rank sends itself 2 elements and receives 1");
    REFUSED(coll_scatter_v(rank ? NULL : x, NULL, NULL, rank ? NULL : y, 3,
                           COLL_F32, 0, comm, NULL),
            rank ? "coll_scatter_v: recv is NULL"
                 : "coll_scatter_v: sendcounts is NULL");
    REFUSED(coll_alltoall_v(x, counts, NULL, y, lots + 1, NULL, COLL_F32, comm,
                            NULL),
            "coll_alltoall_v: ");
    REFUSED(coll_alltoall_v(x, counts, NULL, x + 1, counts, NULL, COLL_F32,
                            comm, NULL),
            "coll_alltoall_v: send and recv overlap without being equal");
    EXPECT(coll_reduce_scatter_v(x, y, counts, COLL_F32, COLL_BAND, comm, NULL)
                   == COLL_ERR_UNSUPPORTED
               && strstr(coll_last_error(NULL), "coll_reduce_scatter_v: "),
           "not defined");
    /* What is sent may lie in a gap. None of all this did harm. */
    EXPECT(coll_allgather_v(x + 6, x, counts, gap, COLL_F32, comm, NULL)
               == COLL_OK,
           "a gap");
    return try(comm, ALLGATHER, 1, 100);
}

Test(uneven_wrong, wrong_arguments_are_refused_and_do_no_harm)
{
    cr_assert_eq(run_on("00", quick, wrong_arguments), 0);
}

/* Rank 1 says another length of its own part, or all ranks' parts in another
 * order; among others, none where others say some. In the last pair all say
 * that there is nothing, but rank 1 by the even call. */
static const size_t said[][2][3] = {
    {{5, 6, 7}, {5, 7, 7}},
    {{5, 6, 7}, {5, 7, 6}},
    {{0, 6, 0}, {0, 0, 0}},
    {{0, 0, 0}, {0, 6, 0}},
    {{0, 0, 0}, {6, 0, 0}},
    {{6, 0, 6}, {6, 6, 6}},
    {{0, 0, 0}, {0, 0, 0}},
};
enum { PAIRS = sizeof(said) / sizeof(said[0]), EVEN_OF_NOTHING = PAIRS - 1 };
static unsigned pair;
static enum coll_kind kind;

/* On one host and on two; the fast suite takes them in turn. */
static const char *const layouts[] = {"000", "011"};

static bool tries(unsigned layout)
{
    return thorough() || (pair + (unsigned)kind) % 2 == layout;
}

static coll_status say(coll_comm *comm, bool odd)
{
    float x[32] = {0}, y[32] = {0};
    const size_t *counts = said[pair][odd];
    if (odd && pair == EVEN_OF_NOTHING)
        return sum_or_gather(comm, kind, x, y, 0, NULL);
    return kind == ALLGATHER
               ? coll_allgather_v(x, y, counts, NULL, COLL_F32, comm, NULL)
               : coll_reduce_scatter_v(x, y, counts, COLL_F32, COLL_SUM, comm,
                                       NULL);
}

static int different_lengths(coll_comm *comm, int rank, int n)
{
    coll_status status = coll_barrier(comm, NULL);
    if (status == COLL_OK)
        status = say(comm, rank == 1);
    const coll_status first = status;
    if (status == COLL_OK)
        status = coll_barrier(comm, NULL);
    mark_rank();
    if (rank == 0)
        await_marks(n); /* the news go through its process */
    EXPECT(status == COLL_ERR_MISMATCH, "pair %u: %d, %d", pair, first, status);
    EXPECT(strstr(coll_last_error(comm), kind == ALLGATHER
                                             ? "called allgather_v of "
                                             : "called reduce_scatter_v of ")
               || first == COLL_OK,
           "%s", coll_last_error(comm));
    coll_comm_destroy(comm);
    _exit(0);
}

Test(uneven_wrong, different_lengths_are_an_error_on_every_rank)
{
    for (kind = REDUCE_SCATTER; kind <= ALLGATHER; kind++)
        for (pair = 0; pair < PAIRS; pair++)
            for (unsigned i = 0; i < 2; i++)
                if (tries(i))
                    cr_assert_eq(run_on(layouts[i], quick, different_lengths),
                                 0, "pair %u", pair);
}

/* Rank 0 sends rank 1 `from` elements, which expects `to`; also none, and more
 * than goes with a line. */
static const size_t between[][2] = {
    {5,     6    },
    {0,     1    },
    {1,     0    },
    {7,     0    },
    {90000, 80000},
    {80000, 5    },
    {5,     80000},
};

static int different_pairs(coll_comm *comm, int rank, int n)
{
    static char x[100000], y[100000];
    char lengths[160];
    size_t sends[3] = {2, 2, 2}, receives[3] = {2, 2, 2};
    if (rank == 0)
        sends[1] = between[pair][0];
    if (rank == 1)
        receives[0] = between[pair][1];
    coll_status status = coll_barrier(comm, NULL);
    if (status == COLL_OK && kind == ALLTOALL)
        status = coll_alltoall_v(x, sends, NULL, y, receives, NULL, COLL_U8,
                                 comm, NULL);
    else if (status == COLL_OK && kind == GATHER)
        status = coll_gather_v(x, rank ? 2 : sends[1], y, receives, NULL,
                               COLL_U8, 1, comm, NULL);
    else if (status == COLL_OK)
        status = coll_scatter_v(x, sends, NULL, y, rank ? receives[0] : 2,
                                COLL_U8, 0, comm, NULL);
    if (status == COLL_OK)
        status = coll_barrier(comm, NULL);
    mark_rank();
    if (rank == 0)
        await_marks(n); /* the news go through its process */
    EXPECT(status == COLL_ERR_MISMATCH, "%s_v, pair %u: %d", kind_names[kind],
           pair, status);
    snprintf(
        lengths, sizeof(lengths),
        "rank 0 called %s_v with %zu u8 for rank 1, but rank 1 called %s_v "
        "with %zu from rank 0",
        kind_names[kind], between[pair][0], kind_names[kind], between[pair][1]);
    EXPECT(strstr(coll_last_error(comm), lengths), "%s", coll_last_error(comm));
    coll_comm_destroy(comm);
    _exit(0);
}

Test(uneven_wrong, different_lengths_of_a_pair_are_an_error_on_every_rank)
{
    for (kind = GATHER; kind <= ALLTOALL; kind++)
        for (pair = 0; pair < sizeof(between) / sizeof(between[0]); pair++)
            for (unsigned i = 0; i < 2; i++)
                if (tries(i))
                    cr_assert_eq(run_on(layouts[i], quick, different_pairs), 0,
                                 "%s_v, pair %u", kind_names[kind], pair);
}
