/* SPDX-License-Identifier: MIT */
/* What of this host the process may use: affinity, cgroup quota.
 *
 * A container is often granted a share of time on all CPUs instead of some
 * CPUs. Who then starts a spinning thread per CPU is stopped by the kernel for
 * the rest of each period, so the quota counts like a smaller machine.
 */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

cpu_set_t *affinity_read(size_t *bytes)
{
    /* The kernel refuses a mask shorter than its own. */
    for (int ncpus = 1024; ncpus <= MAX_OS_INDEX; ncpus *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)ncpus);
        *bytes = CPU_ALLOC_SIZE((size_t)ncpus);
        if (!set)
            return NULL;
        CPU_ZERO_S(*bytes, set);
        if (!sched_getaffinity(0, *bytes, set))
            return set;
        CPU_FREE(set);
    }
    return NULL;
}

/* The number of CPUs that a cgroup's files grant; 0: no limit, no file. */
static double quota_v2(const char *folder)
{
    char path[4352];
    double quota = 0, period = 0;
    snprintf(path, sizeof(path), "%s/cpu.max", folder);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    const int n = fscanf(file, "%lf %lf", &quota, &period); /* or "max" */
    fclose(file);
    return n == 2 && quota > 0 && period > 0 ? quota / period : 0;
}

static double read_number(const char *folder, const char *name)
{
    char path[4352];
    double x = 0;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%lf", &x) != 1)
        x = 0;
    fclose(file);
    return x;
}

static double quota_v1(const char *folder)
{
    const double quota = read_number(folder, "cpu.cfs_quota_us");
    const double period = read_number(folder, "cpu.cfs_period_us");
    return quota > 0 && period > 0 ? quota / period : 0;
}

/* The least quota from folder up to its first `top` characters, the mount. */
static double least_quota(char *folder, size_t top, bool v2)
{
    double least = 0;
    for (;;) {
        const double quota = v2 ? quota_v2(folder) : quota_v1(folder);
        if (quota > 0 && (least == 0 || quota < least))
            least = quota;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < top)
            return least;
        *slash = '\0';
    }
}

/* 1 if the comma-separated list has the word. */
static bool lists(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (!strncmp(at, word, length)
            && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* This process's path in the hierarchy that has the cpu controller: of
 * version 1, or of version 2 ("0::/path"). */
static bool cgroup_path(const char *root, bool v2, char path[4096])
{
    char name[4352], line[4352];
    bool found = false;
    snprintf(name, sizeof(name), "%s/proc/self/cgroup", root);
    FILE *file = fopen(name, "re");
    if (!file)
        return false;
    while (!found && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *at = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!at)
            continue;
        *at++ = '\0';
        controllers++;
        found = v2 ? !*controllers : lists(controllers, "cpu");
        if (found)
            snprintf(path, 4096, "%.4095s", at);
    }
    fclose(file);
    return found;
}

/* Where that hierarchy is mounted, and which of its folders is seen there. A
 * line of mountinfo: "31 23 0:28 FOLDER POINT options - TYPE source OPTIONS" */
static bool cgroup_mount(const char *root, bool v2, char folder[4096],
                         char point[4096])
{
    char name[4352], line[8192], type[64], options[1024];
    bool found = false;
    snprintf(name, sizeof(name), "%s/proc/self/mountinfo", root);
    FILE *file = fopen(name, "re");
    if (!file)
        return false;
    while (!found && fgets(line, sizeof(line), file)) {
        const char *dash = strstr(line, " - ");
        if (!dash || sscanf(dash, " - %63s %*s %1023s", type, options) != 2
            || sscanf(line, "%*s %*s %*s %4095s %4095s", folder, point) != 2)
            continue;
        found = v2 ? !strcmp(type, "cgroup2")
                   : !strcmp(type, "cgroup") && lists(options, "cpu");
    }
    fclose(file);
    return found;
}

static double hierarchy_quota(const char *root, bool v2)
{
    char path[4096], folder[4096], point[4096], full[4096];
    if (!cgroup_path(root, v2, path) || !cgroup_mount(root, v2, folder, point))
        return 0;
    /* A container sees its own folder as the mount point. */
    const size_t seen = strcmp(folder, "/") ? strlen(folder) : 0;
    const char *below = !strncmp(path, folder, seen) ? path + seen : "";
    const int length = snprintf(full, sizeof(full), "%s%s%s", root, point,
                                strcmp(below, "/") ? below : "");
    if (length >= (int)sizeof(full))
        return 0;
    return least_quota(full, strlen(root) + strlen(point), v2);
}

double cgroup_quota(const char *root)
{
    const double one = hierarchy_quota(root, false);
    const double two = hierarchy_quota(root, true);
    return one > 0 && (two == 0 || one < two) ? one : two;
}

void coll_topo_limits_get(coll_topo_limits *limits)
{
    size_t bytes;
    cpu_set_t *set = affinity_read(&bytes);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    limits->online = online > 0 ? (int)online : 1;
    limits->allowed = set ? CPU_COUNT_S(bytes, set) : limits->online;
    CPU_FREE(set);
    limits->quota_cpus = cgroup_quota("");
    limits->usable = limits->allowed;
    if (limits->quota_cpus > 0 && limits->quota_cpus < limits->usable)
        limits->usable = (int)limits->quota_cpus;
    if (limits->usable < 1)
        limits->usable = 1;
}

int coll_topo_usable_cpus(void)
{
    coll_topo_limits limits;
    coll_topo_limits_get(&limits);
    return limits.usable;
}

static uint64_t hash(uint64_t h, const char *s)
{
    while (*s) /* FNV-1a */
        h = (h ^ (unsigned char)*s++) * 0x100000001b3;
    return h;
}

uint64_t coll_topo_host_id(void)
{
    static const char *const spaces[] = {
        "/proc/self/ns/net", "/proc/self/ns/ipc", "/proc/self/ns/pid"};
    char text[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(text, sizeof(text), file))
            text[0] = '\0';
        fclose(file);
    }
    uint64_t id = hash(0xcbf29ce484222325, text);
    for (int i = 0; i < 3; i++) {
        struct stat st;
        if (stat(spaces[i], &st) < 0)
            continue;
        snprintf(text, sizeof(text), "%ju", (uintmax_t)st.st_ino);
        id = hash(id, text);
    }
    return id;
}
