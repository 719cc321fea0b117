/* SPDX-License-Identifier: MIT */
/* Clusters: shared links, levels of unequal counts, the clusters known by
 * name, and what Slurm's topology.conf becomes.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll/topo.h"

static coll_topo *load(const char *spec)
{
    char error[512] = "";
    coll_topo *topo = NULL;
    const coll_status status =
        coll_topo_load(&topo, spec, "test", error, sizeof(error));
    cr_assert_eq(status, COLL_OK, "%s: %s", spec, error);
    return topo;
}

static coll_topo *slurm(const char *conf, const char *nodes)
{
    char error[512] = "";
    coll_topo *topo = NULL;
    const coll_status status =
        coll_topo_parse_slurm(&topo, conf, nodes, "t", error, sizeof(error));
    cr_assert_eq(status, COLL_OK, "%s: %s", conf, error);
    return topo;
}

static char *notation(const coll_topo *topo)
{
    const size_t length = coll_topo_print_notation(topo, NULL, 0);
    char *text = malloc(length + 1);
    cr_assert_eq(coll_topo_print_notation(topo, text, length + 1), length);
    return text;
}

/* What is printed is `expected` (NULL: anything), and parses to its equal. */
static void check_notation(const coll_topo *topo, const char *expected)
{
    char *text = notation(topo), error[512];
    coll_topo *again = NULL;
    if (expected)
        cr_expect_str_eq(text, expected);
    cr_assert_eq(coll_topo_parse(&again, text, "x", error, sizeof(error)),
                 COLL_OK, "%s: %s", text, error);
    cr_expect(coll_topo_equal(topo, again), "%s", text);
    coll_topo_free(again);
    free(text);
}

/* Every object lies inside its parent, and hosts are where their level is. */
static void check_array(const coll_topo *topo)
{
    for (int i = 1; i < coll_topo_size(topo); i++) {
        const coll_topo_object *o = coll_topo_get(topo, i);
        const coll_topo_object *parent = coll_topo_get(topo, o->parent);
        cr_assert(parent && o->parent < i && o->end <= parent->end);
        cr_assert((o->kind == COLL_TOPO_LEVEL || o->kind == COLL_TOPO_HOST)
                  == (o->level >= 0));
        cr_assert(o->level < 0 || o->level == parent->level + 1);
    }
}

Test(clusters, a_link_may_be_shared)
{
    coll_topo *topo = load("pod:2 (5us 8GB/s) rack:2 (2us 1.25GB/s shared) "
                           "node:4(1us 2GB/s)");
    coll_topo *other = load("pod:2 (5us 8GB/s) rack:2 (2us 1.25GB/s) "
                            "node:4(1us 2GB/s)");
    coll_topo_link link;
    char text[512];
    check_notation(topo, "pod:2 (5us 8GB/s) rack:2 (2us 1.25GB/s shared) "
                         "node:4 (1us 2GB/s) {core{pu}}");
    cr_expect_not(coll_topo_equal(topo, other));
    coll_topo_print_tree(topo, text, sizeof(text));
    cr_expect(strstr(text, "2 x rack (2us 1.25GB/s shared)\n"), "%s", text);

    cr_assert_eq(coll_topo_link_between(topo, 0, 1, &link), COLL_OK);
    cr_expect(link.bytes_per_second == 2e9 && !link.shared);
    cr_assert_eq(coll_topo_link_between(topo, 0, 4, &link), COLL_OK);
    cr_expect(link.bytes_per_second == 1.25e9 && link.shared);
    cr_assert_eq(coll_topo_link_between(topo, 0, 8, &link), COLL_OK);
    cr_expect(link.bytes_per_second == 1.25e9 && link.shared);
    cr_expect_float_eq(link.latency_seconds, 5e-6, 1e-12);
    coll_topo_free(topo);
    coll_topo_free(other);
}

