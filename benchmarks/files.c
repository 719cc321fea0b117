/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

char *files_temporary(const char *path)
{
    const size_t size = strlen(path) + 32;
    char *const temporary = malloc(size);
    if (temporary)
        snprintf(temporary, size, "%s.%ld.tmp", path, (long)getpid());
    return temporary;
}

bool files_publish(char *temporary, const char *path, bool ok,
                   struct report_error *error)
{
    if (!temporary) {
        snprintf(error->text, sizeof error->text, "%s: no memory", path);
        return false;
    }
    if (!ok || rename(temporary, path) != 0) {
        snprintf(error->text, sizeof error->text, "%s: cannot be written: %s",
                 path, strerror(errno));
        unlink(temporary);
        ok = false;
    }
    free(temporary);
    return ok;
}
