/* SPDX-License-Identifier: MIT */
/* Where ranks go on a machine, and what two of them share. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "coll/topo.h"
#include "topo.h"

Test(topo_places, links_are_those_of_the_outermost_level_crossed)
{
    coll_topo *topo = parse("pod:2 (5us 8GB/s) rack:2 (3us 2GB/s) "
                            "node:2 (1us 12GB/s) core:2 pu:2");
    const struct {
        int a, b;
        coll_topo_kind common;
        double latency, bandwidth;
    } cases[] = {
        {0,  0,  COLL_TOPO_PU,      0,    0   },
        {0,  1,  COLL_TOPO_CORE,    0,    0   },
        {1,  2,  COLL_TOPO_NUMA,    0,    0   },
        {3,  4,  COLL_TOPO_LEVEL,   1e-6, 12e9},
        {0,  15, COLL_TOPO_LEVEL,   3e-6, 2e9 },
        {15, 16, COLL_TOPO_CLUSTER, 5e-6, 2e9 },
        {31, 0,  COLL_TOPO_CLUSTER, 5e-6, 2e9 },
    };
    coll_topo_link link;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int common = coll_topo_common(topo, cases[i].a, cases[i].b);
        cr_assert_eq(
            coll_topo_link_between(topo, cases[i].a, cases[i].b, &link),
            COLL_OK);
        cr_expect_eq(coll_topo_get(topo, common)->kind, cases[i].common,
                     "case %zu: %s", i, coll_topo_name(topo, common));
        cr_expect_float_eq(link.latency_seconds, cases[i].latency, 1e-15);
        cr_expect_float_eq(link.bytes_per_second, cases[i].bandwidth, 1);
    }
    cr_expect_str_eq(coll_topo_name(topo, coll_topo_common(topo, 0, 8)), "pod");
    cr_expect_str_eq(coll_topo_name(topo, coll_topo_common(topo, 0, 4)),
                     "rack");
    cr_expect_eq(coll_topo_common(topo, 0, 32), -1);
    cr_expect_eq(coll_topo_link_between(topo, -1, 0, &link), COLL_ERR_INVALID);
    coll_topo_free(topo);
}

/* Ranks inside each object of the kind differ by at most one. */
static void check_even(const coll_topo *topo, int nranks, const int *pus,
                       coll_topo_kind kind)
{
    int least = nranks, most = 0;
    for (int i = 0; i < coll_topo_size(topo); i++) {
        const coll_topo_object *o = coll_topo_get(topo, i);
        int here = 0;
        if (o->kind != kind || o->end == i + 1)
            continue;
        for (int r = 0; r < nranks; r++) {
            const int pu = coll_topo_pu(topo, pus[r]);
            here += pu > i && pu < o->end;
        }
        least = here < least ? here : least;
        most = here > most ? here : most;
    }
    cr_assert(most - least <= 1, "%d ranks: %d to %d in a %s", nranks, least,
              most, coll_topo_kind_name(kind));
}

Test(topo_places, ranks_are_spread_evenly_each_with_its_own_core)
{
    static const char *const machines[] = {
        "machine:ft2000plus", "machine:knl_snc4", "machine:server_2x32",
        "node:3 (1us 1GB/s) package:2 core:5 pu:2"};
    for (size_t m = 0; m < sizeof(machines) / sizeof(machines[0]); m++) {
        coll_topo *topo = parse(machines[m]);
        const int cores = count(topo, COLL_TOPO_CORE);
        const int per_core = count(topo, COLL_TOPO_PU) / cores;
        int *pus = malloc(2 * (size_t)cores * sizeof(int));
        for (int n = 1; n <= 2 * cores; n++) {
            const int most = coll_topo_place(topo, n, pus);
            cr_assert_eq(most, (n + cores - 1) / cores, "%s, %d ranks",
                         machines[m], n);
            check_even(topo, n, pus, COLL_TOPO_HOST);
            check_even(topo, n, pus, COLL_TOPO_NUMA);
            check_even(topo, n, pus, COLL_TOPO_L3);
            check_even(topo, n, pus, COLL_TOPO_L2);
            check_even(topo, n, pus, COLL_TOPO_CORE);
            for (int r = 1; r < n; r++) /* neighbours together, none twice */
                cr_assert(per_core > 1 || n <= cores ? pus[r] > pus[r - 1]
                                                     : pus[r] >= pus[r - 1],
                          "%s, %d ranks: %d", machines[m], n, r);
        }
        free(pus);
        coll_topo_free(topo);
    }
}

