/* SPDX-License-Identifier: MIT */
/* What is stored, for people: a table of each file, and a plot of one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "comm/links.h"
#include "programs/tune_report.h"
#include "programs/tune_store.h"

static const char header[] = "# libcoll learned 1";

/* A line of a file. */
struct row {
    char collective[32], algorithm[48], order[24];
    unsigned long long bytes;
    double us;
    int samples;
};

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
    char shape[160]; /* the job's; "": an older version wrote the file */
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
        if (*line == '#') {
            if (number == 2)
                snprintf(to.shape, sizeof(to.shape), "%.150s",
                         line + strspn(line, "# "));
            continue;
        }
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

/* Whether a row is the fastest of its length. */
static bool is_first(const struct row *rows, int i)
{
    return i == 0 || rows[i].bytes != rows[i - 1].bytes
           || strcmp(rows[i].collective, rows[i - 1].collective);
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

static void show_file(const struct tune_file *f, const struct stored *stored,
                      const char *collective)
{
    char when[32];
    const struct row *rows = stored->rows;
    const int n = stored->n;
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M",
             localtime(&f->changed.tv_sec));
    printf("%s, %s, %d time%s\n", f->path, when, n, n == 1 ? "" : "s");
    if (*stored->shape)
        printf("  %s\n", stored->shape);
    show_links(&stored->links);
    printf("  %-15s %12s  %-26s %-12s %10s %8s\n", "collective", "from bytes",
           "algorithm", "rank order", "measured", "samples");
    for (int i = 0; i < n; i++)
        if (!collective || !strcmp(collective, rows[i].collective))
            show_row(&rows[i], is_first(rows, i));
}

/* --- the plot ---------------------------------------------------------------
 */

static bool is_drawn(const char *name, const char *collective)
{
    const char *known;
    if (collective)
        return !strcmp(name, collective);
    for (int i = 0; (known = tune_collective(i)); i++)
        if (!strcmp(name, known))
            return true;
    return false; /* another version's */
}

/* The rows of one collective, or of all, as a job would report them; NULL: no
 * memory. The results and the first one's candidates, which are all of them,
 * are the caller's; they point into rows. */
static struct tune_result *results_of(const struct row *rows, int n,
                                      const char *collective, int *nresults)
{
    struct tune_result *results = calloc((size_t)n + 1, sizeof(*results));
    coll_candidate *all = calloc((size_t)n + 1, sizeof(*all));
    *nresults = 0;
    if (!results || !all) {
        free(results);
        free(all);
        return NULL;
    }
    results[0].candidates = all;
    for (int i = 0; i < n; i++) {
        const struct row *r = &rows[i];
        const bool first = is_first(rows, i);
        if (!is_drawn(r->collective, collective))
            continue;
        if (first)
            results[(*nresults)++] =
                (struct tune_result){.collective = r->collective,
                                     .bytes = r->bytes,
                                     .candidates = all};
        results[*nresults - 1].n++;
        *all++ = (coll_candidate){.algorithm = r->algorithm,
                                  .rank_order = r->order,
                                  .measured_seconds = 1e-6 * r->us,
                                  .samples = r->samples,
                                  .chosen = first};
    }
    return results;
}

/* False, after a line on stderr. */
static bool draw(const struct tune_file *f, const struct stored *stored,
                 const char *collective, const char *plot)
{
    struct tune_report t = {
        .subtitle = *stored->shape ? stored->shape : f->path,
        .marked = "fastest",
    };
    struct tune_result *results =
        results_of(stored->rows, stored->n, collective, &t.n);
    coll_candidate *all = results ? results[0].candidates : NULL;
    t.results = results;
    if (!results)
        fprintf(stderr, "coll_tune: %s: %s\n", plot, strerror(ENOMEM));
    const bool ok = results && tune_write_plot(&t, plot);
    free(all);
    free(results);
    return ok;
}

/* Of those that are whole, the one that was stored last; NULL: there is none.
 */
static const struct tune_file *last_stored(const struct tune_files *files)
{
    const struct tune_file *last = NULL;
    for (int i = 0; i < files->n; i++) {
        const struct tune_file *f = &files->file[i];
        if (f->whole
            && (!last || f->changed.tv_sec > last->changed.tv_sec
                || (f->changed.tv_sec == last->changed.tv_sec
                    && f->changed.tv_nsec > last->changed.tv_nsec)))
            last = f;
    }
    return last;
}

int tune_show(const char *folder, const char *collective, const char *plot)
{
    struct tune_files files;
    int wrong = 0, shown = 0;
    if (!tune_list_or_say(folder, &files))
        return 1;
    const struct tune_file *last = last_stored(&files);
    for (int i = 0; i < files.n; i++) {
        const struct tune_file *f = &files.file[i];
        if (!f->whole)
            continue;
        printf("%s", shown++ ? "\n" : "");
        const struct stored stored = read_file(f->path, &wrong);
        show_file(f, &stored, collective);
        if (plot && f == last)
            wrong += !draw(f, &stored, collective, plot);
        free(stored.rows);
    }
    if (plot && shown > 1)
        printf("\n--plot is of %s, which was stored last.\n", last->path);
    if (!shown)
        printf("Nothing is stored in %s.\n", folder);
    free(files.file);
    return wrong > 0;
}