Test(clusters, what_leaves_an_object_is_the_link_of_its_level)
{
    coll_topo *topo = load("rack:2 (2us 1.25GB/s shared) node:2 core:2");
    coll_topo_link link;
    for (int i = 0; i < coll_topo_size(topo); i++) {
        const bool rack = coll_topo_get(topo, i)->kind == COLL_TOPO_LEVEL;
        cr_assert_eq(coll_topo_level_link(topo, i, &link), COLL_OK);
        cr_expect_eq(link.bytes_per_second, rack ? 1.25e9 : 0);
        cr_expect_eq(link.shared, rack);
    }
    cr_expect_eq(coll_topo_level_link(topo, -1, &link), COLL_ERR_INVALID);
    cr_expect_eq(coll_topo_level_link(topo, coll_topo_size(topo), &link),
                 COLL_ERR_INVALID);
    coll_topo_free(topo);
}

Test(clusters, counts_may_differ_from_object_to_object)
{
    coll_topo *topo = load("rack:3 (2us 1GB/s shared) switch:1,2*2 "
                           "node:4,3*2,2,7 (1us 1GB/s) core:2");
    static const int expected[] = {4, 3, 3, 2, 7};
    int n = 0;
    for (int i = 0; i < coll_topo_size(topo); i++) {
        const coll_topo_object *o = coll_topo_get(topo, i);
        if (o->level == 1)
            cr_expect_eq(o->end - i - 1, 6 * expected[n++], "%d", i);
    }
    cr_expect_eq(n, 5);
    cr_expect_eq(coll_topo_count(topo, COLL_TOPO_HOST), 19);
    check_array(topo);
    check_notation(topo, "rack:3 (2us 1GB/s shared) switch:1,2*2 "
                         "node:4,3*2,2,7 (1us 1GB/s) {numa{core:2{pu}}}");
    coll_topo_free(topo);
    topo = load("rack:2 node:4,4 core:2");
    check_notation(topo, "rack:2 node:4 {numa{core:2{pu}}}");
    coll_topo_free(topo);
}

/* clang-format off */
static const struct {
    const char *text, *error;
} bad[] = {
    {"rack:4 (2us 1GB/s sahred)",
     "1:19: \"sahred\" is not valid after the bandwidth, did you mean shared?"
     "; valid are shared and ')'"},
    {"rack:4 (2us 1GB/s quick)",
     "1:19: \"quick\" is not valid after the bandwidth; valid are"},
    {"rack:4 (2us 1GB/s shared shared)", "1:26: expected ')' after the link"},
    {"rack:4 (2us 1GB/sshared)", "1:14: \"GB/sshared\" is no unit"},
    {"rack:4 (2us shared)", "1:13: expected a bandwidth"},
    {"rack:2 node:1,2,3", "1:17: more counts than the level outside has"},
    {"rack:3 node:1,2", "1:13: 2 counts, but the level outside has 3 objects"},
    {"node:4,2", "1:8: more counts than the level outside has objects (1)"},
    {"rack:2 node:4,", "1:15: expected count from 1 to 1048576"},
    {"rack:2 node:4*", "1:15: expected number of times from 1 to"},
    {"rack:2 node:4*0,1", "1:15: 0 is outside the valid number of times"},
    {"a:1048576 b:1048576 c:1,2", "1:23: more than 4194304 objects"},
};
/* clang-format on */

Test(clusters, errors_name_line_and_column)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char error[512] = "", expected[256];
        coll_topo *topo = NULL;
        snprintf(expected, sizeof(expected), "spec:%s", bad[i].error);
        cr_expect_eq(
            coll_topo_load(&topo, bad[i].text, "spec", error, sizeof(error)),
            COLL_ERR_INVALID, "%s", bad[i].text);
        cr_expect_null(topo);
        cr_expect(!strncmp(error, expected, strlen(expected)),
                  "\"%s\"\n  gives    %s\n  expected %s", bad[i].text, error,
                  expected);
    }
}

