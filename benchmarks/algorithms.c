/* SPDX-License-Identifier: MIT */
/* The library's algorithms for each collective. */
#include <stdio.h>
#include <string.h>

#include "collective.h"

int collective_algorithms(enum collective c,
                          const char *out[COLLECTIVE_ALGORITHMS])
{
    const char *const model = collective_model(c);
    coll_algorithm_info info;
    int n = 0;
    for (int i = 0;
         model && coll_algorithm_get(i, &info) && n < COLLECTIVE_ALGORITHMS;
         i++)
        if (strcmp(info.collective, model) == 0)
            out[n++] = info.name;
    return n;
}

bool collective_has_algorithm(enum collective c, const char *name)
{
    const char *of[COLLECTIVE_ALGORITHMS];
    for (int i = collective_algorithms(c, of) - 1; i >= 0; i--)
        if (strcmp(of[i], name) == 0)
            return true;
    return false;
}

bool collective_next_name(const char **at, char name[ALGORITHM_BYTES])
{
    const size_t length = strcspn(*at, ",");
    if (!**at)
        return false;
    snprintf(name, ALGORITHM_BYTES, "%.*s", (int)length, *at);
    *at += length + ((*at)[length] == ',');
    return true;
}
