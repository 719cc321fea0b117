/* SPDX-License-Identifier: MIT */
/* COLL_DETERMINISM=run and layout, and what is no such word. Of full:
 * same_bits_test.py. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "hosts.h"

static int keeps_to_one(coll_comm *comm, int rank, int n)
{
    static float x[20000], first[20000], y[20000];
    (void)n;
    EXPECT(!comm->select.adapts, "learns");
    EXPECT(!strcmp(getenv("COLL_DETERMINISM"), "run") || !comm->calibrates,
           "measures");
    for (int i = 0; i < 20000; i++)
        x[i] = 1.0F / (float)(i + 3 * rank + 1);
    for (int k = 0; k < 60; k++) {
        EXPECT(coll_allreduce(x, k ? y : first, 20000, COLL_F32, COLL_SUM, comm,
                              NULL)
                   == COLL_OK,
               "sum");
        EXPECT(!k || !memcmp(first, y, sizeof(y)), "call %d", k);
    }
    return 0;
}

Test(determinism, run_and_layout_learn_nothing)
{
    static const char *const run[] = {"COLL_DETERMINISM=run", NULL};
    static const char *const same[] = {"COLL_DETERMINISM=layout", NULL};
    cr_assert_eq(run_on("0011", run, keeps_to_one), 0);
    cr_assert_eq(run_on("0011", same, keeps_to_one), 0);
}

static int wrong_words(coll_comm *comm, int rank, int n)
{
    (void)comm, (void)rank, (void)n;
    return 0;
}

Test(determinism, another_word_is_an_error)
{
    static const char *const wrong[] = {"COLL_DETERMINISM=fully", NULL};
    cr_assert_eq(run_on("00", wrong, wrong_words), 2);
}
