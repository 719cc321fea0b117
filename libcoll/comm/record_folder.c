/* SPDX-License-Identifier: MIT */
/* Where flight recorders keep their files, and that these do not pile up. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "comm/record.h"

enum { KEPT_FILES = 256, KEPT_SECONDS = 7 * 24 * 3600 };

/* A folder of everybody's has names that anybody may take: what is there must
 * be the user's own and closed to others. */
static const char *check_own(const char *path)
{
    struct stat about;
    if (lstat(path, &about) != 0)
        return strerror(errno);
    if (!S_ISDIR(about.st_mode))
        return "it is no folder";
    if (about.st_uid != geteuid() || about.st_mode & 077)
        return "it is not this user's alone (mode 0700)";
    return NULL;
}

static void default_folder(char *path, size_t bytes)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat about;
    if (runtime && *runtime == '/' && strlen(runtime) + 16 < bytes
        && stat(runtime, &about) == 0 && about.st_uid == geteuid())
        snprintf(path, bytes, "%s/libcoll", runtime);
    else
        snprintf(path, bytes, "/tmp/libcoll-%ld", (long)geteuid());
}

char *record_folder(const char **why)
{
    static _Thread_local char sentence[512];
    char own[256];
    const char *set = setting_text(SETTING_RECORDER);
    *why = NULL;
    if (!strcmp(set, "off"))
        return NULL;
    default_folder(own, sizeof(own));
    const char *path = *set ? set : own;
    mkdir(path, 0700); /* or it is there */
    const char *wrong = *set ? NULL : check_own(path);
    char *folder = wrong ? NULL : realpath(path, NULL);
    if (!folder) {
        snprintf(sentence, sizeof(sentence),
                 "%s: %s (COLL_RECORDER names another folder, or is off)", path,
                 wrong ? wrong : strerror(errno));
        *why = sentence;
    }
    return folder;
}

bool record_is_name(const char *name, long *pid)
{
    int rank, end = 0;
    if (strncmp(name, "coll-", 5) || strspn(name + 5, "0123456789abcdef") != 16
        || name[21] != '-' || !isdigit((unsigned char)name[22]))
        return false;
    return sscanf(name + 22, "%7d-%10ld.rec%n", &rank, pid, &end) == 2 && end
           && !name[22 + end] && *pid > 0;
}

struct old {
    char name[64];
    time_t changed;
};

static int by_age(const void *a, const void *b)
{
    const struct old *x = a, *y = b;
    return (x->changed > y->changed) - (x->changed < y->changed);
}

/* All records of other processes; their number. */
static size_t list(DIR *d, struct old **files)
{
    size_t n = 0, room = 0;
    struct stat about;
    long pid;
    for (struct dirent *e; (e = readdir(d));) {
        if (strlen(e->d_name) >= sizeof((*files)->name)
            || !record_is_name(e->d_name, &pid) || pid == (long)getpid()
            || fstatat(dirfd(d), e->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0
            || !S_ISREG(about.st_mode) || about.st_uid != geteuid())
            continue;
        if (n == room) {
            room = room ? 2 * room : 64;
            struct old *more = realloc(*files, room * sizeof(*more));
            if (!more)
                break;
            *files = more;
        }
        snprintf((*files)[n].name, sizeof((*files)->name), "%s", e->d_name);
        (*files)[n++].changed = about.st_mtime;
    }
    return n;
}

/* Of another process: to close a file of its own would end its lock. */
static bool is_written(int folder, const char *name)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    const bool written =
        fd < 0 || fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
    if (fd >= 0)
        close(fd);
    return written;
}

void record_clean(const char *folder)
{
    struct old *files = NULL;
    const time_t now = time(NULL);
    DIR *d = opendir(folder);
    if (!d)
        return;
    const size_t n = list(d, &files);
    if (n)
        qsort(files, n, sizeof(*files), by_age);
    for (size_t i = 0, left = n; i < n; i++) {
        if (left <= KEPT_FILES && files[i].changed + KEPT_SECONDS > now)
            break;
        if (!is_written(dirfd(d), files[i].name)
            && unlinkat(dirfd(d), files[i].name, 0) == 0)
            left--;
    }
    free(files);
    closedir(d);
}
