/* SPDX-License-Identifier: MIT */
/* Groups within groups for long vectors: on described machines by their text,
 * on random places by what must hold for any. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/topo.h"
#include "node/nest.h"

enum { MOST = 192 };

static void places_on(const char *machine, int n, struct node_place places[])
{
    char error[512] = "";
    coll_topo *topo = NULL;
    int pus[MOST];
    cr_assert_eq(coll_topo_parse(&topo, machine, "test", error, sizeof(error)),
                 COLL_OK, "%s", error);
    cr_assert(coll_topo_place(topo, n, pus));
    for (int r = 0; r < n; r++) {
        coll_topo_location at;
        cr_assert_eq(coll_topo_locate_pu(topo, pus[r], &at), COLL_OK);
        places[r] = (struct node_place){at.package, at.numa, at.cache};
    }
    coll_topo_free(topo);
}

/* Packages of one NUMA node have its price inside. Prices are 1, 2, 3 and 5. */
#define BOARD    "package:2 [numa] l3:2 core:4 pu:1"
#define QUARTERS "package:2 group:2 [numa] l3:2 core:4 pu:1"
#define ONES     "package:2 [numa] l3:1 core:8 pu:1"

/* clang-format off */
static const struct {
    const char *machine;
    int n;
    enum coll_kind kind;
    const char *text;
} machines[] = {
    {ONES, 2, ALLREDUCE, "as one"},
    {ONES, 2, BROADCAST, "as one"},
    {ONES, 4, ALLREDUCE, "2 (package) x 2 (machine)"},
    {ONES, 6, REDUCE, "as one"},
    {ONES, 8, REDUCE, "4 (package) x 2 (machine)"},
    {ONES, 4, REDUCE_SCATTER, "2 (package) x 2 (machine)"},
    {ONES, 5, ALLREDUCE, "as one"}, /* 3 and 2 */
    {ONES, 8, GATHER, "as one"},
    {ONES, 8, ALLTOALL, "as one"},
    {BOARD, 8, ALLREDUCE, "4 (package) x 2 (machine)"},
    {BOARD, 8, ALLGATHER, "2 (cache) x 2 (package) x 2 (machine)"},
    {BOARD, 12, ALLREDUCE, "3 (cache) x 2 (package) x 2 (machine)"},
    {BOARD, 12, REDUCE, "3 (cache) x 2 (package) x 2 (machine)"},
    {BOARD, 12, REDUCE_SCATTER, "3 (cache) x 2 (package) x 2 (machine)"},
    {BOARD, 12, BROADCAST, "3 (cache) x 2 (package) x 2 (machine)"},
    {BOARD, 14, ALLREDUCE, "7 (package) x 2 (machine)"}, /* 4 and 3 a cache */
    {BOARD, 15, ALLREDUCE, "as one"},
    {QUARTERS, 24, ALLREDUCE,
     "3 (cache) x 2 (numa) x 2 (package) x 2 (machine)"},
    {QUARTERS, 24, REDUCE, "3 (cache) x 4 (package) x 2 (machine)"},
    {QUARTERS, 16, BROADCAST,
     "2 (cache) x 2 (numa) x 2 (package) x 2 (machine)"},
    {"package:2 group:2 [numa] l3:1 core:2 pu:1", 8, ALLREDUCE,
     "2 (numa) x 2 (package) x 2 (machine)"},
    {"package:3 [numa] l3:2 core:3 pu:1", 18, ALLREDUCE,
     "3 (cache) x 2 (package) x 3 (machine), split"},
    {"package:3 [numa] l3:2 core:3 pu:1", 18, REDUCE,
     "3 (cache) x 2 (package) x 3 (machine)"},
    {"package:1 group:2 [numa] core:2 pu:1", 4, ALLREDUCE, "as one"},
    {"machine:server_1x32", 16, ALLREDUCE, "4 (cache) x 4 (machine), split"},
    {"machine:server_2x32", 20, ALLREDUCE, "10 (package) x 2 (machine)"},
    {"machine:server_2x32", 64, ALLREDUCE,
     "8 (cache) x 4 (package) x 2 (machine)"},
    {"machine:server_4x48", 192, ALLREDUCE,
     "8 (cache) x 6 (package) x 4 (machine), split"},
    {"machine:ft2000plus", 16, ALLREDUCE, "as one"},
    {"machine:ft2000plus", 64, BROADCAST,
     "4 (cache) x 2 (numa) x 8 (machine)"},
    {"machine:mt2000plus", 128, ALLREDUCE,
     "4 (cache) x 8 (numa) x 4 (machine), split"},
};
/* clang-format on */

Test(nest, machines_have_these_levels)
{
    struct node_place places[MOST];
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        struct nest nest[NKINDS];
        int place_of[MOST];
        char text[2 * NEST_TEXT_BYTES];
        places_on(machines[i].machine, machines[i].n, places);
        cr_assert_eq(nest_build(nest, place_of, places, machines[i].n),
                     COLL_OK);
        nest_print(&nest[machines[i].kind], text);
        strcat(text, nest[machines[i].kind].split ? ", split" : "");
        cr_expect_str_eq(text, machines[i].text, "%s on %d of %s: %s",
                         kind_names[machines[i].kind], machines[i].n,
                         machines[i].machine, text);
    }
}

