/* SPDX-License-Identifier: MIT */
/* Which pages long shared memory has: huge ones, for its owner and for who maps
 * it, where the system has any; and that it stays private where its pages would
 * cost too much. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "coll/coll.h"
#include "node/heap.h"
#include "ranks.h"

enum { HUGE = 2 << 20, LONG = 5 * HUGE / 2 + 12345, COLLAPSE = 25 };

/* Of the test's own: whether the system puts them under shared memory. Where an
 * administrator set others aside blocks have those. */
static bool has_huge(void)
{
    enum { TRIED = 16 * HUGE };
    unsigned long aside = 0;
    FILE *f =
        fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "r");
    if (f && fscanf(f, "%lu", &aside) != 1)
        aside = 0;
    if (f)
        fclose(f);
    const int file = memfd_create("huge", 0);
    char *x =
        mmap(NULL, TRIED + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (aside || file < 0 || ftruncate(file, TRIED) || x == MAP_FAILED)
        return false;
    x += HUGE - (uintptr_t)x % HUGE;
    mmap(x, TRIED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    for (size_t i = 0; i < TRIED; i += HUGE)
        x[i] = 1;
    const bool has = madvise(x, TRIED, COLLAPSE) == 0;
    close(file);
    munmap(x, TRIED);
    return has;
}

/* Bytes of shared memory that huge pages are under, in the mapping that begins
 * at `start`. */
static size_t huge_bytes(const void *start)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    unsigned long long from, to;
    size_t kib = 0;
    bool here = false;
    while (maps && fgets(line, sizeof(line), maps))
        if (sscanf(line, "%llx-%llx ", &from, &to) == 2)
            here = from == (uintptr_t)start;
        else if (here && sscanf(line, "ShmemPmdMapped: %zu kB", &kib) == 1)
            break;
    if (maps)
        fclose(maps);
    return kib * 1024;
}

Test(huge_pages, are_under_long_blocks)
{
    void *x, *y;
    if (!has_huge())
        cr_skip("this system has no huge pages for shared memory");
    cr_assert_eq(coll_mem_alloc(&y, 4096),
                 COLL_OK); /* an odd place in the file */
    cr_assert_eq(coll_mem_alloc(&x, LONG), COLL_OK);
    cr_expect_eq(huge_bytes(x), 2 * HUGE);
    for (size_t i = 0; i < LONG; i++)
        cr_assert_eq(((char *)x)[i], 0, "byte %zu is not zero", i);
    cr_expect_eq(coll_mem_free(x), COLL_OK);
    cr_expect_eq(coll_mem_free(y), COLL_OK);
}

/* 16 KiB into a huge page, three and a half of them long: two whole ones. */
Test(huge_pages, are_under_registered_memory)
{
    enum { PAST = 16384, BYTES = 7 * HUGE / 2 };
    char *all = aligned_alloc(HUGE, 4 * HUGE), *x = all + PAST;
    if (!has_huge())
        cr_skip("this system has no huge pages for shared memory");
    for (size_t i = 0; i < BYTES; i++)
        x[i] = (char)(i / 4096);
    cr_assert_eq(heap_adopt(x, BYTES), COLL_OK);
    if (heap_find(x, BYTES).bytes == 0)
        cr_skip("pages are dear here");
    cr_expect_eq(huge_bytes(x), 2 * HUGE);
    for (size_t i = 0; i < BYTES; i++)
        cr_assert_eq(x[i], (char)(i / 4096), "byte %zu", i);
    cr_assert_eq(heap_disown(x), COLL_OK);
    for (size_t i = 0; i < BYTES; i++)
        cr_assert_eq(x[i], (char)(i / 4096), "byte %zu", i);
    free(all);
}

/* The same of all mappings. */
static size_t huge_bytes_of_all(void)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    size_t kib, all = 0;
    while (maps && fgets(line, sizeof(line), maps))
        if (sscanf(line, "ShmemPmdMapped: %zu kB", &kib) == 1)
            all += kib * 1024;
    if (maps)
        fclose(maps);
    return all;
}

/* From a block into registered memory that begins 16 KiB into a huge page. */
static int sum_long(coll_comm *comm, int rank, int n)
{
    enum { PAST = 16384, BYTES = 5 * HUGE / 2 };
    char *all = aligned_alloc(HUGE, 3 * HUGE), *out = all + PAST;
    void *in = NULL, *odd = NULL, *handle = NULL;
    EXPECT(coll_mem_alloc(&odd, (size_t)(rank + 1) * 4096) == COLL_OK
               && coll_mem_alloc(&in, LONG) == COLL_OK
               && coll_comm_register(comm, out, BYTES, &handle) == COLL_OK,
           "no memory");
    for (int i = 0; i < 8; i++)
        EXPECT(
            coll_allreduce(in, out, BYTES / 4, COLL_F32, COLL_SUM, comm, NULL)
                == COLL_OK,
            "operation %d", i);
    const size_t each = heap_find(out, BYTES).bytes ? 3 * HUGE : 2 * HUGE;
    EXPECT(huge_bytes_of_all() >= (size_t)n * each,
           "%zu bytes of %d ranks on huge pages", huge_bytes_of_all(), n);
    EXPECT(coll_barrier(comm, NULL) == COLL_OK, "barrier"); /* all looked */
    EXPECT(coll_comm_deregister(comm, handle) == COLL_OK, "deregister");
    coll_mem_free(in);
    coll_mem_free(odd);
    free(all);
    return 0;
}

Test(huge_pages, are_under_what_others_map, .timeout = 60)
{
    static const char *const shm[] = {"COLL_TRANSPORT=shm",
                                      "COLL_CALIBRATE=off", NULL};
    if (!has_huge())
        cr_skip("this system has no huge pages for shared memory");
    cr_assert_eq(run_ranks(3, shm, sum_long), 0);
}

static bool is_shared(size_t bytes)
{
    void *x = aligned_alloc(65536, bytes);
    cr_assert_eq(heap_adopt(x, bytes), COLL_OK);
    const bool shared = heap_find(x, bytes).bytes == bytes;
    cr_assert_eq(heap_find((char *)x + 64, 64).bytes, shared ? bytes : 0);
    cr_assert_eq(heap_disown(x), COLL_OK);
    cr_assert_eq(heap_find(x, bytes).bytes, 0);
    free(x);
    return shared;
}

/* Of the test's own: places of a long block that are there, but not touched yet
 * (before Linux 5.14 they are; then this tells nothing). */
static double place_ns(void)
{
    enum { STEP = 65536, TRIES = 5 };
    double least = INFINITY;
    for (int t = 0; t < TRIES; t++) {
        struct timespec a, b;
        void *x;
        cr_assert_eq(coll_mem_alloc(&x, HUGE), COLL_OK);
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (size_t i = 64; i < HUGE; i += STEP)
            *(volatile char *)((char *)x + i) = 1;
        clock_gettime(CLOCK_MONOTONIC, &b);
        least = fmin(least, ((double)(b.tv_sec - a.tv_sec) * 1e9
                             + (double)(b.tv_nsec - a.tv_nsec))
                                / (HUGE / STEP));
        coll_mem_free(x);
    }
    return least;
}

Test(huge_pages, long_registered_memory_is_shared_unless_pages_are_dear)
{
    const double ns = place_ns();
    cr_expect(is_shared(65536));
    cr_expect(is_shared(4 << 20));
    if (ns < 1000 || ns > 3000)
        cr_expect_eq(is_shared(5 << 20), ns < 1000, "a page takes %g ns", ns);
}
