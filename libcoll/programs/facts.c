/* SPDX-License-Identifier: MIT */
#include "programs/facts.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Names of /proc/cpuinfo. Only those matter that some kernel may use. */
static const char *const isas[] = {
    "sse4_2",      "avx",      "f16c",     "fma",         "avx2",
    "avx512f",     "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8",    "asimd",
    "asimdhp",     "asimddp",  "bf16",     "i8mm",        "sve",
    "sve2",        "svebf16",  "sme",
};

static void read_line(const char *path, char *text, int size)
{
    FILE *file = fopen(path, "re");
    text[0] = '\0';
    if (!file)
        return;
    if (fgets(text, size, file))
        text[strcspn(text, "\n")] = '\0';
    fclose(file);
}

static int has_word(const char *line, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = line; (at = strstr(at, word)); at += length)
        if (at > line && at[-1] == ' ' && strchr(" \n", at[length]))
            return 1;
    return 0;
}

static void read_cpu(struct facts *f)
{
    static char line[16384]; /* flags of one processor */
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return;
    while ((!*f->cpu || !*f->isa) && fgets(line, sizeof(line), file)) {
        const char *colon = strstr(line, ": ");
        if (colon && !strncmp(line, "model name", 10) && !*f->cpu)
            snprintf(f->cpu, sizeof(f->cpu), "%.*s",
                     (int)strcspn(colon + 2, "\n"), colon + 2);
        if (strncmp(line, "flags", 5) != 0 && strncmp(line, "Features", 8) != 0)
            continue;
        for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++)
            if (has_word(line, isas[i])) {
                const size_t used = strlen(f->isa);
                snprintf(f->isa + used, sizeof(f->isa) - used, "%s%s",
                         used ? " " : "", isas[i]);
            }
    }
    fclose(file);
}

static void read_memory(struct facts *f)
{
    char line[256];
    unsigned long long kib;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "MemTotal: %llu", &kib) == 1)
            f->memory = 1024 * kib;
        else if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            f->memory_available = 1024 * kib;
    if (file)
        fclose(file);
}

void facts_get(struct facts *f)
{
    struct utsname name;
    struct statvfs shm;
    memset(f, 0, sizeof(*f));
    if (!uname(&name)) {
        snprintf(f->host, sizeof(f->host), "%s", name.nodename);
        snprintf(f->kernel, sizeof(f->kernel), "%s %s %s", name.sysname,
                 name.release, name.machine);
    }
    read_line("/proc/sys/kernel/random/boot_id", f->boot_id,
              sizeof(f->boot_id));
    read_cpu(f);
    read_memory(f);
    if (!statvfs("/dev/shm", &shm)) {
        f->shm = (uint64_t)shm.f_blocks * shm.f_frsize;
        f->shm_free = (uint64_t)shm.f_bavail * shm.f_frsize;
    }
}
