/* SPDX-License-Identifier: MIT */
/* A folder of a test's own, in which it runs: .init and .fini of its suite. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char scratch[] = "/tmp/coll_test.XXXXXX";

static void scratch_enter(void)
{
    cr_assert(mkdtemp(scratch));
    cr_assert_eq(chdir(scratch), 0);
}

static void scratch_leave(void)
{
    char command[64];
    snprintf(command, sizeof(command), "rm -r %s", scratch);
    cr_assert_eq(chdir("/"), 0);
    cr_assert_eq(system(command), 0);
}

#endif
