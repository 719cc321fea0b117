/* SPDX-License-Identifier: MIT */
/* The checks of coll_bench notice what a broken collective would do. */
#include <criterion/criterion.h>

#include <string.h>

#include "inputs.h"
#include "op/op.h"

enum { RANKS = 5, COUNT = 5000, ITERATION = 3 };

/* The result, and the last rank's input. */
static _Alignas(8) char sum[COUNT * 8], next[COUNT * 8];

static struct shape shape_of(enum collective c, coll_dtype dtype, coll_op op,
                             int rank)
{
    return (struct shape){
        .collective = c,
        .dtype = dtype,
        .op = op,
        .root = 1,
        .rank = rank,
        .nranks = RANKS,
    };
}

/* What a correct allreduce gives. */
static void reduce_all(coll_dtype dtype, coll_op op, struct inputs *mine)
{
    static _Alignas(8) char send[RANKS][COUNT * 8];
    const void *src[RANKS];
    void *const dst = sum;
    for (int r = 0; r < RANKS; r++) {
        const struct shape shape = shape_of(ALLREDUCE, dtype, op, r);
        inputs_create(mine, &shape);
        inputs_write(mine, send[r], COUNT, ITERATION);
        src[r] = send[r];
        if (r < RANKS - 1)
            inputs_free(mine);
    }
    memcpy(next, send[RANKS - 1], sizeof next);
    op_run(op_combine(dtype, op), &dst, 1, src, RANKS, COUNT, RANKS, false);
}

Test(bench_inputs, right_results_are_right_for_every_dtype_and_op)
{
    for (int d = COLL_I8; d <= COLL_F8E5M2; d++) {
        for (int op = COLL_SUM; op <= COLL_LOR; op++) {
            struct inputs in;
            if (!op_combine(d, op))
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

/* Where part r of S begins, of count elements on average. */
static size_t part_at(bool even, size_t count, size_t r)
{
    return even ? r * count : count * (r * (r + 1)) / (RANKS + 1);
}

/* Of an alltoall_v, in what rank r has: the part of (r + q) mod n, behind those
 * for lower ranks. */
static size_t pair_at(bool even, size_t count, size_t r, size_t q)
{
    size_t at = 0;
    for (size_t k = 0; k < q; k++)
        at += even ? count
                   : part_at(even, count, (r + k) % RANKS + 1)
                         - part_at(even, count, (r + k) % RANKS);
    return at;
}

/* What a rank gets from any collective, computed from every rank's input, each
 * of which has room for an allgather's result: rank 3, or the root, which is 1,
 * or the last one of a ping-pong. */
static void deliver(enum collective kind, struct inputs *mine, size_t count,
                    char *recv)
{
    enum { ELEM = 4 };
    const enum collective c = collective_even(kind);
    const bool even = c == kind;
    const size_t me = c == GATHER ? 1 : c == PINGPONG ? RANKS - 1 : 3;
    static _Alignas(int) char send[RANKS * COUNT * ELEM];
    const size_t whole = count * ELEM, own = part_at(even, count, me);
    const size_t own_bytes = (part_at(even, count, me + 1) - own) * ELEM;
    memset(recv, INPUTS_UNTOUCHED, RANKS * whole);
    for (size_t r = 0; r < RANKS; r++) {
        const struct shape shape = shape_of(kind, COLL_I32, COLL_SUM, (int)r);
        const size_t at = part_at(even, count, r);
        struct inputs in;
        inputs_create(&in, &shape);
        inputs_write(&in, send, count, ITERATION);
        if (c == ALLGATHER || c == GATHER)
            memcpy(recv + at * ELEM, send,
                   (part_at(even, count, r + 1) - at) * ELEM);
        if (c == BROADCAST && r == (size_t)shape.root)
            memcpy(recv, send, whole);
        if ((c == SENDRECV && r == 2) || (c == PINGPONG && r == 0))
            memcpy(recv, send, whole);
        if (c == SCATTER && r == (size_t)shape.root)
            memcpy(recv, send + own * ELEM, own_bytes);
        const size_t from = pair_at(even, count, r, me);
        const size_t to = pair_at(even, count, me, r);
        if (c == ALLTOALL)
            memcpy(recv + to * ELEM, send + from * ELEM,
                   (pair_at(even, count, r, me + 1) - from) * ELEM);
        for (size_t i = 0; c == REDUCE_SCATTER && i < own_bytes / ELEM; i++)
            ((int *)recv)[i] =
                ((int *)send)[own + i] + (r ? ((int *)recv)[i] : 0);
        inputs_free(&in);
    }
    const struct shape shape = shape_of(kind, COLL_I32, COLL_SUM, (int)me);
    inputs_create(mine, &shape);
}

Test(bench_inputs, what_each_collective_delivers_is_right_and_one_bit_wrong)
{
    static _Alignas(int) char recv[RANKS * COUNT * 4];
    for (int c = REDUCE; c < BARRIER; c++) {
        struct inputs in;
        deliver((enum collective)c, &in, COUNT, recv);
        cr_expect_eq(inputs_wrong(&in, recv, COUNT, ITERATION), 0, "%s",
                     collective_name((enum collective)c));
        recv[4 * 4321] ^= 1;
        cr_expect_eq(inputs_wrong(&in, recv, COUNT, ITERATION), 1, "%s",
                     collective_name((enum collective)c));
        inputs_free(&in);
    }
}

Test(bench_inputs, parts_of_two_ranks_in_each_others_place_are_wrong)
{
    static _Alignas(int) char recv[RANKS * COUNT * 4];
    static const enum collective all[] = {ALLGATHER,   GATHER,   ALLTOALL,
                                          ALLGATHER_V, GATHER_V, ALLTOALL_V};
    for (int i = 0; i < 6; i++) {
        struct inputs in;
        deliver(all[i], &in, COUNT, recv);
        memcpy(next, recv, COUNT * 4);
        memcpy(recv, recv + COUNT * 4, COUNT * 4);
        memcpy(recv + COUNT * 4, next, COUNT * 4);
        cr_assert_gt(inputs_wrong(&in, recv, COUNT, ITERATION), COUNT, "%s",
                     collective_name(all[i]));
        inputs_free(&in);
    }
}
