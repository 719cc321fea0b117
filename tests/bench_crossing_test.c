/* SPDX-License-Identifier: MIT */
/* What coll_bench's bound between hosts counts. */
#include <criterion/criterion.h>

#include "limit.h"

enum { BYTES = 6000 };

/* Six ranks: 0 to 2 on a first host, 3 and 4 on a second, 5 on a third. */
static int by_host[] = {0, 0, 0, 3, 3, 5};
static int dealt[] = {0, 1, 2, 0, 1, 2};

static double crosses(enum collective c, int root, int *host_of)
{
    const struct job job = {.nranks = 6, .nhosts = 3, .host_of = host_of};
    const struct shape shape = {.collective = c, .root = root, .nranks = 6};
    return crossing_bytes(&shape, &job, BYTES);
}

Test(bench_crossing, whole_vectors_count_by_hosts)
{
    cr_expect_float_eq(crosses(ALLREDUCE, 0, by_host), 8000, 1e-6);
    cr_expect_float_eq(crosses(REDUCE, 0, by_host), 6000, 1e-6);
    cr_expect_float_eq(crosses(BROADCAST, 0, by_host), 6000, 1e-6);
}

Test(bench_crossing, parts_that_a_host_has_do_not_come_to_it)
{
    /* the third host has one part of six */
    cr_expect_float_eq(crosses(ALLGATHER, 0, by_host), 5000, 1e-6);
    cr_expect_float_eq(crosses(REDUCE_SCATTER, 0, by_host), 5000, 1e-6);
    /* the root's host counts alone */
    cr_expect_float_eq(crosses(GATHER, 0, by_host), 3000, 1e-6);
    cr_expect_float_eq(crosses(GATHER, 5, by_host), 5000, 1e-6);
    cr_expect_float_eq(crosses(SCATTER, 4, by_host), 4000, 1e-6);
    /* three ranks have a sixth for each of three others, two for four */
    cr_expect_float_eq(crosses(ALLTOALL, 0, by_host), 9000, 1e-6);
}

Test(bench_crossing, uneven_parts_count_as_long_as_they_are)
{
    /* in 21sts: the hosts have 6, 9 and 6 */
    const double part = BYTES / 21.0;
    cr_expect_float_eq(crosses(ALLGATHER_V, 0, by_host), 15 * part, 2);
    cr_expect_float_eq(crosses(GATHER_V, 3, by_host), 12 * part, 2);
    /* rank 0 has parts 4, 5, 6 for other hosts, rank 1 5, 6, 1, rank 2 6, 1, 2:
     * 36; ranks 3 and 4 4, 5, 6, 3 and 5, 6, 1, 4: 34; rank 5 ones of 15 */
    cr_expect_float_eq(crosses(ALLTOALL_V, 0, by_host), 36 * part, 8);
}

Test(bench_crossing, messages_between_ranks_of_a_host_do_not_count)
{
    cr_expect_float_eq(crosses(SENDRECV, 0, by_host), 6000, 1e-6);
    cr_expect_float_eq(crosses(SENDRECV, 0, dealt), 12000, 1e-6);
    cr_expect_float_eq(crosses(PINGPONG, 0, by_host), 6000, 1e-6);
    dealt[5] = 0;
    cr_expect_float_eq(crosses(PINGPONG, 0, dealt), 0, 1e-6);
}
