/* SPDX-License-Identifier: MIT */
/* Machines that are found: this host, and what stands in files. What depends on
 * this host (affinity, hwloc's variables) runs in a child. */
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
#include "topo.h"

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

Test(topo_host, this_host_is_discovered_with_cores)
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

Test(topo_host, a_process_bound_to_one_cpu_has_one_usable_cpu)
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

Test(topo_host, hwloc_synthetic_replaces_this_host)
{
    cr_assert_eq(in_child(described_by_hwloc_synthetic), 0);
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

Test(topo_host, the_least_quota_of_the_cgroups_counts)
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

Test(topo_host, a_description_may_be_a_file)
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

Test(topo_host, hwloc_xml_is_a_machine_too)
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
