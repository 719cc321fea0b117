/* SPDX-License-Identifier: MIT */
#include "programs/tune_store.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coll/coll.h"

const char *tune_spoken(double seconds, char text[24])
{
    static const struct {
        double most;
        double unit;
        const char *name;
    } units[] = {
        {999.5e-6, 1e-6, "us"},
        {999.5e-3, 1e-3, "ms"},
        {1e30,     1,    "s" }
    };
    int i = 0;
    while (seconds >= units[i].most)
        i++;
    snprintf(text, 24, "%.3g %s", seconds / units[i].unit, units[i].name);
    return text;
}

const char *tune_setting(const char *name)
{
    coll_setting_info s;
    for (int i = 0; coll_setting_get(i, &s); i++)
        if (!strcmp(s.name, name))
            return s.value;
    return "";
}

bool tune_folder(char *path, size_t bytes, const char **why)
{
    const char *set = tune_setting("COLL_STORE");
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    *why = "COLL_STORE is off";
    if (!strcmp(set, "off"))
        return false;
    if (*set)
        length = snprintf(path, bytes, "%s", set);
    else if (cache && *cache == '/')
        length = snprintf(path, bytes, "%s/libcoll", cache);
    else if (home && *home == '/')
        length = snprintf(path, bytes, "%s/.cache/libcoll", home);
    *why = length < 0 ? "there is no folder for it: COLL_STORE, XDG_CACHE_HOME "
                        "and HOME are not set"
                      : "the folder's name is too long";
    return length >= 0 && (size_t)length < bytes;
}

/* "learned-0123456789abcdef.txt", and behind it six letters and digits, as in
 * ".a1B2c3", while a job writes it. Nothing else in the folder is ours. */
static bool is_ours(const char *name, bool *whole)
{
    static const char before[] = "learned-", after[] = ".txt";
    const char *at = name + sizeof(before) - 1;
    if (strncmp(name, before, sizeof(before) - 1)
        || strspn(at, "0123456789abcdef") != 16
        || strncmp(at + 16, after, sizeof(after) - 1))
        return false;
    at += 16 + sizeof(after) - 1;
    *whole = !*at;
    for (int i = 0; i < 6 && *at == '.'; i++)
        if (!isalnum((unsigned char)at[1 + i]))
            return false;
    return !*at || (*at == '.' && !at[7]);
}

static int by_name(const void *a, const void *b)
{
    const struct tune_file *x = a, *y = b;
    return strcmp(x->path, y->path);
}

static bool add(struct tune_files *files, const char *folder, const char *name)
{
    struct stat about;
    struct tune_file f;
    if (!is_ours(name, &f.whole)
        || snprintf(f.path, sizeof(f.path), "%s/%s", folder, name)
               >= (int)sizeof(f.path)
        || lstat(f.path, &about) != 0 || !S_ISREG(about.st_mode))
        return true;
    f.inode = about.st_ino;
    f.changed = about.st_mtim;
    struct tune_file *more =
        realloc(files->file, (size_t)(files->n + 1) * sizeof(*more));
    if (!more)
        return false;
    files->file = more;
    files->file[files->n++] = f;
    return true;
}

bool tune_list(const char *folder, struct tune_files *files)
{
    *files = (struct tune_files){.n = 0};
    DIR *d = opendir(folder);
    if (!d)
        return errno == ENOENT;
    bool ok = true;
    for (struct dirent *e; ok && (e = readdir(d));)
        ok = add(files, folder, e->d_name);
    closedir(d);
    if (!ok)
        errno = ENOMEM;
    if (files->n > 0)
        qsort(files->file, (size_t)files->n, sizeof(*files->file), by_name);
    return ok;
}

const struct tune_file *tune_new(const struct tune_files *before,
                                 const struct tune_files *now)
{
    for (int i = 0; i < now->n; i++) {
        const struct tune_file *f = &now->file[i];
        bool old = !f->whole;
        for (int k = 0; k < before->n; k++) {
            const struct tune_file *b = &before->file[k];
            old |= !strcmp(b->path, f->path) && b->inode == f->inode
                   && b->changed.tv_sec == f->changed.tv_sec
                   && b->changed.tv_nsec == f->changed.tv_nsec;
        }
        if (!old)
            return f;
    }
    return NULL;
}

bool tune_list_or_say(const char *folder, struct tune_files *files)
{
    if (tune_list(folder, files))
        return true;
    fprintf(stderr, "coll_tune: %s: cannot be read: %s\n", folder,
            strerror(errno));
    return false;
}

int tune_forget(const char *folder)
{
    struct tune_files files;
    int status = 0;
    if (!tune_list_or_say(folder, &files))
        return 1;
    for (int i = 0; i < files.n; i++) {
        const char *path = files.file[i].path;
        if (unlink(path) == 0) {
            printf("deleted %s\n", path);
        } else {
            fprintf(stderr, "coll_tune: %s: cannot be deleted: %s\n", path,
                    strerror(errno));
            status = 1;
        }
    }
    if (!files.n)
        printf("Nothing is stored in %s.\n", folder);
    free(files.file);
    return status;
}
