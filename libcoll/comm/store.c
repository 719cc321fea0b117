/* SPDX-License-Identifier: MIT */
#include "comm/store.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "base/plain.h"

enum {
    PATH_BYTES = 512,
    WORTH_KEEPING = 3, /* samples */
    LINES = 64,        /* of links, of any hosts */
};
static const char header[] = "# libcoll learned 1\n";

/* FNV-1a; begins with offset. */
static const uint64_t offset = 0xcbf29ce484222325u;

static uint64_t hash(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *x = bytes;
    for (size_t i = 0; i < n; i++)
        h = (h ^ x[i]) * 0x100000001b3u;
    return h;
}

/* Where files are kept; false: nowhere. */
static bool folder(char *path, size_t bytes)
{
    const char *set = setting_text(SETTING_STORE);
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (!strcmp(set, "off"))
        return false;
    if (*set)
        return snprintf(path, bytes, "%s", set) < (int)bytes;
    if (cache && *cache == '/')
        return snprintf(path, bytes, "%s/libcoll", cache) < (int)bytes;
    return home && *home == '/'
           && snprintf(path, bytes, "%s/.cache/libcoll", home) < (int)bytes;
}

/* The job's hosts and groups, and by what it goes between them. */
static uint64_t world(const coll_comm *c)
{
    static const enum setting ways[] = {SETTING_TRANSPORT, SETTING_INTERFACE,
                                        SETTING_UCX_TLS,
                                        SETTING_UCX_NET_DEVICES};
    const struct layout *l = &c->layout;
    uint64_t h = hash(offset, &l->nranks, sizeof(l->nranks));
    for (int k = 0; k < l->net.nlevels; k++)
        h = hash(h, l->net.level[k].group_of, sizeof(int) * (size_t)l->nranks);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        h = hash(h, setting_text(ways[i]), strlen(setting_text(ways[i])) + 1);
    h = hash(h, &c->lanes, sizeof(c->lanes));
    h = hash(h, &c->job.nrails, sizeof(c->job.nrails));
    return hash(h, c->ranks[0].hostname, strlen(c->ranks[0].hostname));
}

static bool file_of(const coll_comm *c, char *path, size_t bytes)
{
    char at[PATH_BYTES];
    return folder(at, sizeof(at))
           && snprintf(path, bytes, "%s/learned-%016llx.txt", at,
                       (unsigned long long)world(c))
                  < (int)bytes;
}

/* mkdir -p */
static void make_folders(char *path)
{
    for (char *at = path + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(path, 0777);
        *at = '/';
    }
}

static int find_name(const char *word, const char *const *names, int n)
{
    int i = 0;
    while (i < n && strcmp(word, names[i]))
        i++;
    return i < n ? i : -1;
}

/* The row of prices that a line is about, or NULL. */
static struct price_row *row_of(struct prices *prices, const char *kind,
                                const char *algo, const char *order)
{
    const int k = find_name(kind, kind_names, NKINDS);
    const int o = find_name(order, layout_order_names, NLINEUPS);
    const struct algo *a = k >= 0 ? algo_find((enum coll_kind)k, algo) : NULL;
    for (int i = 0; i < prices->nrows && a && o >= 0; i++)
        if (&algos[prices->row[i].algo] == a && prices->row[i].order == o)
            return &prices->row[i];
    return NULL;
}

/* False: the line is not one of ours. */
static bool read_line(struct prices *prices, const char *line)
{
    char kind[32], algo[48], order[24];
    unsigned long long bytes;
    double us;
    int samples, end = 0;
    if (sscanf(line, "%31s %llu %47s %23s %lf us %d %n", kind, &bytes, algo,
               order, &us, &samples, &end)
            != 6
        || line[end] || strchr(line, '-') || !(us >= 0.01 && us <= 1e12)
        || samples < 1)
        return false;
    struct price_row *row = row_of(prices, kind, algo, order);
    if (row) /* else it is of another version, or no candidate any more */
        row->recalled[price_half((size_t)bytes)] = price_log(us * 1e-6);
    return true;
}

/* NULL: there is none, or another one's. */
static FILE *open_file(const coll_comm *c, char *path, size_t bytes, bool warns)
{
    char line[256];
    FILE *file = file_of(c, path, bytes) ? fopen(path, "re") : NULL;
    if (file && (!fgets(line, sizeof(line), file) || strcmp(line, header))) {
        if (warns)
            log_line(COLL_LOG_WARN, "store",
                     "%s:1: not a file of learned times", path);
        fclose(file);
        file = NULL;
    }
    return file;
}

void store_load(coll_comm *c)
{
    char path[PATH_BYTES + 64], line[256];
    /* Where links were measured it was warned about. */
    FILE *file = open_file(c, path, sizeof(path), !(c->links.inside.beta > 0));
    if (!file)
        return;
    const locale_t locale = uselocale(plain_locale());
    for (int number = 2; fgets(line, sizeof(line), file); number++)
        if (*line != '#' && !links_begin(line)
            && !read_line(&c->select.prices, line))
            log_line(COLL_LOG_WARN, "store", "%s:%d: not understood", path,
                     number);
    uselocale(locale);
    fclose(file);
}