Test(topo_places, ranks_go_only_where_they_may)
{
    coll_topo *topo = parse("{package{core{pu! pu!} core{pu! pu}}"
                            " package{core:3{pu:2}} numa=1GB}");
    coll_topo *none = parse("{core{pu!}}");
    int pus[4];
    cr_assert_eq(coll_topo_place(topo, 4, pus), 1);
    cr_expect_eq(pus[0], 3);
    cr_expect_eq(pus[1], 4);
    cr_expect_eq(pus[2], 6);
    cr_expect_eq(pus[3], 8);
    cr_expect_eq(coll_topo_place(none, 1, pus), 0);
    cr_expect_eq(coll_topo_place(topo, 0, pus), 0);
    cr_expect_eq(coll_topo_place(topo, -1, pus), 0);
    coll_topo_free(topo);
    coll_topo_free(none);
}

/* Of the threads of rank r: whether no two are on one core, and in how many
 * NUMA nodes they are; set: the first of these. */
static int nodes_of(const coll_topo *topo, const int *pus, int nthreads,
                    int *node)
{
    coll_topo_location at, before = {0};
    int nodes = 0;
    for (int t = 0; t < nthreads; t++, before = at) {
        cr_assert_eq(coll_topo_locate_pu(topo, pus[t], &at), COLL_OK);
        cr_assert(!t || at.core > before.core, "thread %d", t);
        nodes += !t || at.numa != before.numa;
        *node = t ? *node : at.numa;
    }
    return nodes;
}

