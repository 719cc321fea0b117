/* SPDX-License-Identifier: MIT */
#include "programs/whole_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool refuse(struct whole_file *f, int cause, char *error,
                   size_t error_bytes)
{
    snprintf(error, error_bytes, "%s: cannot be written: %s", f->path,
             strerror(cause));
    free(f->temporary);
    return false;
}

bool whole_file_begin(struct whole_file *f, const char *path, char *error,
                      size_t error_bytes)
{
    const size_t size = strlen(path) + 32;
    *f = (struct whole_file){.path = path, .temporary = malloc(size)};
    if (f->temporary) {
        snprintf(f->temporary, size, "%s.%ld.tmp", path, (long)getpid());
        f->stream = fopen(f->temporary, "wbe");
    }
    return f->stream || refuse(f, errno, error, error_bytes);
}

bool whole_file_end(struct whole_file *f, bool ok, char *error,
                    size_t error_bytes)
{
    ok = ok && !fflush(f->stream) && !ferror(f->stream)
         && !fsync(fileno(f->stream));
    int cause = errno;
    fclose(f->stream);
    if (ok && rename(f->temporary, f->path) != 0) {
        cause = errno;
        ok = false;
    }
    if (!ok) {
        unlink(f->temporary);
        return refuse(f, cause, error, error_bytes);
    }
    free(f->temporary);
    return true;
}
