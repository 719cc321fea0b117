/* SPDX-License-Identifier: MIT */
#include "programs/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool refuse(const char *path, int cause, char *error, size_t error_bytes)
{
    snprintf(error, error_bytes, "%s: cannot write: %s", path, strerror(cause));
    return false;
}

/* --- what is there ---------------------------------------------------------
 */

/* The standard stream that leads to it, or -1. */
static int standard_stream(const struct stat *it)
{
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        struct stat own;
        if (!fstat(fd, &own) && own.st_dev == it->st_dev
            && own.st_ino == it->st_ino)
            return fd;
    }
    return -1;
}

enum kind { ORDINARY, STANDARD, SPECIAL, WRONG };

/* An ordinary file may be there or not yet. WRONG: errno says why. */
static enum kind kind_of(const char *path, int *standard)
{
    struct stat it;
    const size_t length = strlen(path);
    if (stat(path, &it)) {
        if (errno != ENOENT || length == 0)
            return WRONG;
        errno = EISDIR;
        return path[length - 1] == '/' ? WRONG : ORDINARY;
    }
    *standard = standard_stream(&it);
    if (*standard >= 0)
        return STANDARD;
    errno = EISDIR;
    return S_ISDIR(it.st_mode)   ? WRONG
           : S_ISREG(it.st_mode) ? ORDINARY
                                 : SPECIAL;
}

/* NULL: no memory, or there is no such folder. The caller frees. */
static char *folder_of(const char *path)
{
    char *copy = strdup(path);
    char *folder = copy ? realpath(dirname(copy), NULL) : NULL;
    free(copy);
    return folder;
}

/* Without links, also where there is no file yet; NULL as above. */
static char *resolve(const char *path)
{
    char *found = realpath(path, NULL);
    char *folder = found ? NULL : folder_of(path);
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (folder) {
        const size_t size = strlen(folder) + strlen(name) + 2;
        found = malloc(size);
        if (found)
            snprintf(found, size, "%s/%s", folder, name);
    }
    free(folder);
    return found;
}

bool whole_file_same(const char *a, const char *b)
{
    int standard;
    if (kind_of(a, &standard) != ORDINARY || kind_of(b, &standard) != ORDINARY)
        return false;
    char *one = resolve(a), *other = resolve(b);
    const bool same = one && other && !strcmp(one, other);
    free(one);
    free(other);
    return same;
}

/* --- writing ---------------------------------------------------------------
 */

static void forget(struct whole_file *f)
{
    free(f->path);
    free(f->temporary);
    *f = (struct whole_file){.said = f->said};
}

static FILE *open_standard(int fd)
{
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return own < 0 ? NULL : fdopen(own, "w");
}

/* Which nothing is left of if the program is killed, where the file system can.
 */
static FILE *open_nameless(const char *folder)
{
    const int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    return fd < 0 ? NULL : fdopen(fd, "w");
}

/* Follows no link that somebody may have put there. */
static FILE *open_new(const char *path)
{
    unlink(path); /* of a process of this number that was killed */
    const int fd =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return fd < 0 ? NULL : fdopen(fd, "w");
}

static FILE *open_beside(struct whole_file *f)
{
    f->path = resolve(f->said);
    char *folder = f->path ? folder_of(f->path) : NULL;
    const size_t size = folder ? strlen(folder) + NAME_MAX : 0;
    f->temporary = folder ? malloc(size) : NULL;
    if (f->temporary) {
        snprintf(f->temporary, size, "%s/.%.200s.%ld.tmp", folder,
                 strrchr(f->path, '/') + 1, (long)getpid());
        f->stream = open_nameless(folder);
        f->nameless = f->stream;
        if (!f->stream)
            f->stream = open_new(f->temporary);
        struct stat old;
        if (f->stream && !stat(f->path, &old))
            (void)!fchmod(fileno(f->stream), old.st_mode & 0777);
    }
    free(folder);
    return f->stream;
}

bool whole_file_begin(struct whole_file *f, const char *path, char *error,
                      size_t error_bytes)
{
    int standard;
    const enum kind kind = kind_of(path, &standard);
    *f = (struct whole_file){.said = path};
    if (kind == STANDARD)
        f->stream = open_standard(standard);
    else if (kind == SPECIAL)
        f->stream = fopen(path, "we");
    else if (kind == ORDINARY)
        open_beside(f);
    if (f->stream)
        return true;
    const int cause = errno;
    forget(f);
    return refuse(path, cause, error, error_bytes);
}

/* Makes a rename last through a crash of the machine. File systems that
 * cannot flush a folder lose nothing that they had promised. */
static void flush_folder(const char *path)
{
    char *folder = folder_of(path);
    const int fd =
        folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

static bool give_name(const struct whole_file *f)
{
    char own[64];
    snprintf(own, sizeof(own), "/proc/self/fd/%d", fileno(f->stream));
    unlink(f->temporary); /* see open_new() */
    return !linkat(AT_FDCWD, own, AT_FDCWD, f->temporary, AT_SYMLINK_FOLLOW);
}

bool whole_file_end(struct whole_file *f, bool ok, char *error,
                    size_t error_bytes)
{
    ok = ok && !fflush(f->stream) && !ferror(f->stream)
         && (!f->temporary || !fsync(fileno(f->stream)))
         && (!f->nameless || give_name(f));
    int cause = errno;
    fclose(f->stream);
    if (ok && f->temporary && rename(f->temporary, f->path) != 0) {
        cause = errno;
        ok = false;
    }
    if (ok && f->temporary)
        flush_folder(f->path);
    else if (f->temporary)
        unlink(f->temporary);
    forget(f);
    return ok || refuse(f->said, cause, error, error_bytes);
}

void whole_file_drop(struct whole_file *f)
{
    fclose(f->stream);
    if (f->temporary && !f->nameless)
        unlink(f->temporary);
    forget(f);
}

/* Of what is there. */
static bool is_writable(const char *path, char *error, size_t error_bytes)
{
    return !access(path, W_OK) || refuse(path, errno, error, error_bytes);
}

bool whole_file_possible(const char *path, char *error, size_t error_bytes)
{
    int standard;
    const enum kind kind = kind_of(path, &standard);
    struct whole_file f;
    if (kind == STANDARD)
        return true;
    if (kind == SPECIAL) /* to open a pipe would be to wait */
        return is_writable(path, error, error_bytes);
    if (!whole_file_begin(&f, path, error, error_bytes))
        return false;
    whole_file_drop(&f);
    return true;
}

FILE *whole_file_watched(const char *path, bool go_on)
{
    int standard;
    const enum kind kind = kind_of(path, &standard);
    return kind == WRONG      ? NULL
           : kind == STANDARD ? open_standard(standard)
                              : fopen(path, go_on ? "ae" : "we");
}

bool whole_file_watchable(const char *path, char *error, size_t error_bytes)
{
    int standard;
    const enum kind kind = kind_of(path, &standard);
    return kind == ORDINARY && !access(path, F_OK)
               ? is_writable(path, error, error_bytes)
               : whole_file_possible(path, error, error_bytes);
}