Test(clusters, clusters_of_the_folder_have_their_counts)
{
    const struct {
        const char *name;
        int levels, hosts, pus;
    } expected[] = {
        {"taihulight",         160, 40960, 40960      },
        {"taihulight_1024",    4,   1024,  1024 * 260 },
        {"tianhe3_ft2000plus", 0,   128,   128 * 64   },
        {"tianhe3_mt2000plus", 0,   1536,  1536 * 32  },
        {"knl_cori",           16,  64,    64 * 68 * 4},
        {"gpu8_node",          0,   1,     128        },
        {"ethernet_10g",       0,   32,    32 * 64    },
        {"ethernet_10g_ne020", 0,   64,    64         },
        {"ethernet_100g",      0,   32,    32 * 128   },
        {"infiniband_fdr",     0,   64,    64         },
        {"infiniband_qdr",     0,   64,    64         },
        {"fat_tree_3level",    72,  1024,  1024 * 64  },
        {"dragonfly",          297, 1056,  1056       },
    };
    enum { N = sizeof(expected) / sizeof(expected[0]) };
    coll_topo_cluster cluster;
    int i = 0;
    for (; coll_topo_cluster_get(i, &cluster); i++) {
        cr_assert(i < N && !strcmp(cluster.name, expected[i].name), "%s",
                  cluster.name);
        coll_topo *topo = load(cluster.name);
        cr_expect_eq(coll_topo_count(topo, COLL_TOPO_LEVEL), expected[i].levels,
                     "%s", cluster.name);
        cr_expect_eq(coll_topo_count(topo, COLL_TOPO_HOST), expected[i].hosts,
                     "%s", cluster.name);
        cr_expect_eq(coll_topo_count(topo, COLL_TOPO_PU), expected[i].pus, "%s",
                     cluster.name);
        check_array(topo);
        check_notation(topo, NULL);
        cr_expect(!strncmp(cluster.text, "# ", 2)
                  && !strncmp(cluster.text + 2, cluster.about,
                              strlen(cluster.about)));
        coll_topo_free(topo);
    }
    cr_expect_eq(i, N);
    cr_expect_eq(coll_topo_cluster_get(-1, &cluster), 0);
}

Test(clusters, a_file_goes_before_a_cluster_of_its_name)
{
    char root[] = "/tmp/clusters_test_XXXXXX", error[512] = "";
    coll_topo *topo = NULL;
    cr_assert(mkdtemp(root));
    cr_assert_eq(chdir(root), 0);
    FILE *file = fopen("dragonfly", "w");
    fputs("node:3\n", file);
    fclose(file);
    mkdir("taihulight", 0700);
    topo = load("dragonfly");
    cr_expect_eq(coll_topo_count(topo, COLL_TOPO_HOST), 3);
    coll_topo_free(topo);
    topo = load("taihulight"); /* a folder is no description */
    cr_expect_eq(coll_topo_count(topo, COLL_TOPO_HOST), 40960);
    coll_topo_free(topo);

    file = fopen("topology.conf", "w");
    fputs("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=m\n", file);
    fclose(file);
    topo = load("slurm:topology.conf");
    cr_expect_eq(coll_topo_count(topo, COLL_TOPO_HOST), 3);
    cr_expect_str_eq(coll_topo_host_name(topo, 2), "m");
    coll_topo_free(topo);
    cr_expect_eq(
        coll_topo_load(&topo, "slurm:dragonfly", "x", error, sizeof(error)),
        COLL_ERR_INVALID);
    cr_expect(strstr(error, "dragonfly:1:1: \"node\" is none of Switch"), "%s",
              error);
    unlink("topology.conf");
    unlink("dragonfly");
    rmdir("taihulight");
    cr_expect_eq(rmdir(root), 0);
}

