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
#include "comm/links.h"

static const char header[] = "# libcoll learned 1";

/* A line of a file. */
struct row {
    char collective[32], algorithm[48], order[24];
    unsigned long long bytes;
    double us;
    int samples;
};

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

/* By collective as in the file, then by length, the fastest first. */
static int by_time(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    const int of = strcmp(x->collective, y->collective);
    if (of)
        return of;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return (x->us > y->us) - (x->us < y->us);
}

/* The library's own form. */
static bool parse(const char *line, struct row *r)
{
    return sscanf(line, "%31s %llu %47s %23s %lf us %d", r->collective,
                  &r->bytes, r->algorithm, r->order, &r->us, &r->samples)
               == 6
           && r->us > 0 && r->us <= 1e12;
}

/* What a file says. */
struct stored {
    struct row *rows; /* the caller frees them */
    int n;
    struct links_history links; /* of the hosts that come first */
    uint64_t hosts;
};

static void read_links(const char *path, int number, const char *line,
                       struct stored *to, int *wrong)
{
    struct links_line links;
    if (!links_parse(line, &links)) {
        fprintf(stderr,
                "coll_tune: %s:%d: found \"%s\", valid is links "
                "HASH inside ..., as libcoll writes it\n",
                path, number, line);
        ++*wrong;
        return;
    }
    if (to->links.n == 0)
        to->hosts = links.hosts;
    if (links.hosts == to->hosts && to->links.n < LINKS_KEPT)
        to->links.job[to->links.n++] = links.links;
}

/* *wrong counts the lines that are not understood, after a line on stderr for
 * each. */
static struct stored read_file(const char *path, int *wrong)
{
    char line[512];
    struct stored to = {.n = 0};
    FILE *file = fopen(path, "re");
    if (!file) {
        fprintf(stderr, "coll_tune: %s: cannot be read: %s\n", path,
                strerror(errno));
        ++*wrong;
        return to;
    }
    for (int number = 1; fgets(line, sizeof(line), file); number++) {
        line[strcspn(line, "\n")] = '\0';
        if (number == 1 && strcmp(line, header)) {
            fprintf(stderr, "coll_tune: %s:1: found \"%s\", valid is \"%s\"\n",
                    path, line, header);
            ++*wrong;
            break;
        }
        struct row r, *more;
        if (*line == '#')
            continue;
        if (links_begin(line)) {
            read_links(path, number, line, &to, wrong);
        } else if (!parse(line, &r)) {
            fprintf(stderr,
                    "coll_tune: %s:%d: found \"%s\", valid is COLLECTIVE BYTES "
                    "ALGORITHM ORDER TIME us SAMPLES\n",
                    path, number, line);
            ++*wrong;
        } else if ((more =
                        realloc(to.rows, (size_t)(to.n + 1) * sizeof(*more)))) {
            to.rows = more;
            to.rows[to.n++] = r;
        }
    }
    fclose(file);
    if (to.n)
        qsort(to.rows, (size_t)to.n, sizeof(*to.rows), by_time);
    return to;
}

static void show_link(const char *name, const struct sim_link *link)
{
    printf("  %-15s %9.3g us %9.3g us %9.3g GB/s\n", name, 1e6 * link->alpha,
           1e6 * link->overhead, 1e-9 / link->beta);
}

static void show_links(const struct links_history *h)
{
    if (h->n == 0)
        return;
    const struct links l = links_middle(h);
    printf("  %-15s %12s %12s %14s   measured %d time%s\n", "links", "latency",
           "at each end", "rate", h->n, h->n == 1 ? "" : "s");
    show_link("between hosts", &l.inside);
    if (memcmp(&l.inside, &l.across, sizeof(l.inside)) != 0)
        show_link("between groups", &l.across);
    if (l.shared > 0)
        printf("  %-15s %35.3g GB/s\n", "a group's link", 1e-9 / l.shared);
    if (l.local.beta > 0)
        show_link("in a host", &l.local);
    printf("\n");
}

static void show_row(const struct row *r, bool fastest)
{
    char time[24];
    printf("%c %-15s ", fastest ? '>' : ' ', fastest ? r->collective : "");
    if (fastest && strcmp(r->collective, "barrier"))
        printf("%12llu", r->bytes);
    else
        printf("%12s", "");
    printf("  %-26s %-12s %10s %8d\n", r->algorithm, r->order,
           tune_spoken(1e-6 * r->us, time), r->samples);
}

static void show_file(const struct tune_file *f, const char *collective,
                      int *wrong)
{
    char when[32];
    const struct stored stored = read_file(f->path, wrong);
    const struct row *rows = stored.rows;
    const int n = stored.n;
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M",
             localtime(&f->changed.tv_sec));
    printf("%s, %s, %d time%s\n", f->path, when, n, n == 1 ? "" : "s");
    show_links(&stored.links);
    printf("  %-15s %12s  %-26s %-12s %10s %8s\n", "collective", "from bytes",
           "algorithm", "rank order", "measured", "samples");
    for (int i = 0; i < n; i++)
        if (!collective || !strcmp(collective, rows[i].collective))
            show_row(&rows[i],
                     i == 0 || rows[i].bytes != rows[i - 1].bytes
                         || strcmp(rows[i].collective, rows[i - 1].collective));
    free(stored.rows);
}

static bool list_or_say(const char *folder, struct tune_files *files)
{
    if (tune_list(folder, files))
        return true;
    fprintf(stderr, "coll_tune: %s: cannot be read: %s\n", folder,
            strerror(errno));
    return false;
}

int tune_show(const char *folder, const char *collective)
{
    struct tune_files files;
    int wrong = 0, shown = 0;
    if (!list_or_say(folder, &files))
        return 1;
    for (int i = 0; i < files.n; i++)
        if (files.file[i].whole) {
            printf("%s", shown++ ? "\n" : "");
            show_file(&files.file[i], collective, &wrong);
        }
    if (!shown)
        printf("Nothing is stored in %s.\n", folder);
    free(files.file);
    return wrong > 0;
}

int tune_forget(const char *folder)
{
    struct tune_files files;
    int status = 0;
    if (!list_or_say(folder, &files))
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
