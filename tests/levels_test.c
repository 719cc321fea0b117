/* SPDX-License-Identifier: MIT */
/* Groups of ranks for small collectives: on the machines of topo's table by
 * their text, and on random places by what must hold for any. And where
 * ranks are taken to be.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/topo.h"
#include "comm/here.h"
#include "node/levels.h"

static char *text_of(const struct node_levels *levels)
{
    const size_t length = node_levels_print(levels, NULL, 0);
    char *text = malloc(length + 1);
    cr_assert_eq(node_levels_print(levels, text, length + 1), length);
    cr_assert_eq(strlen(text), length);
    return text;
}

static struct node_levels build(const struct node_place *places, int n)
{
    struct node_levels levels;
    cr_assert_eq(node_levels_build(&levels, places, n), COLL_OK);
    return levels;
}

static void expect_text(const struct node_place *places, int n,
                        const char *expected)
{
    struct node_levels levels = build(places, n);
    char *text = text_of(&levels);
    cr_expect_str_eq(text, expected);
    free(text);
    node_levels_free(&levels);
}

/* Where n ranks would be bound on a described machine. */
static struct node_place *places_on(const char *machine, int n)
{
    char error[512] = "";
    coll_topo *topo = NULL;
    cr_assert_eq(coll_topo_parse(&topo, machine, "test", error, sizeof(error)),
                 COLL_OK, "%s", error);
    int *pus = malloc((size_t)n * sizeof(*pus));
    struct node_place *places = malloc((size_t)n * sizeof(*places));
    cr_assert(coll_topo_place(topo, n, pus));
    for (int r = 0; r < n; r++) {
        coll_topo_location at;
        cr_assert_eq(coll_topo_locate_pu(topo, pus[r], &at), COLL_OK);
        places[r] = (struct node_place){at.package, at.numa, at.cache};
    }
    free(pus);
    coll_topo_free(topo);
    return places;
}

/* clang-format off */
static const struct {
    const char *machine;
    int n;
    const char *text;
} machines[] = {
    {"machine:ft2000plus", 16,
     "16 ranks: 8 groups of 2 (numa) / 1 group of 8 (machine)"},
    {"machine:ft2000plus", 64,
     "64 ranks: 16 groups of 4 (cache) / 8 groups of 2 (numa) / "
     "1 group of 8 (machine)"},
    {"machine:mt2000plus", 16,
     "16 ranks: 4 groups of 4 (numa) / 1 group of 4 (machine)"},
    {"machine:mt2000plus", 128,
     "128 ranks: 32 groups of 4 (cache) / 4 groups of 8 (numa) / "
     "1 group of 4 (machine)"},
    {"machine:knl_snc4", 16,
     "16 ranks: 4 groups of 4 (numa) / 1 group of 4 (machine)"},
    {"machine:knl_snc4", 72,
     "72 ranks: 36 groups of 2 (cache) / 4 groups of 9 (numa) / "
     "1 group of 4 (machine)"},
    {"machine:knl_quad", 16,
     "16 ranks: 1 group of 16 (machine)"},
    {"machine:knl_quad", 68,
     "68 ranks: 34 groups of 2 (cache) / "
     "4 groups of 6 and 2 of 5 (part) / 1 group of 6 (machine)"},
    {"machine:server_2x32", 16,
     "16 ranks: 8 groups of 2 (cache) / 2 groups of 4 (package) / "
     "1 group of 2 (machine)"},
    {"machine:server_2x32", 64,
     "64 ranks: 8 groups of 8 (cache) / 2 groups of 4 (package) / "
     "1 group of 2 (machine)"},
    {"machine:server_4x48", 16,
     "16 ranks: 4 groups of 4 (package) / 1 group of 4 (machine)"},
    {"machine:server_4x48", 192,
     "192 ranks: 24 groups of 8 (cache) / 4 groups of 6 (package) / "
     "1 group of 4 (machine)"},
    {"package:4 l3:2 core:4 pu:1", 24, /* 3 levels have the same price */
     "24 ranks: 4 groups of 6 (package) / 1 group of 4 (machine)"},
};
/* clang-format on */