Test(topo_places, threads_of_a_rank_stay_in_a_panel)
{
    /* The 64 cores of an FT-2000+ in 8 panels; 128 in 4 of an MT-2000+. */
    static const struct {
        const char *machine;
        int nranks, nthreads, nodes;
        int ranks_in_node; /* of neighbours; 0: several nodes each */
    } cases[] = {
        {"machine:ft2000plus",  1,  1,  1, 1},
        {"machine:ft2000plus",  1,  8,  1, 1},
        {"machine:ft2000plus",  1,  9,  2, 0},
        {"machine:ft2000plus",  1,  64, 8, 0},
        {"machine:ft2000plus",  2,  32, 4, 0},
        {"machine:ft2000plus",  4,  16, 2, 0},
        {"machine:ft2000plus",  4,  8,  1, 1},
        {"machine:ft2000plus",  8,  8,  1, 1},
        {"machine:ft2000plus",  8,  3,  1, 1},
        {"machine:ft2000plus",  16, 4,  1, 2},
        {"machine:ft2000plus",  32, 2,  1, 4},
        {"machine:ft2000plus",  64, 1,  1, 8},
        {"machine:ft2000plus",  3,  8,  1, 1},
        {"machine:ft2000plus",  5,  8,  1, 1},
        {"machine:ft2000plus",  9,  4,  1, 0},
        {"machine:mt2000plus",  4,  32, 1, 1},
        {"machine:mt2000plus",  8,  16, 1, 2},
        {"machine:server_2x32", 2,  32, 1, 1},
        {"machine:server_2x32", 1,  33, 2, 0},
        {"core:6 pu:2",         2,  3,  1, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        coll_topo *topo = parse(cases[i].machine);
        const int nranks = cases[i].nranks, n = cases[i].nthreads;
        int pus[128], node = -1;
        cr_assert_eq(coll_topo_place_threads(topo, nranks, n, pus), 1);
        for (int r = 0, first; r < nranks; r++) {
            cr_expect_eq(nodes_of(topo, pus + r * n, n, &first), cases[i].nodes,
                         "case %zu, rank %d", i, r);
            if (cases[i].ranks_in_node > 1)
                cr_expect_eq(first, r / cases[i].ranks_in_node);
            if (cases[i].ranks_in_node == 1)
                cr_expect_gt(first, node);
            node = first;
            cr_expect(!r || pus[r * n] > pus[r * n - 1], "rank %d", r);
        }
        coll_topo_free(topo);
    }
}

Test(topo_places, threads_are_spread_over_the_caches_of_their_node)
{
    coll_topo *topo = parse("machine:ft2000plus"); /* a cache for 4 cores */
    int pus[4];
    cr_assert_eq(coll_topo_place_threads(topo, 1, 2, pus), 1);
    cr_expect_eq(pus[0], 0);
    cr_expect_eq(pus[1], 4);
    coll_topo_free(topo);
    topo = parse("{package{core{pu! pu} core{pu! pu!} core:2{pu:2}}}");
    cr_assert_eq(coll_topo_place_threads(topo, 1, 3, pus), 1);
    cr_expect_eq(pus[0], 1);
    cr_expect_eq(pus[1], 4);
    cr_expect_eq(pus[2], 6);
    cr_expect_eq(coll_topo_place_threads(topo, 1, 4, pus), 0);
    cr_expect_eq(coll_topo_place_threads(topo, 2, 2, pus), 0);
    cr_expect_eq(coll_topo_place_threads(topo, 0, 1, pus), 0);
    cr_expect_eq(coll_topo_place_threads(topo, 1, 0, pus), 0);
    coll_topo_free(topo);
}

Test(topo_places, two_places_share_the_closest_thing)
{
    coll_topo *topo = parse("node:2 (1us 1GB/s) package:2 [numa(memory=1GB)] "
                            "l3:2(size=1MB) core:2 pu:2");
    static const coll_topo_share expected[] = {
        COLL_TOPO_SHARE_CORE,  COLL_TOPO_SHARE_CORE, COLL_TOPO_SHARE_CACHE,
        COLL_TOPO_SHARE_CACHE, COLL_TOPO_SHARE_NUMA, COLL_TOPO_SHARE_NUMA,
        COLL_TOPO_SHARE_NUMA,  COLL_TOPO_SHARE_NUMA, COLL_TOPO_SHARE_HOST,
        COLL_TOPO_SHARE_HOST};
    coll_topo_location first, other, spans;
    cr_assert_eq(coll_topo_locate_pu(topo, 0, &first), COLL_OK);
    for (int pu = 0; pu < 10; pu++) {
        cr_assert_eq(coll_topo_locate_pu(topo, pu, &other), COLL_OK);
        cr_expect_eq(coll_topo_shared(&first, &other), expected[pu], "%d", pu);
    }
    cr_assert_eq(coll_topo_locate_pu(topo, 16, &other), COLL_OK);
    cr_expect_eq(coll_topo_shared(&first, &other), COLL_TOPO_SHARE_NONE);
    cr_expect_eq(coll_topo_locate_pu(topo, 32, &other), COLL_ERR_INVALID);
    spans = first;
    spans.core = spans.cache = spans.numa = -1;
    cr_expect_eq(coll_topo_shared(&spans, &spans), COLL_TOPO_SHARE_PACKAGE);
    coll_topo_free(topo);
}

Test(topo_places, groups_have_their_lowest_rank_as_leader)
{
    /* Ranks of two hosts alternate; ranks 6 and 7 span both packages of
     * host 7. */
    const coll_topo_location where[] = {
        {7, 0,  0,  0,  0 },
        {9, 0,  0,  0,  0 },
        {7, 1,  1,  1,  4 },
        {9, 0,  0,  1,  2 },
        {7, 0,  0,  0,  1 },
        {9, 1,  1,  2,  4 },
        {7, -1, -1, -1, -1},
        {7, -1, -1, -1, -1},
    };
    enum { N = 8 };
    /* clang-format off */
    static const struct {
        coll_topo_share share;
        int ngroups, group[N], leaders[N];
    } cases[] = {
        {COLL_TOPO_SHARE_NONE, 1, {0, 0, 0, 0, 0, 0, 0, 0}, {0}},
        {COLL_TOPO_SHARE_HOST, 2, {0, 1, 0, 1, 0, 1, 0, 0}, {0, 1}},
        {COLL_TOPO_SHARE_PACKAGE, 6, {0, 1, 2, 1, 0, 3, 4, 5},
         {0, 1, 2, 5, 6, 7}},
        {COLL_TOPO_SHARE_NUMA, 6, {0, 1, 2, 1, 0, 3, 4, 5}, {0, 1, 2, 5, 6, 7}},
        {COLL_TOPO_SHARE_CACHE, 7, {0, 1, 2, 3, 0, 4, 5, 6},
         {0, 1, 2, 3, 5, 6, 7}},
        {COLL_TOPO_SHARE_CORE, 8, {0, 1, 2, 3, 4, 5, 6, 7},
         {0, 1, 2, 3, 4, 5, 6, 7}},
    };
    /* clang-format on */
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        int group[N], leaders[N];
        cr_assert_eq(coll_topo_group(where, N, cases[c].share, group, leaders),
                     cases[c].ngroups, "%s",
                     coll_topo_share_name(cases[c].share));
        for (int r = 0; r < N; r++)
            cr_expect_eq(group[r], cases[c].group[r], "case %zu rank %d", c, r);
        for (int g = 0; g < cases[c].ngroups; g++)
            cr_expect_eq(leaders[g], cases[c].leaders[g], "case %zu", c);
        cr_expect_eq(coll_topo_group(where, N, cases[c].share, NULL, NULL),
                     cases[c].ngroups);
    }
    cr_expect_eq(coll_topo_group(where, 0, COLL_TOPO_SHARE_HOST, NULL, NULL),
                 0);
}

/* hwloc counts CPUs of other numbers too: two sockets, threads 4 apart. */
Test(topo_places, indices_of_the_system_are_kept)
{
    coll_topo *topo = parse("Package:2 Core:2 PU:2(indexes=0,4,1,5,2,6,3,7)");
    static const int expected[] = {0, 4, 1, 5, 2, 6, 3, 7};
    for (int pu = 0; pu < 8; pu++)
        cr_expect_eq(coll_topo_get(topo, coll_topo_pu(topo, pu))->os_index,
                     expected[pu]);
    coll_topo_free(topo);
}
