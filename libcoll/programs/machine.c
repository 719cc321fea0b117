/* SPDX-License-Identifier: MIT */
#include "programs/machine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void machine_describe(char *text, size_t bytes)
{
    FILE *const file = fopen("/proc/cpuinfo", "re");
    char line[256], model[100] = "unknown CPU";
    while (file && fgets(line, sizeof(line), file)) {
        char *const colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        colon[1 + strcspn(colon + 1, "\n")] = '\0';
        snprintf(model, sizeof(model), "%s", colon + 1 + (colon[1] == ' '));
        break;
    }
    if (file)
        fclose(file);
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(text, bytes, "%s, %ld core%s", model, cores,
             cores == 1 ? "" : "s");
}