Test(levels, machines_have_these_groups)
{
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        struct node_place *places =
            places_on(machines[i].machine, machines[i].n);
        expect_text(places, machines[i].n, machines[i].text);
        free(places);
    }
}

enum { UNKNOWN = -1 };

static struct node_place *places_of(int n, struct node_place place)
{
    struct node_place *places = malloc((size_t)n * sizeof(*places));
    for (int r = 0; r < n; r++)
        places[r] = place;
    return places;
}

/* clang-format off */
static const struct {
    int n;
    const char *text;
} unknown[] = {
    {1,
     "1 rank: 1 group of 1 (machine)"},
    {2,
     "2 ranks: 1 group of 2 (machine)"},
    {16,
     "16 ranks: 1 group of 16 (machine)"},
    {17,
     "17 ranks: 1 group of 5 and 3 of 4 (part) / 1 group of 4 (machine)"},
    {64,
     "64 ranks: 8 groups of 8 (part) / 1 group of 8 (machine)"},
    {192,
     "192 ranks: 10 groups of 14 and 4 of 13 (part) / "
     "1 group of 14 (machine)"},
    {256,
     "256 ranks: 16 groups of 16 (part) / 1 group of 16 (machine)"},
    {4096,
     "4096 ranks: 256 groups of 16 (part) / 16 groups of 16 (part) / "
     "1 group of 16 (machine)"},
};
/* clang-format on */

Test(levels, unknown_places_are_split_by_number)
{
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        const int n = unknown[i].n;
        struct node_place *places =
            places_of(n, (struct node_place){UNKNOWN, UNKNOWN, UNKNOWN});
        expect_text(places, n, unknown[i].text);
        for (int r = 0; r < n; r++) /* all alike is no better than unknown */
            places[r] = (struct node_place){3, 1, 4};
        expect_text(places, n, unknown[i].text);
        free(places);
    }
}

Test(levels, what_is_known_of_a_rank_is_used)
{
    struct node_place places[32];
    /* Ranks 8 to 15 may move between the caches of NUMA node 1. */
    for (int r = 0; r < 16; r++)
        places[r] = (struct node_place){0, r / 8, r < 8 ? r / 4 : UNKNOWN};
    expect_text(places, 16,
                "16 ranks: 1 group of 8 and 2 of 4 (cache) / "
                "1 group of 3 (machine)");
    /* Ranks 16 to 31 may go anywhere, and are as many as make four groups. */
    for (int r = 0; r < 32; r++)
        places[r] = r < 16 ? (struct node_place){0, 0, r / 4}
                           : (struct node_place){UNKNOWN, UNKNOWN, UNKNOWN};
    expect_text(places, 32,
                "32 ranks: 1 group of 16 and 4 of 4 (cache) / "
                "1 group of 5 (machine)");
}

Test(levels, what_is_not_known_to_be_near_counts_as_far)
{
    struct node_place places[6];
    for (int r = 0; r < 6; r++)
        places[r] = (struct node_place){r / 3, r / 3, r / 3};
    expect_text(places, 6,
                "6 ranks: 2 groups of 3 (package) / 1 group of 2 (machine)");
    for (int r = 0; r < 6; r++)
        places[r] = (struct node_place){r / 3, UNKNOWN, UNKNOWN};
    expect_text(places, 6, "6 ranks: 1 group of 6 (machine)");
}

Test(levels, a_cache_of_several_numa_nodes_is_no_level)
{
    struct node_place places[64];
    for (int r = 0; r < 64; r++)
        places[r] = (struct node_place){r / 32, r / 8, r / 32};
    expect_text(places, 64,
                "64 ranks: 8 groups of 8 (numa) / 2 groups of 4 (package) / "
                "1 group of 2 (machine)");
}

