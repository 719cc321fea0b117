/* SPDX-License-Identifier: MIT */
/* Machines: their table, their notation, where ranks go, what is discovered.
 *
 * The notation is checked by going round: what is printed must parse to an
 * equal machine. Bad input must name the very line and column. What depends on
 * this host (affinity, hwloc's variables) runs in a child.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll/topo.h"
#include "machine.h"

static coll_topo *parse(const char *text)
{
    char error[512] = "";
    coll_topo *topo = NULL;
    const coll_status status =
        coll_topo_parse(&topo, text, "test", error, sizeof(error));
    cr_assert_eq(status, COLL_OK, "%s: %s", text, error);
    return topo;
}

static char *notation(const coll_topo *topo)
{
    const size_t length = coll_topo_print_notation(topo, NULL, 0);
    char *text = malloc(length + 1);
    cr_assert_eq(coll_topo_print_notation(topo, text, length + 1), length);
    cr_assert_eq(strlen(text), length);
    return text;
}

static void check_round_trip(const coll_topo *topo)
{
    char *text = notation(topo);
    coll_topo *again = parse(text);
    cr_assert(coll_topo_equal(topo, again), "%s", text);
    char *second = notation(again);
    cr_assert_str_eq(text, second);
    free(second);
    free(text);
    coll_topo_free(again);
}

static int count(const coll_topo *topo, coll_topo_kind kind)
{
    return coll_topo_count(topo, kind);
}

Test(topo, machines_of_the_table_have_their_counts)
{
    const struct {
        const char *name;
        int packages, numas, groups, l3s, l2s, cores, pus;
    } expected[] = {
        {"ft2000plus",  1, 8, 0, 0,  16,  64,  64 },
        {"mt2000plus",  1, 4, 0, 0,  32,  128, 128},
        {"sw26010",     1, 4, 0, 0,  0,   260, 260},
        {"knl_snc4",    1, 8, 0, 0,  36,  72,  288},
        {"knl_quad",    1, 2, 0, 0,  34,  68,  272},
        {"server_1x32", 1, 1, 0, 4,  32,  32,  64 },
        {"server_2x32", 2, 2, 0, 8,  64,  64,  128},
        {"server_4x48", 4, 4, 0, 24, 192, 192, 384},
    };
    coll_topo_machine machine;
    int i = 0;
    for (; coll_topo_machine_get(i, &machine); i++) {
        char text[64];
        snprintf(text, sizeof(text), "machine:%s", machine.name);
        coll_topo *topo = parse(text);
        cr_assert_str_eq(machine.name, expected[i].name);
        cr_expect_eq(count(topo, COLL_TOPO_HOST), 1, "%s", text);
        cr_expect_eq(count(topo, COLL_TOPO_PACKAGE), expected[i].packages);
        cr_expect_eq(count(topo, COLL_TOPO_NUMA), expected[i].numas, "%s",
                     text);
        cr_expect_eq(count(topo, COLL_TOPO_GROUP), expected[i].groups);
        cr_expect_eq(count(topo, COLL_TOPO_L3), expected[i].l3s, "%s", text);
        cr_expect_eq(count(topo, COLL_TOPO_L2), expected[i].l2s, "%s", text);
        cr_expect_eq(count(topo, COLL_TOPO_CORE), expected[i].cores, "%s",
                     text);
        cr_expect_eq(count(topo, COLL_TOPO_PU), expected[i].pus, "%s", text);
        cr_expect_not(coll_topo_is_this_host(topo));
        cr_expect(*machine.source);
        coll_topo_free(topo);
    }
    cr_assert_eq(i, (int)(sizeof(expected) / sizeof(expected[0])));
}

Test(topo, fast_memory_of_a_knl_holds_no_cores)
{
    coll_topo *topo = parse("machine:knl_snc4");
    int with_cores = 0;
    for (int i = 0; i < coll_topo_size(topo); i++) {
        const coll_topo_object *o = coll_topo_get(topo, i);
        if (o->kind != COLL_TOPO_NUMA)
            continue;
        cr_expect_eq(o->bytes, o->end > i + 1 ? 24000000000 : 4000000000);
        with_cores += o->end > i + 1;
    }
    cr_assert_eq(with_cores, 4);
    coll_topo_free(topo);
}

static const char *const valid[] = {
    "supernode:4 (3us 3GB/s) node:256 (1us 12GB/s) machine:sw26010",
    "node:3",
    "node:1 (0.7us 100Gb/s)",
    "a:2 (1.1us 3.3333GB/s) b-2:3 (170ns 1e10B/s) c_3:2 (0s 1kB/s) pu:2",
    "package:2 core:32",
    "Package:2 L3Cache:2(size=32MB) Core:2 PU:2(indexes=2*2:1*2)",
    "package:1 [numa(memory=16GB)] [numa(memory=1GiB)] core:4",
    "numa:2(memory=64GB) package:2 l2:2(size=1MB) core:2 pu:2",
    "{package{numa=64GB{core:4{pu:2}}}}",
    "{package@0{core@0{pu@0 pu@4} core@1{pu@1! pu@5!}}"
    " package@1{core@0{pu@2 pu@6} core@1{pu@3 pu@7}}}",
    "{numa=1GB{core} numa=2GB{core}}",
    "{numa=1234567B numa{l3=1000{core} group{core:2} core}}",
    "# a comment\n  node:2   # two of them\n(1us\n 1GB/s ) # and the inside\n"
    "core:2 # end",
    "machine:ft2000plus",
    "machine:mt2000plus",
    "machine:sw26010",
    "machine:knl_snc4",
    "machine:knl_quad",
    "pod:3 (5us 1GB/s) node:5 (2us 2GB/s) machine:server_2x32",
};
enum { NVALID = sizeof(valid) / sizeof(valid[0]) };

Test(topo, what_is_printed_parses_to_an_equal_machine)
{
    for (int i = 0; i < NVALID; i++) {
        coll_topo *topo = parse(valid[i]);
        check_round_trip(topo);
        coll_topo_free(topo);
    }
}

Test(topo, the_notation_is_short_for_regular_machines)
{
    coll_topo *topo = parse(valid[0]);
    char *text = notation(topo);
    cr_assert_str_eq(text, "supernode:4 (3us 3GB/s) node:256 (1us 12GB/s) "
                           "{package{numa:4=8GB{core:65{pu}}}}");
    cr_assert_eq(count(topo, COLL_TOPO_HOST), 1024);
    cr_assert_eq(count(topo, COLL_TOPO_LEVEL), 4);
    cr_assert_eq(count(topo, COLL_TOPO_PU), 1024 * 260);
    free(text);
    coll_topo_free(topo);
}

Test(topo, the_tree_for_people_shows_equal_neighbours_once)
{
    coll_topo *topo = parse("node:2 (1us 1GB/s) package:2 core:3");
    char text[512], cut[8];
    const size_t length = coll_topo_print_tree(topo, text, sizeof(text));
    cr_assert_str_eq(text,
                     "cluster: 2 host, 4 package, 2 numa, 12 core, 12 pu\n"
                     "  2 x node (1us 1GB/s)\n"
                     "    numa 0\n"
                     "      2 x package\n"
                     "        3 x core\n"
                     "          pu\n");
    cr_assert_eq(coll_topo_print_tree(topo, cut, sizeof(cut)), length);
    cr_assert_str_eq(cut, "cluster");
    coll_topo_free(topo);
}

Test(topo, sizes_that_are_not_stated_are_unknown)
{
    coll_topo *topo = parse("numa:2 l3:1 l2:2 core:2 pu:2");
    char *text = notation(topo);
    cr_assert_str_eq(text, "{l3:2{numa{l2:2{core:2{pu:2}}}}}");
    free(text);
    coll_topo_free(topo);
}

Test(topo, equal_means_all_of_it)
{
    static const char *const different[] = {
        "node:2 (1us 1GB/s) core:2",
        "node:2 (2us 1GB/s) core:2",
        "node:2 (1us 2GB/s) core:2",
        "nodes:2 (1us 1GB/s) core:2",
        "node:2 (1us 1GB/s) core:4",
        "node:2 (1us 1GB/s) {core:2}",
        "{core{pu@3}}",
        "{core{pu@4}}",
        "{core{pu@4!}}",
        "{l2=4kB{core}}",
        "{l2=5kB{core}}",
        "{l3=5kB{core}}",
    };
    enum { N = sizeof(different) / sizeof(different[0]) };
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            coll_topo *a = parse(different[i]), *b = parse(different[j]);
            cr_expect_eq(coll_topo_equal(a, b), i == j, "%s and %s",
                         different[i], different[j]);
            coll_topo_free(a);
            coll_topo_free(b);
        }
}

/* clang-format off */
static const struct {
    const char *text, *error;
} bad[] = {
    {"", "1:1: an empty description"},
    {" # only this\n", "2:1: an empty description"},
    {"node", "1:5: expected ':' and a count after node, found the end"},
    {"node:", "1:6: expected count from 1 to 1048576, found the end"},
    {"node:0", "1:6: 0 is outside the valid count"},
    {"node:-3", "1:6: expected count from 1 to 1048576, found '-'"},
    {"node:99999999999999999999999999", "1:6: 999999999999999999999999 is out"},
    {"node:2 (3 3GB/s)", "1:10: \"\" is no unit of a latency"},
    {"node:2 (3lightyears 1GB/s)", "1:10: \"lightyears\" is no unit"},
    {"node:2 (3us)", "1:12: expected a bandwidth (3GB/s, 100Gb/s), found ')'"},
    {"node:2 (3us 0GB/s)", "1:13: the bandwidth must be above 0"},
    {"node:2 (3us 1e999GB/s)", "1:13: a number too large"},
    {"node:2 (3us 3GB/s", "1:18: expected ')' after the link"},
    {"node:2\nnode:3", "2:1: two levels have the name node"},
    {"pakage:2 core:2", "1:1: \"pakage\" is too much like package"},
    {"node:2 machine:sw26011",
     "1:16: \"sw26011\" is no machine, did you mean sw26010?; valid are "
     "ft2000plus, mt2000plus, sw26010,"},
    {"node:2 machine:", "1:16: expected the name of a machine"},
    {"node:2 machine:no/such.xml", "1:16: cannot read no/such.xml"},
    {"machine:sw26010 core:2", "1:17: nothing may follow the machine"},
    {"# first\nnode:2\n  package:2 cores:4",
     "3:13: \"cores\" is no part of a machine; did you mean core?"},
    {"package:2 core", "1:15: expected ':' and a count after core"},
    {"core:2 pu:2 core:2", "1:13: nothing is inside a pu"},
    {"package:100 core:100", "1:18: more than 4096 PUs in a node"},
    {"core:2(colour=3)", "1:8: \"colour\" is none of size, memory"},
    {"core:2(size=3furlong)", "1:14: \"furlong\" is no unit of a size"},
    {"l2:2(size=99999999999999TB) core:1", "1:11: a size above 8 PiB"},
    {"package:1 [core] core:2", "1:12: only numa can stand in brackets"},
    {"package:1 [numa core:2", "1:17: expected ']', found 'c'"},
    {"core:2 package:2", "1:8: only pu can be inside a core"},
    {"package:2 l2:2 package:2", "1:16: package inside package"},
    {"pu:2(indexes=5,5)", "1:1: indexes that are not each another one"},
    {"{core", "1:1: this { has no }"},
    {"{}", "1:1: no core inside this { }"},
    {"{numa=1GB}", "1:1: no core inside this { }"},
    {"{package}", "1:2: a package without a core inside"},
    {"{pu}", "1:2: a pu must be inside a core"},
    {"{core{l2{core}}}", "1:7: a core can hold only pu, not l2"},
    {"{core{pu{pu}}}", "1:9: nothing is inside a pu"},
    {"{core:2@1}", "1:8: an index is for one"},
    {"{l2@1{core}}", "1:4: an index is for one"},
    {"{core=1GB}", "1:6: only numa, l3 and l2 have a size"},
    {"{core!}", "1:6: only a pu can be marked"},
    {"{core{pu@1 pu@1}}", "1:1: two PUs have the index 1"},
    {"{core} core", "1:8: nothing may follow the machine"},
    {"{core:1048576{pu:1048576}}", "1:2: more than 4194304 objects"},
    {"node:1048576 core:2 pu:2", "1:1: the cluster has more than"},
    {"a:1048576 b:1048576 c:1048576 d:1048576 e:1048576", "1:1: the cluster"},
    {"a:1 b:1 c:1 d:1 e:1 f:1 g:1 h:1 i:1", "1:33: more than 8 levels"},
    {"{{core}}", "1:2: expected a part of a machine or '}', found '{'"},
    {"node:2 \x01",
     "1:8: expected a level (node:256) or a part of a machine, "
     "found \\x01"},
    {"a23456789012345678901234567890123:2", "1:1: a name longer than 31"},
};
/* clang-format on */