/* How many of any hosts. */
static int load_links(const coll_comm *c, struct links_line *lines, bool warns)
{
    char path[PATH_BYTES + 64], line[256];
    FILE *file = open_file(c, path, sizeof(path), warns);
    int n = 0;
    if (!file)
        return 0;
    const locale_t locale = uselocale(plain_locale());
    for (int number = 2; n < LINES && fgets(line, sizeof(line), file);
         number++) {
        if (!links_begin(line))
            continue;
        if (links_parse(line, &lines[n]))
            n++;
        else if (warns)
            log_line(COLL_LOG_WARN, "store", "%s:%d: not understood", path,
                     number);
    }
    uselocale(locale);
    fclose(file);
    return n;
}

/* Of the job's hosts. */
static uint64_t names(const coll_comm *c)
{
    uint64_t h = offset;
    for (int r = 0; r < c->nranks; r++)
        h = hash(h, c->ranks[r].hostname, strlen(c->ranks[r].hostname) + 1);
    return h;
}

/* Those of the job's hosts are taken out of lines. */
static void take_own(const coll_comm *c, struct links_line *lines, int *n,
                     struct links_history *own)
{
    const uint64_t hosts = names(c);
    int others = 0;
    own->n = 0;
    for (int i = 0; i < *n; i++)
        if (lines[i].hosts != hosts)
            lines[others++] = lines[i];
        else if (own->n < LINKS_KEPT)
            own->job[own->n++] = lines[i].links;
    *n = others;
}

bool store_load_links(const coll_comm *c, struct links_history *own, bool warns)
{
    struct links_line lines[LINES];
    int n = load_links(c, lines, warns);
    take_own(c, lines, &n, own);
    return own->n > 0;
}

/* The time of a candidate in half an octave as it is known now; 0: unknown. */
static double known(const struct select *s, int row, int half, int *samples,
                    bool *fresh)
{
    const struct price_row *r = &s->prices.row[row];
    int32_t log_time;
    *samples = select_learned(s, row, half, &log_time);
    if (*samples >= WORTH_KEEPING) {
        *fresh = true;
        return select_seconds(log_time);
    }
    *samples = 1;
    return r->recalled[half] == PRICE_NONE ? 0
                                           : select_seconds(r->recalled[half]);
}

/* Whether there is anything new; file NULL: writes nothing. */
static bool write_times(const coll_comm *c, FILE *file)
{
    const struct select *s = &c->select;
    bool fresh = false;
    for (int i = 0; i < s->prices.nrows; i++)
        for (int half = 0; half < PRICE_HALVES; half++) {
            int samples;
            const struct price_row *row = &s->prices.row[i];
            const double seconds = known(s, i, half, &samples, &fresh);
            if (seconds > 0 && file)
                fprintf(file, "%s %zu %s %s %.4g us %d\n",
                        kind_names[algos[row->algo].kind],
                        price_half_from(half), algos[row->algo].name,
                        layout_order_names[row->order], 1e6 * seconds, samples);
        }
    return fresh;
}

/* What there is of links, with what this job measured; what jobs stored that
 * ended while it ran counts, too. */
static void write_links(const coll_comm *c, FILE *file)
{
    struct links_line lines[LINES], line = {.hosts = names(c)};
    struct links_history own;
    int n = load_links(c, lines, false);
    take_own(c, lines, &n, &own);
    if (c->moved)
        links_keep_alike(&own, &c->links);
    if (c->links.inside.beta > 0)
        links_add(&own, &c->links);
    for (int i = 0; i < own.n; i++) {
        line.links = own.job[i];
        links_print(&line, file);
    }
    for (int i = 0; i < n && own.n + i < LINES; i++)
        links_print(&lines[i], file);
}

/* For people: the name of the file is a hash. */
static void write_shape(const coll_comm *c, FILE *file)
{
    fprintf(file, "# %d rank%s on %d host%s (rank 0: %s)\n", c->nranks,
            c->nranks == 1 ? "" : "s", c->nhosts, c->nhosts == 1 ? "" : "s",
            c->ranks[0].hostname);
}

/* It appears whole. False: errno says why not. */
static bool write_file(const coll_comm *c, char *path)
{
    char temporary[PATH_BYTES + 96];
    make_folders(path);
    snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
    const int fd = mkostemp(temporary, O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file)
        return false;
    const locale_t locale = uselocale(plain_locale());
    fputs(header, file);
    write_shape(c, file);
    write_links(c, file);
    write_times(c, file);
    uselocale(locale);
    const bool whole = !ferror(file);
    if (fclose(file) == 0 && whole && rename(temporary, path) == 0)
        return true;
    const int error = errno;
    unlink(temporary);
    errno = error;
    return false;
}

void store_save(const coll_comm *c)
{
    char path[PATH_BYTES + 64];
    const bool learned = c->select.adapts && write_times(c, NULL);
    const bool measured = c->select.adapts && c->links.inside.beta > 0;
    if ((!learned && !measured) || !file_of(c, path, sizeof(path)))
        return;
    /* Every job measures its links again, so those alone are a small loss. */
    if (!write_file(c, path))
        log_line(learned ? COLL_LOG_WARN : COLL_LOG_INFO, "store",
                 "what was learned is lost: %s: %s", path, strerror(errno));
}