static void expect_members(const struct node_levels *levels, int rank,
                           const char *expected)
{
    struct node_membership at[NODE_LEVELS_MAX];
    char text[256] = "";
    const int k = node_levels_of(levels, rank, at);
    for (int l = 0; l < k; l++) {
        for (int i = 0; i < at[l].nmembers; i++)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d ",
                     at[l].members[i]);
        strcat(text, at[l].leads ? "leads; " : "follows; ");
    }
    cr_expect_str_eq(text, expected, "rank %d: %s", rank, text);
}

Test(levels, a_rank_knows_its_groups)
{
    struct node_place places[16];
    for (int r = 0; r < 16; r++) /* dealt to the caches, as cards are */
        places[r] = (struct node_place){0, 0, 3 - r % 4};
    struct node_levels levels = build(places, 16);
    expect_members(&levels, 0, "0 4 8 12 leads; 0 1 2 3 leads; ");
    expect_members(&levels, 2, "2 6 10 14 leads; 0 1 2 3 follows; ");
    expect_members(&levels, 14, "2 6 10 14 follows; ");
    node_levels_free(&levels);
    levels = build(places, 1);
    expect_members(&levels, 0, "0 leads; ");
    node_levels_free(&levels);
}

Test(levels, parts_are_of_neighbours)
{
    struct node_place *places = places_of(17, (struct node_place){0, 0, 0});
    struct node_levels levels = build(places, 17);
    expect_members(&levels, 0, "0 1 2 3 4 leads; 0 5 9 13 leads; ");
    expect_members(&levels, 9, "9 10 11 12 leads; 0 5 9 13 follows; ");
    expect_members(&levels, 16, "13 14 15 16 follows; ");
    node_levels_free(&levels);
    free(places);
}

Test(levels, text_is_cut_like_snprintf)
{
    const struct node_place places[2] = {
        {0, 0, 0},
        {0, 0, 1}
    };
    const char whole[] = "2 ranks: 1 group of 2 (machine)";
    struct node_levels levels = build(places, 2);
    char text[sizeof(whole) + 1];
    for (size_t bytes = 0; bytes <= sizeof(text); bytes++) {
        memset(text, '#', sizeof(text));
        cr_expect_eq(node_levels_print(&levels, text, bytes),
                     sizeof(whole) - 1);
        const size_t kept = bytes < sizeof(whole) ? bytes : sizeof(whole);
        if (kept) {
            cr_expect_eq(strncmp(text, whole, kept - 1), 0);
            cr_expect_eq(text[kept - 1], '\0');
        }
        for (size_t i = kept; i < sizeof(text); i++)
            cr_expect_eq(text[i], '#');
    }
    node_levels_free(&levels);
}

Test(levels, too_many_ranks_are_refused)
{
    const int n = NODE_RANKS_MAX + 1;
    struct node_place *places = places_of(n, (struct node_place){0, 0, 0});
    struct node_levels levels;
    cr_expect_eq(node_levels_build(&levels, places, n), COLL_ERR_UNSUPPORTED);
    expect_text(places, n - 1,
                "65536 ranks: 4096 groups of 16 (part) / "
                "256 groups of 16 (part) / 16 groups of 16 (part) / "
                "1 group of 16 (machine)");
    free(places);
}

/* What must hold for any places. Ranks of which the same is unknown count as
 * together. */
static bool together(const char *what, const struct node_place *a,
                     const struct node_place *b)
{
    if (!strcmp(what, "machine") || !strcmp(what, "part"))
        return true;
    if (a->package != b->package)
        return false;
    if (!strcmp(what, "package"))
        return true;
    return a->numa == b->numa
           && (!strcmp(what, "numa") || a->cache == b->cache);
}

