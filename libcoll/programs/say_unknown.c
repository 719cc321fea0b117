/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "programs/options.h"

void say_unknown(char *text, size_t bytes, const char *word,
                 const char *const *names, int count)
{
    const char *near = nearest_name(word, names, count);
    char list[1024] = "";
    for (int i = 0; i < count; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
                 names[i]);
    }
    snprintf(text, bytes, "found \"%s\", valid is %s%s%s%s", word, list,
             near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}
