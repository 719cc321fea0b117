/* SPDX-License-Identifier: MIT */
/* The checks of coll_bench notice what a broken collective would do. */
#include <criterion/criterion.h>

#include <string.h>

#include "inputs.h"
#include "op/op.h"

enum { RANKS = 5, COUNT = 5000, ITERATION = 3 };

static char sum[COUNT * 8], next[COUNT * 8];

/* What a correct allreduce gives. */
static void reduce_all(coll_dtype dtype, coll_op op, struct inputs *mine)
{
    for (int r = 0; r < RANKS; r++) {
        inputs_create(mine, dtype, op, r, RANKS);
        inputs_write(mine, r ? next : sum, COUNT, ITERATION);
        if (r)
            op_reduce(dtype, op)(sum, sum, next, COUNT);
        if (r < RANKS - 1)
            inputs_free(mine);
    }
    op_finish(dtype, op, sum, COUNT, RANKS);
}

Test(bench_inputs, right_results_are_right_for_every_dtype_and_op)
{
    for (int d = COLL_I8; d <= COLL_F8E5M2; d++) {
        for (int op = COLL_SUM; op <= COLL_LOR; op++) {
            struct inputs in;
            if (!op_reduce(d, op))
                continue;
            reduce_all(d, op, &in);
            cr_expect_eq(inputs_wrong(&in, sum, COUNT, ITERATION), 0,
                         "dtype %d op %d", d, op);
            inputs_free(&in);
        }
    }
}

Test(bench_inputs, one_flipped_bit_is_one_wrong_element)
{
    struct inputs in;
    reduce_all(COLL_F32, COLL_SUM, &in);
    sum[4 * 4321] ^= 1;
    cr_assert_eq(inputs_wrong(&in, sum, COUNT, ITERATION), 1);
    inputs_free(&in);
}

Test(bench_inputs, the_result_of_another_iteration_is_wrong)
{
    struct inputs in;
    reduce_all(COLL_F32, COLL_SUM, &in);
    cr_assert_gt(inputs_wrong(&in, sum, COUNT, ITERATION + 1), COUNT / 2);
    inputs_free(&in);
}

Test(bench_inputs, a_chunk_in_the_wrong_place_is_wrong)
{
    struct inputs in;
    reduce_all(COLL_F8E5M2, COLL_SUM, &in);
    memmove(sum + 1000, sum, 1000);
    cr_assert_gt(inputs_wrong(&in, sum, COUNT, ITERATION), 100);
    inputs_free(&in);
}

Test(bench_inputs, a_rank_left_out_is_wrong)
{
    struct inputs in;
    reduce_all(COLL_F32, COLL_SUM, &in); /* next: the last rank's input */
    for (int i = 0; i < COUNT; i++)
        ((float *)sum)[i] -= ((float *)next)[i];
    cr_assert_gt(inputs_wrong(&in, sum, COUNT, ITERATION), COUNT / 2);
    inputs_free(&in);
}
