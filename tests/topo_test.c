/* SPDX-License-Identifier: MIT */
/* Machines: their table and their notation.
 *
 * The notation is checked by going round: what is printed must parse to an
 * equal machine. Bad input must name the very line and column.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/topo.h"
#include "thorough.h"
#include "topo.h"

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

Test(topo, mutated_texts_parse_or_say_why, .timeout = 60)
{
    uint64_t seed = 20261121;
    for (int i = 0; i < (int)cases(10000, 270); i++) {
        char text[2048];
        /* The first makes half a million objects; the rest are small. */
        const int base = 1 + (int)(next_random(&seed) % (NVALID - 1));
        snprintf(text, sizeof(text), "%s", valid[base]);
        for (int n = 1 + (int)(next_random(&seed) % 4); n > 0; n--)
            mutate(text, &seed);
        parse_anything(text);
    }
}

Test(topo, null_is_refused)
{
    char error[100] = "";
    coll_topo *topo = NULL;
    cr_expect_eq(coll_topo_parse(&topo, NULL, "x", error, sizeof(error)),
                 COLL_ERR_INVALID);
    cr_expect(strstr(error, "is NULL"), "%s", error);
    cr_expect_eq(coll_topo_parse(NULL, "node:2", "x", NULL, 0),
                 COLL_ERR_INVALID);
    cr_expect_eq(coll_topo_load(&topo, NULL, "x", NULL, 0), COLL_ERR_INVALID);
    cr_expect_eq(coll_topo_load(NULL, "node:2", "x", NULL, 0),
                 COLL_ERR_INVALID);
    cr_expect_eq(coll_topo_discover(NULL, NULL, 0), COLL_ERR_INVALID);
    cr_expect_null(topo);
}