Test(topo, errors_name_line_and_column)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char error[512] = "", expected[256];
        coll_topo *topo = NULL;
        snprintf(expected, sizeof(expected), "spec:%s", bad[i].error);
        cr_expect_eq(
            coll_topo_parse(&topo, bad[i].text, "spec", error, sizeof(error)),
            COLL_ERR_INVALID, "%s", bad[i].text);
        cr_expect_null(topo, "%s", bad[i].text);
        cr_expect(!strncmp(error, expected, strlen(expected)),
                  "\"%s\"\n  gives    %s\n  expected %s", bad[i].text, error,
                  expected);
        cr_expect_eq(coll_topo_parse(&topo, bad[i].text, "spec", NULL, 0),
                     COLL_ERR_INVALID);
    }
}

static void parse_anything(const char *text)
{
    char error[512] = "";
    coll_topo *topo = NULL;
    const coll_status status =
        coll_topo_parse(&topo, text, "fuzz", error, sizeof(error));
    if (status) {
        cr_assert(status == COLL_ERR_INVALID && !topo, "%s: %s", text, error);
        cr_assert(!strncmp(error, "fuzz:", 5) && strlen(error) > 9, "%s",
                  error);
    } else if (coll_topo_size(topo) < 5000) {
        check_round_trip(topo);
    }
    coll_topo_free(topo);
}