Test(clusters, an_unknown_name_is_told_with_the_nearest)
{
    char error[512] = "";
    coll_topo *topo = NULL;
    cr_expect_eq(
        coll_topo_load(&topo, "taihuligth", "--cluster", error, sizeof(error)),
        COLL_ERR_INVALID);
    cr_expect(!strncmp(error,
                       "--cluster: \"taihuligth\" is no file and no cluster, "
                       "did you mean taihulight?; valid are taihulight, ",
                       97),
              "%s", error);
    cr_expect_eq(
        coll_topo_load(&topo, "no/such.file", "x", error, sizeof(error)),
        COLL_ERR_SYSTEM);
    cr_expect_eq(
        coll_topo_load(&topo, "slurm:no/such", "x", error, sizeof(error)),
        COLL_ERR_SYSTEM);
    cr_expect_null(topo);
}

static const char *const confs[] = {
    "SwitchName=s0 Nodes=n[0-3]\n"
    "SwitchName=s1 Nodes=n[4-6] LinkSpeed=100\n"
    "SwitchName=s2 Switches=s[0-1]\n",
    "# two trees, of 1 and of 3 switches\n"
    "switchname=top SWITCHES=mid,leaf9 # not yet described\r\n"
    "SwitchName = mid Switches=leaf[1-2]\n"
    "SwitchName=leaf1 Nodes=gpu[08-11,3],n7 \\\n  LinkSpeed=1\n"
    "SwitchName=leaf2 Nodes=big\n"
    "SwitchName=leaf9 Nodes=x[0-1]y[0-2]-ib.local\n"
    "SwitchName=alone Nodes=z[1-2]",
    "SwitchName=s0 Nodes=a",
};

static void check_names(const coll_topo *topo, const char *expected)
{
    char names[256] = "";
    const int n = coll_topo_count(topo, COLL_TOPO_HOST);
    for (int i = 0; i < n; i++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
                 i ? " " : "", coll_topo_host_name(topo, i));
    cr_expect_str_eq(names, expected);
    cr_expect_null(coll_topo_host_name(topo, n));
    cr_expect_null(coll_topo_host_name(topo, -1));
}

Test(clusters, switches_of_slurm_become_levels)
{
    coll_topo *topo = slurm(confs[0], NULL);
    check_array(topo);
    check_notation(topo, "switch:2 node:4,3 {core{pu}}");
    check_names(topo, "n0 n1 n2 n3 n4 n5 n6");
    coll_topo_free(topo);

    topo = slurm(confs[2], NULL);
    check_notation(topo, "node:1 {core{pu}}");
    coll_topo_free(topo);
}

Test(clusters, a_switch_nearer_to_its_hosts_stands_for_levels_it_skips)
{
    coll_topo *topo = slurm(confs[1], NULL);
    char text[1024];
    check_array(topo);
    check_notation(topo, "switch3:2 switch2:2,1 switch:2,1*2 "
                         "node:6,1,6,2 {core{pu}}");
    check_names(topo, "gpu08 gpu09 gpu10 gpu11 gpu3 n7 big "
                      "x0y0-ib.local x0y1-ib.local x0y2-ib.local "
                      "x1y0-ib.local x1y1-ib.local x1y2-ib.local z1 z2");
    coll_topo_print_tree(topo, text, sizeof(text));
    cr_expect(strstr(text, "2 x node, z1 to z2\n"), "%s", text);
    cr_expect(strstr(text, "  node, big\n"), "%s", text);
    coll_topo_free(topo);
}

Test(clusters, only_the_nodes_of_the_list_are_there)
{
    coll_topo *topo = slurm(confs[0], "n[5,0-1]");
    check_notation(topo, "switch:2 node:2,1 {core{pu}}");
    check_names(topo, "n0 n1 n5");
    coll_topo_free(topo);

    topo = slurm(confs[0], " n6,n4\n"); /* one switch is left */
    check_notation(topo, "node:2 {core{pu}}");
    coll_topo_free(topo);

    topo = slurm(confs[1], "big,z1,gpu[08,10]");
    check_names(topo, "gpu08 gpu10 big z1");
    check_notation(topo,
                   "switch3:2 switch2:1 switch:2,1 node:2,1*2 {core{pu}}");
    coll_topo_free(topo);
}