static unsigned seed = 20240607;

static int below(int limit)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((uint64_t)seed * (unsigned)limit >> 32);
}

/* As many ranks in every cache, but for an odd one now and then, in any order,
 * and some of whose place little is known. */
static int random_places(struct node_place places[])
{
    const int packages = 1 + below(3), numas = 1 + below(3);
    const int caches = 1 + below(3), each = 1 + below(4);
    const int n = packages * numas * caches * each - (below(4) == 0);
    for (int r = 0; r < n; r++) {
        const int cache = r / each, numa = cache / caches;
        places[r] = (struct node_place){numa / numas, numa, cache};
    }
    if (below(4) == 0)
        places[below(n ? n : 1)].cache = -1;
    if (below(8) == 0)
        for (int r = 0; r < n; r++)
            places[r].package = -1;
    for (int r = n - 1; r > 0; r--) {
        const int other = below(r + 1);
        const struct node_place kept = places[r];
        places[r] = places[other];
        places[other] = kept;
    }
    return n;
}

static bool share(const struct node_place *a, const struct node_place *b,
                  enum node_span span)
{
    return span == SPAN_MACHINE
           || (span == SPAN_PACKAGE && a->package == b->package
               && a->package >= 0)
           || (span == SPAN_NUMA && a->numa == b->numa && a->numa >= 0)
           || (span == SPAN_CACHE && a->cache == b->cache && a->cache >= 0);
}

/* Groups are runs of positions, of those and only those who share it. */
static void check(const struct nest *t, const int place_of[],
                  const struct node_place places[], int n)
{
    int under = 1;
    for (int l = 0; l < t->depth; l++) {
        cr_assert_eq(t->under[l], under);
        cr_assert_geq(t->size[l], 2);
        under *= t->size[l];
        cr_assert(l == 0 || t->span[l] > t->span[l - 1]);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                cr_assert_eq(i / under == j / under,
                             share(&places[place_of[i]], &places[place_of[j]],
                                   t->span[l]),
                             "level %d: positions %d and %d", l, i, j);
    }
    cr_assert(t->depth == 0 || under == n);
    cr_assert(t->depth == 0 || t->span[t->depth - 1] == SPAN_MACHINE);
}

Test(nest, any_places_make_even_groups)
{
    cr_log_info("seed %u", seed);
    int deep = 0;
    for (int turn = 0; turn < 1000; turn++) {
        struct node_place places[MOST], renamed[MOST];
        struct nest nest[NKINDS], again[NKINDS];
        int place_of[MOST], place_of_again[MOST], seen[MOST] = {0};
        const int n = random_places(places);
        if (n < 1)
            continue;
        cr_assert_eq(nest_build(nest, place_of, places, n), COLL_OK);
        for (int i = 0; i < n; i++)
            cr_assert_eq(seen[place_of[i]]++, 0);
        for (int kind = 0; kind < NKINDS; kind++) {
            check(&nest[kind], place_of, places, n);
            deep += nest[kind].depth > 2;
            cr_assert(!nest[kind].depth || kind_reduces((enum coll_kind)kind)
                      || nest_spreads((enum coll_kind)kind));
        }
        for (int r = 0; r < n; r++)
            renamed[r] = (struct node_place){
                places[r].package < 0 ? -7 : 5 - places[r].package,
                places[r].numa < 0 ? -8 : (places[r].numa ^ 21) * 11,
                places[r].cache < 0 ? -9 : 1000 - places[r].cache};
        cr_assert_eq(nest_build(again, place_of_again, renamed, n), COLL_OK);
        cr_assert_eq(memcmp(place_of, place_of_again, (size_t)n * sizeof(int)),
                     0);
        for (int kind = 0; kind < NKINDS; kind++) {
            char text[NEST_TEXT_BYTES], text_again[NEST_TEXT_BYTES];
            nest_print(&nest[kind], text);
            nest_print(&again[kind], text_again);
            cr_assert_str_eq(text, text_again);
        }
    }
    cr_assert_gt(deep, 500, "%d", deep);
}

/* Within a group by rank, and groups by their first ranks. */
Test(nest, positions_go_by_the_first_ranks_of_groups)
{
    static const int caches[] = {3, 0, 3, 2, 0, 2, 1, 1};
    static const int want[] = {0, 2, 3, 5, 1, 4, 6, 7};
    struct node_place places[8];
    struct nest nest[NKINDS];
    int place_of[8];
    for (int r = 0; r < 8; r++)
        places[r] = (struct node_place){caches[r] / 2, 0, caches[r]};
    cr_assert_eq(nest_build(nest, place_of, places, 8), COLL_OK);
    cr_assert_eq(memcmp(place_of, want, sizeof(want)), 0);
}
