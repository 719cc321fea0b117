/* SPDX-License-Identifier: MIT */
/* What a system says of its memory, and that more is refused before it is
 * taken. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coll/coll.h"
#include "node/memory_left.h"
#include "scratch.h"

static void enter(void)
{
    scratch_enter();
    cr_assert_eq(system("mkdir -p proc/self groups/a/b groups/memory/a"), 0);
}

TestSuite(memory_left, .init = enter, .fini = scratch_leave);

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert(file);
    fputs(text, file);
    fclose(file);
}

static uint64_t left(void)
{
    return memory_left_in("proc", "groups");
}

Test(memory_left, of_the_system)
{
    cr_expect_eq(left(), UINT64_MAX); /* nobody says */
    put("proc/meminfo",
        "MemTotal: 9 kB\nMemAvailable:  6 kB\nSwapFree: 1 kB\n");
    cr_expect_eq(left(), 7u << 10);
}

Test(memory_left, of_a_group_and_those_around_it)
{
    put("proc/meminfo", "MemAvailable: 1000 kB\n");
    put("proc/self/cgroup", "0::/a/b\n");
    put("groups/a/b/memory.max", "max\n");
    put("groups/a/b/memory.current", "100\n");
    cr_expect_eq(left(), 1000u << 10);
    put("groups/a/memory.max", "5000\n");
    put("groups/a/memory.current", "2000\n");
    put("groups/a/memory.stat", "file 700\ninactive_file 500\n");
    cr_expect_eq(left(), 3500u);
    put("groups/a/b/memory.max", "150\n");
    cr_expect_eq(left(), 50u);
    put("groups/a/b/memory.current", "151\n");
    cr_expect_eq(left(), 0u);
}

/* A container sees the group that it is in as the outermost. */
Test(memory_left, of_a_group_that_is_not_seen_by_its_name)
{
    put("proc/self/cgroup", "4:memory:/elsewhere/it\n0::/\n");
    put("groups/memory/memory.limit_in_bytes", "3000\n");
    put("groups/memory/memory.usage_in_bytes", "1000\n");
    put("groups/memory/memory.stat",
        "inactive_file 1\ntotal_inactive_file 7\n");
    cr_expect_eq(left(), 2007u);
    put("proc/self/cgroup", "4:memory:/a\n");
    put("groups/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
    put("groups/memory/a/memory.usage_in_bytes", "1000\n");
    cr_expect_eq(left(), 2007u);
}

Test(memory_left, more_than_there_is_is_refused, .timeout = 10)
{
    void *x = NULL;
    cr_assert_eq(coll_mem_alloc(&x, (size_t)1 << 44), COLL_ERR_MEMORY);
    cr_expect(
        strstr(coll_last_error(NULL), "no memory for 17592186044416 bytes"),
        "%s", coll_last_error(NULL));
    cr_assert_eq(coll_mem_alloc(&x, 32 << 20), COLL_OK);
    memset(x, 1, 32 << 20);
    cr_expect_eq(coll_mem_free(x), COLL_OK);
}