/* clang-format off */
static const struct {
    const char *conf, *nodes, *error;
} bad_confs[] = {
    {"", NULL, "1:1: no switch is described; a line such as"},
    {"Nodes=n1", NULL, "1:1: a line has SwitchName= once"},
    {"SwitchName=a SwitchName=b", NULL, "1:14: a line has SwitchName= once"},
    {"SwitchName=a Nodes=b Nodes=c", NULL, "1:28: a switch has either"},
    {"SwitchName=a\nSwitchName=b Nodes=c", NULL, "1:1: a switch with neither"},
    {"SwitchName=a[0-1] Nodes=b", NULL, "1:12: a line describes one switch"},
    {"SwichName=a Nodes=b", NULL,
     "1:1: \"SwichName\" is none of SwitchName, Nodes, Switches and LinkSpeed, "
     "did you mean SwitchName?"},
    {"BlockName=a Nodes=b", NULL, "1:1: \"BlockName\" is of topology/block"},
    {"SwitchName:a", NULL, "1:11: expected '=' after SwitchName, found ':'"},
    {"SwitchName=a Nodes=", NULL, "1:20: expected a name, found the end"},
    {"SwitchName=a Nodes=b,", NULL, "1:22: expected a name, found the end"},
    {"SwitchName=a Nodes=b;c", NULL, "1:21: expected ',' or a blank after"},
    {"SwitchName=a Nodes=n[0-1];", NULL, "1:26: expected ',' or a blank"},
    {"SwitchName=a Nodes=n[0-1", NULL, "1:21: this [ has no ]"},
    {"SwitchName=a Nodes=n[]", NULL, "1:22: expected a number, found ']'"},
    {"SwitchName=a Nodes=n[1,]", NULL, "1:24: expected a number, found ']'"},
    {"SwitchName=a Nodes=n[1-]", NULL, "1:24: expected a number, found ']'"},
    {"SwitchName=a Nodes=n[1:2]", NULL, "1:23: expected ',' or ']', found ':'"},
    {"SwitchName=a Nodes=n[3-1]", NULL, "1:22: the range 3-1 goes backwards"},
    {"SwitchName=a Nodes=n[0-65536]", NULL, "1:22: more than 65536 names"},
    {"SwitchName=a Nodes=n[0-999][0-999]", NULL, "1:20: more than 65536 names"},
    {"SwitchName=a Nodes=n[1234567890]", NULL, "1:22: a number of more than 9"},
    {"SwitchName=a Nodes=n[0][0][0][0][0][0][0][0][0]", NULL,
     "1:45: more than 8 brackets"},
    {"SwitchName=a Nodes=b\nSwitchName=a Nodes=c", NULL,
     "2:12: switch a is described twice"},
    {"SwitchName=a Nodes=b\nSwitchName=c Nodes=d,b", NULL,
     "2:22: node b is on another switch already"},
    {"SwitchName=leaf0 Nodes=b\nSwitchName=c Switches=leaf1", NULL,
     "2:23: there is no switch leaf1, did you mean leaf0?"},
    {"SwitchName=a Nodes=b\nSwitchName=c Switches=a,a", NULL,
     "2:25: switch a is below another already"},
    {"SwitchName=a Nodes=b\nSwitchName=c Switches=c", NULL,
     "2:12: switch c is below itself"},
    {"SwitchName=a Switches=b\nSwitchName=b Switches=a", NULL,
     "1:12: switch a is below itself"},
    {"SwitchName=a Nodes=n[0-3]", "n[2-4]",
     " list of nodes:1:1: no switch has node n4"},
    {"SwitchName=a Nodes=n[0-3]", "", " list of nodes:1:1: expected a name"},
    {"SwitchName=a Nodes=n[0-3]", "n1 n2",
     " list of nodes:1:4: nothing may follow the nodes"},
    {"SwitchName=a Switches=b\nSwitchName=b Switches=c\n"
     "SwitchName=c Switches=d\nSwitchName=d Switches=e\n"
     "SwitchName=e Switches=f\nSwitchName=f Switches=g\n"
     "SwitchName=g Switches=h\nSwitchName=h Switches=i\n"
     "SwitchName=i Nodes=j", NULL,
     "9:12: more than 8 switches above each other"},
};
/* clang-format on */