static void check_group(const struct node_level *level, int g,
                        const struct node_place *places)
{
    const int *members = &level->members[level->first[g]];
    const int size = level->first[g + 1] - level->first[g];
    cr_assert(size >= 1 && size <= NODE_GROUP_MAX, "%d members", size);
    for (int i = 0; i < size; i++) {
        cr_assert_eq(level->group_of[members[i]], g);
        cr_assert(i == 0 || members[i] > members[i - 1]);
        cr_assert(together(level->what, &places[members[i]], &places[*members]),
                  "ranks %d and %d do not share a %s", *members, members[i],
                  level->what);
    }
    if (g > 0) /* groups in the order of their leaders */
        cr_assert_gt(*members, level->members[level->first[g - 1]]);
}

/* goes_on[r] says who must be in this level, then who must be in the next. */
static void check_level(const struct node_level *level, int n, bool *goes_on,
                        const struct node_place *places)
{
    int members = 0;
    for (int r = 0; r < n; r++) {
        cr_assert_eq(level->group_of[r] >= 0, goes_on[r], "rank %d", r);
        members += goes_on[r];
        goes_on[r] = false;
    }
    cr_assert_eq(level->nmembers, members);
    cr_assert_eq(level->first[0], 0);
    cr_assert_eq(level->first[level->ngroups], members);
    cr_assert(members == 1 || level->ngroups < members, "nobody meets anybody");
    for (int g = 0; g < level->ngroups; g++) {
        check_group(level, g, places);
        goes_on[level->members[level->first[g]]] = true;
    }
}

static void check_memberships(const struct node_levels *levels)
{
    struct node_membership at[NODE_LEVELS_MAX];
    for (int r = 0; r < levels->n; r++) {
        const int k = node_levels_of(levels, r, at);
        cr_assert(k >= 1 && k <= levels->nlevels);
        for (int l = 0; l < k; l++) {
            cr_assert_eq(at[l].leads, at[l].members[0] == r);
            cr_assert(at[l].leads || l == k - 1, "only leaders go on");
        }
        cr_assert(!at[k - 1].leads || k == levels->nlevels, "all of them do");
    }
}

static void check(const struct node_levels *levels,
                  const struct node_place *places)
{
    const int n = levels->n, top = levels->nlevels - 1;
    bool *goes_on = malloc((size_t)n * sizeof(*goes_on));
    for (int r = 0; r < n; r++)
        goes_on[r] = true;
    cr_assert(levels->nlevels <= 3, "%d ranks: %d levels", n, levels->nlevels);
    for (int l = 0; l <= top; l++)
        check_level(&levels->level[l], n, goes_on, places);
    cr_assert_eq(levels->level[top].ngroups, 1);
    cr_assert_str_eq(levels->level[top].what, "machine");
    check_memberships(levels);
    free(goes_on);
}

static void check_same(const struct node_levels *a, const struct node_levels *b)
{
    cr_assert_eq(a->nlevels, b->nlevels);
    for (int l = 0; l < a->nlevels; l++) {
        const struct node_level *x = &a->level[l], *y = &b->level[l];
        cr_assert_str_eq(x->what, y->what);
        cr_assert_eq(x->nmembers, y->nmembers);
        cr_assert_eq(x->ngroups, y->ngroups);
        cr_assert_arr_eq(x->group_of, y->group_of, (size_t)a->n * sizeof(int));
        cr_assert_arr_eq(x->members, y->members,
                         (size_t)x->nmembers * sizeof(int));
    }
}

static unsigned seed = 20240607;

static int below(int limit)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((uint64_t)seed * (unsigned)limit >> 32);
}

/* Machines of any shape with holes in what is known, or pure noise; ranks in
 * order or not. */
static void random_places(struct node_place *places, int n)
{
    const int packages = 1 + below(4), numas = 1 + below(4);
    const int caches = 1 + below(8), holes = below(3) ? 0 : 1 + below(50);
    const bool noise = below(4) == 0, in_order = below(2) == 0;
    const int all = packages * numas * caches;
    for (int r = 0; r < n; r++) {
        const int cache = in_order ? (int)((int64_t)r * all / n) : below(all);
        places[r] =
            (struct node_place){cache / caches / numas, cache / caches, cache};
        if (noise)
            places[r] = (struct node_place){below(packages), below(numas),
                                            below(caches)};
        if (below(100) < holes)
            places[r].cache = -1 - below(5);
        if (below(100) < holes)
            places[r].numa = UNKNOWN;
        if (below(100) < holes)
            places[r].package = UNKNOWN;
    }
}

