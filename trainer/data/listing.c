/* SPDX-License-Identifier: MIT */
#include "data/listing.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int is_shown(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/* Whatever the locale. */
static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool has_control(const char *name)
{
    for (; *name; name++)
        if ((unsigned char)*name < ' ' || *name == 127)
            return true;
    return false;
}

int listing_read(struct listing *l, const char *folder, char *error,
                 size_t error_bytes)
{
    struct dirent **entries = NULL;
    *l = (struct listing){0};
    const int n = scandir(folder, &entries, is_shown, by_bytes);
    if (n < 0) {
        snprintf(error, error_bytes, "%s: cannot read: %s", folder,
                 strerror(errno));
        return -1;
    }
    int failed = 0;
    l->names = calloc((size_t)n + 1, sizeof(*l->names));
    for (int i = 0; i < n; i++) {
        failed |= has_control(entries[i]->d_name);
        if (l->names && (l->names[i] = strdup(entries[i]->d_name)))
            l->count++;
        free(entries[i]);
    }
    free(entries);
    if (l->names && l->count == n && !failed)
        return 0;
    snprintf(error, error_bytes, "%s: %s", folder,
             failed ? "found a name with a control character, valid are others"
                    : "no memory for its list");
    return -1;
}

void listing_free(struct listing *l)
{
    for (int i = 0; i < l->count; i++)
        free(l->names[i]);
    free(l->names);
    *l = (struct listing){0};
}

bool listing_has(const struct listing *l, const char *name)
{
    int i = 0;
    while (i < l->count && strcmp(l->names[i], name))
        i++;
    return i < l->count;
}

int listing_path(char path[PATH_MAX], const char *folder, const char *name,
                 char *error, size_t error_bytes)
{
    if (snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX)
        return 0;
    snprintf(error, error_bytes, "%s: the path of a file in it is too long",
             folder);
    return -1;
}

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcasecmp(name + n - m, end);
}

bool listing_is_picture(const char *name)
{
    return ends_with(name, ".jpg") || ends_with(name, ".jpeg")
           || ends_with(name, ".png");
}

bool listing_is_archive(const char *name)
{
    return ends_with(name, ".tar") || ends_with(name, ".tar.gz")
           || ends_with(name, ".tgz");
}