Test(topo, every_truncated_text_parses_or_says_why)
{
    for (int i = 0; i < NVALID; i++)
        for (size_t length = 0; length <= strlen(valid[i]); length++) {
            char *text = strndup(valid[i], length);
            parse_anything(text);
            free(text);
        }
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* One change of the text: a letter, a piece of another valid text put in, a
 * cut, a piece doubled. */
static void mutate(char text[2048], uint64_t *seed)
{
    static const char letters[] = "{}()[]:@=!# \n09.eunsGB/pac\x80";
    const size_t length = strlen(text);
    const size_t at = next_random(seed) % (length + 1);
    const size_t piece = next_random(seed) % 12;
    const char *other = valid[next_random(seed) % NVALID];
    char *tail = strdup(text + at);
    other += next_random(seed) % strlen(other);
    text[at] = '\0';
    switch (next_random(seed) % 4) {
    case 0:
        text[at] = letters[next_random(seed) % (sizeof(letters) - 1)];
        text[at + 1] = '\0';
        strcat(text, tail + (*tail != 0));
        break;
    case 1:
        strcat(strncat(text, other, piece), tail);
        break;
    case 2:
        strcat(text, tail + (piece < strlen(tail) ? piece : strlen(tail)));
        break;
    default:
        strcat(strncat(text, tail, piece), tail);
    }
    free(tail);
}

Test(topo, ten_thousand_mutated_texts_parse_or_say_why, .timeout = 60)
{
    uint64_t seed = 20261121;
    for (int i = 0; i < 10000; i++) {
        char text[2048];
        /* The first makes half a million objects; the rest are small. */
        const int base = 1 + (int)(next_random(&seed) % (NVALID - 1));
        snprintf(text, sizeof(text), "%s", valid[base]);
        for (int n = 1 + (int)(next_random(&seed) % 4); n > 0; n--)
            mutate(text, &seed);
        parse_anything(text);
    }
}

Test(topo, links_are_those_of_the_outermost_level_crossed)
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

Test(topo, ranks_are_spread_evenly_each_with_its_own_core)
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

Test(topo, ranks_go_only_where_they_may)
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

Test(topo, two_places_share_the_closest_thing)
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

Test(topo, groups_have_their_lowest_rank_as_leader)
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

/* Runs the claim in a child, as it changes the process; 0 is success. */
static int in_child(int (*claim)(void))
{
    int status = -1;
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (!child)
        _exit(claim());
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int this_host_is_itself(void)
{
    coll_topo *topo;
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("HWLOC_XMLFILE");
    if (coll_topo_discover(&topo, NULL, 0) || !coll_topo_is_this_host(topo))
        return 1;
    if (count(topo, COLL_TOPO_CORE) < 1
        || count(topo, COLL_TOPO_PU) < sysconf(_SC_NPROCESSORS_ONLN))
        return 2;
    check_round_trip(topo);
    coll_topo_free(topo);
    return 0;
}

Test(topo, this_host_is_discovered_with_cores)
{
    cr_assert_eq(in_child(this_host_is_itself), 0);
}

/* The mask holds the first CPU that this process may use. */
static int restricted_to_one_cpu(void)
{
    cpu_set_t mask;
    coll_topo *topo;
    coll_topo_location here;
    coll_topo_limits limits;
    int first = 0, usable = 0, pu;
    if (sched_getaffinity(0, sizeof(mask), &mask))
        return 1;
    while (!CPU_ISSET(first, &mask))
        first++;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    if (sched_setaffinity(0, sizeof(mask), &mask)
        || coll_topo_discover(&topo, NULL, 0))
        return 2;
    for (int i = 0; i < coll_topo_size(topo); i++)
        usable += coll_topo_get(topo, i)->kind == COLL_TOPO_PU
                  && coll_topo_get(topo, i)->usable;
    coll_topo_limits_get(&limits);
    if (usable != 1 || limits.allowed != 1 || coll_topo_usable_cpus() != 1)
        return 3;
    if (coll_topo_place(topo, 1, &pu) != 1
        || coll_topo_get(topo, coll_topo_pu(topo, pu))->os_index != first)
        return 4;
    coll_topo_locate(topo, &here);
    if (here.core < 0 || here.host != coll_topo_host_id())
        return 5;
    check_round_trip(topo);
    coll_topo_free(topo);
    return 0;
}

Test(topo, a_process_bound_to_one_cpu_has_one_usable_cpu)
{
    cr_assert_eq(in_child(restricted_to_one_cpu), 0);
}

static int described_by_hwloc_synthetic(void)
{
    coll_topo *topo;
    coll_topo_location here;
    setenv("HWLOC_SYNTHETIC", "Package:2 Core:6 PU:2", 1);
    if (coll_topo_discover(&topo, NULL, 0))
        return 1;
    if (coll_topo_is_this_host(topo) || count(topo, COLL_TOPO_PACKAGE) != 2
        || count(topo, COLL_TOPO_CORE) != 12 || count(topo, COLL_TOPO_PU) != 24)
        return 2;
    coll_topo_locate(topo, &here);
    if (here.package != -1 || here.core != -1)
        return 3;
    coll_topo_free(topo);
    return 0;
}

Test(topo, hwloc_synthetic_replaces_this_host)
{
    cr_assert_eq(in_child(described_by_hwloc_synthetic), 0);
}

/* hwloc counts CPUs of other numbers too: two sockets, threads 4 apart. */
Test(topo, indices_of_the_system_are_kept)
{
    coll_topo *topo = parse("Package:2 Core:2 PU:2(indexes=0,4,1,5,2,6,3,7)");
    static const int expected[] = {0, 4, 1, 5, 2, 6, 3, 7};
    for (int pu = 0; pu < 8; pu++)
        cr_expect_eq(coll_topo_get(topo, coll_topo_pu(topo, pu))->os_index,
                     expected[pu]);
    coll_topo_free(topo);
}

static void write_file(const char *root, const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof(full), "%s%s", root, path);
    for (char *slash = full + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    cr_assert(file, "%s", full);
    fputs(text, file);
    fclose(file);
}

static void remove_tree(const char *root)
{
    char command[256];
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    cr_assert_eq(system(command), 0);
}

Test(topo, the_least_quota_of_the_cgroups_counts)
{
    static const char v2_mount[] =
        "30 23 0:28 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";
    static const char v1_mount[] =
        "31 30 0:29 /docker/x /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
    char root[] = "/tmp/topo_test_XXXXXX";
    cr_assert(mkdtemp(root));
    cr_expect_eq(cgroup_quota(root), 0);

    write_file(root, "/proc/self/cgroup", "0::/a/b\n");
    write_file(root, "/proc/self/mountinfo", v2_mount);
    write_file(root, "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    cr_expect_eq(cgroup_quota(root), 0);
    write_file(root, "/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    cr_expect_eq(cgroup_quota(root), 2.5);
    write_file(root, "/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    cr_expect_eq(cgroup_quota(root), 0.5);

    write_file(root, "/proc/self/cgroup",
               "4:cpuset:/\n3:cpuacct,cpu:/docker/x/y\n");
    write_file(root, "/proc/self/mountinfo", v1_mount);
    write_file(root, "/cg/cpu/cpu.cfs_quota_us", "300000\n");
    write_file(root, "/cg/cpu/cpu.cfs_period_us", "100000\n");
    write_file(root, "/cg/cpu/y/cpu.cfs_quota_us", "-1\n");
    write_file(root, "/cg/cpu/y/cpu.cfs_period_us", "100000\n");
    cr_expect_eq(cgroup_quota(root), 3);
    write_file(root, "/cg/cpu/y/cpu.cfs_quota_us", "150000\n");
    cr_expect_eq(cgroup_quota(root), 1.5);
    remove_tree(root);
}

Test(topo, a_description_may_be_a_file)
{
    char root[] = "/tmp/topo_test_XXXXXX", path[64], error[256] = "";
    cr_assert(mkdtemp(root));
    snprintf(path, sizeof(path), "%s/cluster", root);
    write_file(root, "/cluster", "# ours\nnode:4 (1us 1GB/s)\ncore:2\n");
    coll_topo *topo = NULL;
    cr_assert_eq(coll_topo_load(&topo, path, "x", error, sizeof(error)),
                 COLL_OK, "%s", error);
    cr_expect_eq(count(topo, COLL_TOPO_PU), 8);
    coll_topo_free(topo);

    topo = NULL;
    write_file(root, "/cluster", "# ours\nnode:4 (1us 1GB/s)\ncors:2\n");
    cr_assert_eq(coll_topo_load(&topo, path, "x", error, sizeof(error)),
                 COLL_OK); /* a level may have any short name */
    coll_topo_free(topo);
    write_file(root, "/cluster", "# ours\nnode:4 (1us 1GB)\n");
    cr_assert_eq(coll_topo_load(&topo, path, "x", error, sizeof(error)),
                 COLL_ERR_INVALID);
    char expected[96];
    snprintf(expected, sizeof(expected), "%s:2:14: \"GB\" is no unit", path);
    cr_expect(!strncmp(error, expected, strlen(expected)), "%s", error);
    remove_tree(root);
    cr_assert_eq(coll_topo_load(&topo, path, "x", error, sizeof(error)),
                 COLL_ERR_SYSTEM);
    cr_expect(strstr(error, "x: cannot read /tmp/"), "%s", error);
    cr_assert_eq(coll_topo_load(&topo, "node:2", "x", error, sizeof(error)),
                 COLL_OK);
    coll_topo_free(topo);
    cr_assert_eq(coll_topo_load(&topo, "", "x", error, sizeof(error)),
                 COLL_ERR_INVALID);
}

Test(topo, hwloc_xml_is_a_machine_too)
{
    char root[] = "/tmp/topo_test_XXXXXX", text[96], error[256];
    cr_assert(mkdtemp(root));
    snprintf(text, sizeof(text), "node:2 machine:%s/m.xml", root);
    write_file(
        root, "/m.xml",
        /* in lines, as hwloc's own parser wants it where libxml2 is not */
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
        "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\""
        " cpuset=\"0x3\" complete_cpuset=\"0x3\" allowed_cpuset=\"0x3\""
        " nodeset=\"0x1\" complete_nodeset=\"0x1\""
        " allowed_nodeset=\"0x1\" gp_index=\"1\">"
        "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x3\""
        " complete_cpuset=\"0x3\" nodeset=\"0x1\""
        " complete_nodeset=\"0x1\" gp_index=\"2\" local_memory=\"4096\"/>"
        "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\""
        " complete_cpuset=\"0x1\" nodeset=\"0x1\""
        " complete_nodeset=\"0x1\" gp_index=\"3\"/>"
        "<object type=\"PU\" os_index=\"1\" cpuset=\"0x2\""
        " complete_cpuset=\"0x2\" nodeset=\"0x1\""
        " complete_nodeset=\"0x1\" gp_index=\"4\"/>"
        "</object></topology>");
    coll_topo *topo = parse(text);
    cr_expect_eq(count(topo, COLL_TOPO_PU), 4);
    cr_expect_eq(count(topo, COLL_TOPO_CORE), 4); /* added, as it has none */
    cr_expect_eq(count(topo, COLL_TOPO_NUMA), 2);
    check_round_trip(topo);
    coll_topo_free(topo);

    write_file(root, "/m.xml", "<topology>");
    cr_assert_eq(coll_topo_parse(&topo, text, "x", error, sizeof(error)),
                 COLL_ERR_INVALID);
    cr_expect(!strncmp(error, "x:1:16: /tmp/", 13), "%s", error);
    remove_tree(root);
}