/* Another name for every index, known ones staying known. */
static void rename_places(struct node_place *places, int n)
{
    for (int r = 0; r < n; r++) {
        struct node_place *p = &places[r];
        p->package = p->package < 0 ? -7 : (p->package ^ 5) * 3;
        p->numa = p->numa < 0 ? -8 : (p->numa ^ 21) * 11;
        p->cache = p->cache < 0 ? -9 : 1000 - p->cache;
    }
}

Test(levels, any_places_make_a_sound_hierarchy)
{
    enum { TURNS = 1000, MOST = 256 };
    struct node_place places[MOST], renamed[MOST];
    cr_log_info("seed %u", seed);
    for (int turn = 0; turn < TURNS; turn++) {
        const int n = turn < MOST ? turn + 1 : 1 + below(MOST);
        random_places(places, n);
        struct node_levels levels = build(places, n);
        for (int r = 0; r < n; r++) /* as levels.h has it: one unknown */
            places[r].cache = places[r].cache < 0 ? UNKNOWN : places[r].cache;
        check(&levels, places);
        memcpy(renamed, places, sizeof(renamed));
        rename_places(renamed, n);
        struct node_levels again = build(renamed, n);
        check_same(&levels, &again);
        node_levels_free(&levels);
        node_levels_free(&again);
    }
}

/* Where ranks are. Settings are read once, so each case has its own process. */

static void use_cluster(const char *text)
{
    setenv("COLL_CLUSTER", text, 1);
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("HWLOC_XMLFILE");
}

static void expect_described(const char *cluster, const char *machine, int n)
{
    use_cluster(cluster);
    struct node_place *expected = places_on(machine, n);
    for (int r = 0; r < n; r++) {
        struct node_place place;
        here_place(&place, r, n);
        cr_expect_eq(memcmp(&place, &expected[r], sizeof(place)), 0,
                     "rank %d: %d %d %d", r, place.package, place.numa,
                     place.cache);
    }
    free(expected);
}

Test(places, ranks_sit_on_the_described_machine)
{
    expect_described("machine:knl_snc4", "machine:knl_snc4", 50);
}

Test(places, in_a_cluster_ranks_sit_on_its_first_host)
{
    expect_described("pod:3 (2us 1GB/s) node:2 (1us 1GB/s) machine:server_2x32",
                     "machine:server_2x32", 33);
}

Test(places, more_ranks_than_cores_share_them)
{
    expect_described("machine:ft2000plus", "machine:ft2000plus", 150);
}

/* Ranks sit where this thread does: on any of its CPUs, and on one. */
static void expect_real(const char *cluster)
{
    cpu_set_t all, one;
    coll_topo *topo;
    use_cluster(cluster);
    cr_assert_eq(coll_topo_discover(&topo, NULL, 0), COLL_OK);
    cr_assert_eq(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    for (int bound = 0; bound < 2; bound++) {
        coll_topo_location at;
        struct node_place place = {-9, -9, -9};
        cr_assert_eq(sched_setaffinity(0, sizeof(all), bound ? &one : &all), 0);
        coll_topo_locate(topo, &at);
        here_place(&place, 1, 2);
        cr_expect_eq(place.package, at.package);
        cr_expect_eq(place.numa, at.numa);
        cr_expect_eq(place.cache, at.cache);
        cr_expect(!bound || place.package >= 0);
    }
    coll_topo_free(topo);
}

Test(places, without_a_cluster_affinity_says_it)
{
    expect_real("");
}

Test(places, a_cluster_of_bare_hosts_says_nothing)
{
    expect_real("node:4 (1us 10GB/s)");
}

Test(places, a_cluster_that_does_not_parse_says_nothing)
{
    expect_real("node:4 machine:nonesuch");
}