Test(clusters, errors_of_a_topology_conf_name_line_and_column)
{
    for (size_t i = 0; i < sizeof(bad_confs) / sizeof(bad_confs[0]); i++) {
        char error[512] = "", expected[256];
        coll_topo *topo = NULL;
        snprintf(expected, sizeof(expected), "t:%s", bad_confs[i].error);
        cr_expect_eq(coll_topo_parse_slurm(&topo, bad_confs[i].conf,
                                           bad_confs[i].nodes, "t", error,
                                           sizeof(error)),
                     COLL_ERR_INVALID, "%s", bad_confs[i].conf);
        cr_expect_null(topo);
        cr_expect(!strncmp(error, expected, strlen(expected)),
                  "\"%s\"\n  gives    %s\n  expected %s", bad_confs[i].conf,
                  error, expected);
    }
}

Test(clusters, a_long_list_of_nodes_is_bounded_and_fast)
{
    coll_topo *topo =
        slurm("SwitchName=a Nodes=n[00000-65535]", "n[65535,00007]");
    check_names(topo, "n00007 n65535");
    coll_topo_free(topo);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* One change of the text: a letter, a cut, or a piece of it doubled. */
static void mutate(char text[2048], uint64_t *seed)
{
    static const char letters[] = "=[],-# \n\\019.sanSN\x80";
    const size_t at = next_random(seed) % (strlen(text) + 1);
    const size_t piece = next_random(seed) % 20;
    char *tail = strdup(text + at);
    const size_t left = strlen(tail);
    text[at] = '\0';
    switch (next_random(seed) % 3) {
    case 0:
        text[at] = letters[next_random(seed) % (sizeof(letters) - 1)];
        text[at + 1] = '\0';
        strcat(text, tail + (left > 0));
        break;
    case 1:
        strcat(text, tail + (piece < left ? piece : left));
        break;
    default:
        strcat(strncat(text, tail, piece), tail);
    }
    free(tail);
}

static int parse_anything(const char *conf, const char *nodes)
{
    char error[512] = "";
    coll_topo *topo = NULL;
    const coll_status status =
        coll_topo_parse_slurm(&topo, conf, nodes, "fuzz", error, sizeof(error));
    if (status) {
        cr_assert(status == COLL_ERR_INVALID && !topo, "%s: %s", conf, error);
        cr_assert(!strncmp(error, "fuzz:", 5) && strlen(error) > 9, "%s",
                  error);
    } else if (coll_topo_size(topo) < 5000) {
        check_array(topo);
        check_notation(topo, NULL);
    }
    coll_topo_free(topo);
    return !status;
}

Test(clusters, ten_thousand_mutated_topology_confs_parse_or_say_why,
     .timeout = 60)
{
    static const char *const nodes[] = {NULL, "n[0-1,4]", "gpu[08-10],z1"};
    uint64_t seed = 20261121;
    int parsed = 0;
    for (int i = 0; i < 10000; i++) {
        char text[2048], list[2048];
        const char *wanted = nodes[next_random(&seed) % 3];
        snprintf(text, sizeof(text), "%s", confs[next_random(&seed) % 3]);
        snprintf(list, sizeof(list), "%s", wanted ? wanted : "");
        for (int n = (int)(next_random(&seed) % 4); n > 0; n--)
            mutate(text, &seed);
        if (next_random(&seed) % 2)
            mutate(list, &seed);
        parsed += parse_anything(text, wanted ? list : NULL);
    }
    cr_expect(parsed > 500, "only %d are valid", parsed);
}

Test(clusters, every_truncated_topology_conf_parses_or_says_why)
{
    for (int i = 0; i < 3; i++)
        for (size_t length = 0; length <= strlen(confs[i]); length++) {
            char *text = strndup(confs[i], length);
            parse_anything(text, NULL);
            free(text);
        }
}

/* Runs the coll_info that is built beside this test; its exit status, and what
 * it says on stderr; -1: it is not there. */
static int coll_info(const char *arguments, char *said, size_t bytes)
{
    char here[512], command[1536];
    const ssize_t length = readlink("/proc/self/exe", here, sizeof(here) - 1);
    cr_assert(length > 0);
    here[length] = '\0';
    *strrchr(here, '/') = '\0';
    snprintf(command, sizeof(command), "%s/coll_info", here);
    if (access(command, X_OK))
        return -1;
    snprintf(command, sizeof(command), "%s/coll_info %s 2>&1 >/dev/null", here,
             arguments);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe);
    said[fread(said, 1, bytes - 1, pipe)] = '\0';
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* Width and height of a PNG; 0 if it is none. */
static void png_size(const char *path, unsigned *width, unsigned *height)
{
    unsigned char head[24] = {0};
    FILE *file = fopen(path, "r");
    cr_assert(file && fread(head, 1, 24, file) == 24, "%s", path);
    fclose(file);
    *width = *height = 0;
    if (memcmp(head, "\x89PNG\r\n\x1a\n", 8) != 0)
        return;
    for (int i = 0; i < 4; i++) {
        *width = *width << 8 | head[16 + i];
        *height = *height << 8 | head[20 + i];
    }
}

Test(clusters, pictures_of_all_clusters_are_whole_and_not_too_wide,
     .timeout = 60)
{
    char root[] = "/tmp/clusters_test_XXXXXX", said[512], arguments[256];
    coll_topo_cluster cluster;
    unsigned width, height;
    cr_assert(mkdtemp(root));
    cr_assert_eq(chdir(root), 0);
    for (int i = 0; coll_topo_cluster_get(i, &cluster); i++) {
        snprintf(arguments, sizeof(arguments),
                 "--cluster %s --png p.png --svg p.svg --place %d",
                 cluster.name, 1 + 97 * i);
        const int status = coll_info(arguments, said, sizeof(said));
        if (status < 0)
            cr_skip_test("coll_info is not built");
        cr_assert_eq(status, 0, "%s: %s", arguments, said);
        png_size("p.png", &width, &height);
        cr_expect(width > 300 && width <= 1600, "%s: %u", cluster.name, width);
        cr_expect(height > 100 && height <= 4000, "%s: %u", cluster.name,
                  height);
        char end[16] = "";
        FILE *svg = fopen("p.svg", "r");
        cr_assert(svg && !fseek(svg, -7, SEEK_END));
        cr_expect(fgets(end, sizeof(end), svg) && !strcmp(end, "</svg>\n"));
        fclose(svg);
    }
    unlink("p.png");
    unlink("p.svg");
    cr_expect_eq(rmdir(root), 0, "something else was left there");
}

Test(clusters, a_picture_that_cannot_be_written_is_one_line_and_status_2)
{
    char said[512];
    const int status =
        coll_info("--cluster node:4 --png /no/such/p.png", said, sizeof(said));
    if (status < 0)
        cr_skip_test("coll_info is not built");
    cr_expect_eq(status, 2);
    cr_expect_str_eq(said, "coll_info: /no/such/p.png: cannot write: No "
                           "such file or directory\n");
    cr_expect_eq(coll_info("--cluster taihuligth", said, sizeof(said)), 2);
    cr_expect(strstr(said, "did you mean taihulight?"), "%s", said);
}
