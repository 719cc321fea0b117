/* SPDX-License-Identifier: MIT */
#include "node/memory_left.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static FILE *open_in(const char *folder, const char *name)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof(path), "%s/%s", folder, name);
    return n < (int)sizeof(path) ? fopen(path, "re") : NULL;
}

/* The number of a line that begins with `key` and a blank, or `none`. */
static uint64_t keyed(const char *folder, const char *name, const char *key,
                      uint64_t none)
{
    char line[256];
    uint64_t value = none, found;
    const size_t length = strlen(key);
    FILE *file = open_in(folder, name);
    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, key, length)
            && sscanf(line + length, " %" SCNu64, &found) == 1)
            value = found;
    if (file)
        fclose(file);
    return value;
}

/* What a file has but a number; of "max", or without the file, UINT64_MAX. */
static uint64_t number(const char *folder, const char *name)
{
    return keyed(folder, name, "", UINT64_MAX);
}

struct names {
    const char *limit, *used, *cached; /* the last: a key of memory.stat */
};

/* Files that were read and nobody uses are given back first. */
static uint64_t left_of_group(const char *folder, const struct names *n)
{
    const uint64_t limit = number(folder, n->limit);
    const uint64_t used = number(folder, n->used);
    const uint64_t cached = keyed(folder, "memory.stat", n->cached, 0);
    if (limit == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    const uint64_t taken = used - least(used, cached);
    return limit - least(limit, taken);
}

/* Of a group and of all that it is in; a container may see only the outermost,
 * under its own group's name or none. */
static uint64_t left_of_groups(const char *root, char *group,
                               const struct names *names)
{
    char folder[PATH_MAX];
    uint64_t left = UINT64_MAX;
    for (size_t n = strlen(group) + 1; n-- > 0;)
        if (n == 0 || group[n] == '/' || !group[n]) {
            group[n] = '\0';
            if (snprintf(folder, sizeof(folder), "%s%s", root, group)
                < (int)sizeof(folder))
                left = least(left, left_of_group(folder, names));
        }
    return left;
}

static uint64_t left_by_groups(const char *proc, const char *cgroups)
{
    static const struct names first = {"memory.limit_in_bytes",
                                       "memory.usage_in_bytes",
                                       "total_inactive_file"},
                              second = {"memory.max", "memory.current",
                                        "inactive_file"};
    char line[PATH_MAX], root[PATH_MAX];
    uint64_t left = UINT64_MAX;
    FILE *file = open_in(proc, "self/cgroup");
    while (file && fgets(line, sizeof(line), file)) {
        char *kind = strchr(line, ':');
        char *group = kind ? strchr(kind + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        const bool old = !strcmp(kind + 1, "memory");
        if ((old || !kind[1])
            && snprintf(root, sizeof(root), "%s%s", cgroups,
                        old ? "/memory" : "")
                   < (int)sizeof(root))
            left = least(left,
                         left_of_groups(root, group, old ? &first : &second));
    }
    if (file)
        fclose(file);
    return left;
}

uint64_t memory_left_in(const char *proc, const char *cgroups)
{
    const uint64_t kib = keyed(proc, "meminfo", "MemAvailable:", UINT64_MAX);
    const uint64_t swap = keyed(proc, "meminfo", "SwapFree:", 0);
    const uint64_t all = kib == UINT64_MAX ? UINT64_MAX : (kib + swap) << 10;
    return least(all, left_by_groups(proc, cgroups));
}

uint64_t memory_left(void)
{
    return memory_left_in("/proc", "/sys/fs/cgroup");
}
