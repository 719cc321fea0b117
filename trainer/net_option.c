/* SPDX-License-Identifier: MIT */
#include "net_option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "net/net.h"

static void list_nets(char *list, size_t bytes, int *count)
{
    const char *const *names = net_names();
    list[0] = '\0';
    for (*count = 0; names[*count]; (*count)++) {
        const size_t used = strlen(list);
        snprintf(list + used, bytes - used, "%s%s", *count ? ", " : "",
                 names[*count]);
    }
}

char *net_option(const struct program *p, const char *name)
{
    char error[512], list[256];
    int count;
    if (net_text(name)) {
        char *copy = strdup(net_text(name));
        if (!copy)
            abort();
        return copy;
    }
    if (!strchr(name, '/') && access(name, F_OK)) {
        list_nets(list, sizeof(list), &count);
        const char *near = nearest_name(name, net_names(), count);
        options_die(p,
                    "--net: found \"%s\", valid is %s or a file"
                    "%s%s%s",
                    name, list, near ? "; did you mean " : "", near ? near : "",
                    near ? "?" : "");
    }
    char *text = file_text(name, 1 << 20, error, sizeof(error));
    if (!text)
        options_die(p, "--net: %s", error);
    return text;
}
