/* SPDX-License-Identifier: MIT */
/* The reduce kernels and the names of dtypes and operators. */
#include <criterion/criterion.h>

#include "coll/coll.h"
#include "op/op.h"
#include "op_checks.h"

Test(op, every_kernel_equals_scalar_and_writes_nothing_else)
{
    cr_assert(kernels_equal_scalar());
}

Test(op, scalar_equals_a_fold_in_wider_types_rounded_once)
{
    cr_assert(scalar_equals_oracle());
}

Test(op, pairs_equal_wider_arithmetic_for_every_dtype_and_op)
{
    cr_assert(pairs_equal_oracle());
}

Test(op, copies_reach_every_destination_and_nothing_else)
{
    cr_assert(copies_reach_every_destination());
}

Test(op, an_average_divides_integers_towards_zero)
{
    cr_assert(finish_equals_oracle());
}

Test(convert, every_narrow_code_survives_a_round_trip)
{
    cr_assert(codes_survive_a_round_trip());
}

Test(convert, midpoints_round_to_even)
{
    cr_assert(midpoints_round_to_even());
}

Test(op, the_chosen_kernels_are_the_first_this_cpu_can_run)
{
    const struct op_isa *best = op_isas;
    while (!best->supported())
        best++;
    for (int d = COLL_I8; d <= COLL_F8E5M2; d++)
        for (int op = COLL_SUM; op <= COLL_LOR; op++) {
            const struct combine *const c = op_combine(d, op);
            cr_assert_eq(c ? c->kernel : NULL, best->kernels[d][op]);
        }
}

Test(op, undefined_pairs_have_no_kernel)
{
    cr_assert_null(op_combine(COLL_F32, COLL_BAND));
    cr_assert_null(op_combine(COLL_F8E4M3, COLL_LOR));
    cr_assert_null(op_combine((coll_dtype)99, COLL_SUM));
    cr_assert_null(op_combine(COLL_F32, (coll_op)99));
    cr_assert_null(op_combine((coll_dtype)-1, COLL_SUM));
}

Test(names, every_dtype_and_op_is_found_by_its_name)
{
    for (int d = COLL_I8; d <= COLL_F8E5M2; d++) {
        coll_dtype found = (coll_dtype)99;
        cr_assert(coll_dtype_find(coll_dtype_name(d), &found));
        cr_assert_eq((int)found, d);
    }
    for (int op = COLL_SUM; op <= COLL_LOR; op++) {
        coll_op found = (coll_op)99;
        cr_assert(coll_op_find(coll_op_name(op), &found));
        cr_assert_eq((int)found, op);
    }
}

Test(names, unknown_ones_are_not_found_and_change_nothing)
{
    coll_dtype dtype = COLL_F64;
    coll_op op = COLL_MAX;
    cr_assert_not(coll_dtype_find("f33", &dtype));
    cr_assert_not(coll_op_find("", &op));
    cr_assert_not(coll_dtype_find(NULL, &dtype));
    cr_assert_not(coll_dtype_find("f32", NULL));
    cr_assert_not(coll_op_find(NULL, &op));
    cr_assert_not(coll_op_find("sum", NULL));
    cr_assert_eq(dtype, COLL_F64);
    cr_assert_eq(op, COLL_MAX);
    cr_assert_null(coll_dtype_name((coll_dtype)14));
    cr_assert_null(coll_op_name((coll_op)-1));
    cr_assert_eq(coll_dtype_bytes((coll_dtype)14), 0);
    cr_assert_eq(coll_dtype_bytes(COLL_BF16), 2);
}
