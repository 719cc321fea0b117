/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "plot.h"
#include "programs/whole_file.h"

/* Without memory the curves end early; training does not. */
static void remember(struct report *r, const struct report_point *p)
{
    if (r->npoints == r->room) {
        const size_t room = r->room ? 2 * r->room : 1024;
        void *points = realloc(r->points, room * sizeof(*r->points));
        if (!points)
            return;
        r->points = points;
        r->room = room;
    }
    r->points[r->npoints] = *p;
    r->points[r->npoints++].parts = NULL;
}

static void write_point(FILE *log, const struct report_point *p)
{
    fprintf(log,
            "{\"step\": %ld, \"epoch\": %ld, \"loss\": %.9g, \"lr\": %.9g, "
            "\"accuracy\": %.6g, \"images_per_s\": %.6g, "
            "\"comm_share\": %.6g, \"step_ms\": %.6g",
            p->step, p->epoch, p->loss, p->lr, p->accuracy, p->images_per_s,
            p->comm_share, p->step_ms);
    if (isfinite(p->test_loss))
        fprintf(log, ", \"test_loss\": %.9g, \"test_accuracy\": %.9g",
                p->test_loss, p->test_accuracy);
    if (p->slowest >= 0)
        fprintf(log, ", \"slowest_rank\": %d, \"slowest_ms\": %.6g", p->slowest,
                1e3 * p->late);
    if (p->parts) {
        fputs(", \"parts_ms\": ", log);
        breakdown_write(p->parts, 1e3, log);
    }
    fputs("}\n", log);
}

/* Only what write_point() wrote, to the end: the last line of a run that was
 * killed, or of a full disk, may be cut. */
static bool read_point(const char *line, struct report_point *p)
{
    int length = 0;
    *p = (struct report_point){.test_loss = NAN, .test_accuracy = NAN};
    if (sscanf(line,
               "{\"step\": %ld, \"epoch\": %ld, \"loss\": %lf, \"lr\": %lf, "
               "\"accuracy\": %lf, \"images_per_s\": %lf, "
               "\"comm_share\": %lf, \"step_ms\": %lf%n",
               &p->step, &p->epoch, &p->loss, &p->lr, &p->accuracy,
               &p->images_per_s, &p->comm_share, &p->step_ms, &length)
            != 8
        || !length || !strstr(line + length, "}\n"))
        return false;
    if (line[length] == ',')
        sscanf(line + length, ", \"test_loss\": %lf, \"test_accuracy\": %lf",
               &p->test_loss, &p->test_accuracy);
    return true;
}

/* Rewrites the log of the run that is resumed: an interrupted one may have
 * gone on after its last checkpoint, and those steps come again. */
static int keep_lines(struct report *r, char *error, size_t error_bytes)
{
    struct whole_file f;
    char *line = NULL;
    size_t room = 0;
    struct stat it;
    if (stat(r->log_path, &it) || !S_ISREG(it.st_mode))
        return 0;
    FILE *old = fopen(r->log_path, "re");
    if (!old)
        return 0;
    if (!whole_file_begin(&f, r->log_path, error, error_bytes)) {
        fclose(old);
        return -1;
    }
    while (getline(&line, &room, old) > 0) {
        struct report_point p;
        if (!read_point(line, &p) || p.step > r->first_step)
            continue;
        fputs(line, f.stream);
        remember(r, &p);
    }
    free(line);
    fclose(old);
    return whole_file_end(&f, true, error, error_bytes) ? 0 : -1;
}

int report_open(struct report *r, const char *log_path, long first_step,
                char *error, size_t error_bytes)
{
    *r = (struct report){.log_path = log_path, .first_step = first_step};
    r->started = clock_now();
    if (!log_path)
        return 0;
    if (first_step && keep_lines(r, error, error_bytes))
        return -1;
    r->log = whole_file_watched(log_path, first_step);
    if (!r->log) {
        snprintf(error, error_bytes, "%s: cannot write: %s", log_path,
                 strerror(errno));
        return -1;
    }
    setvbuf(r->log, NULL, _IOLBF, 0); /* so that it can be watched */
    return 0;
}

static int columns_of_terminal(void)
{
    struct winsize size;
    return !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col
                                                                   : 80;
}

/* Keeps to one line, or it could not be drawn over: a narrow terminal gets a
 * shorter bar, or none and less of the words. */
static void draw_bar(struct report *r, const struct report_point *p)
{
    enum { LONGEST = 24, LEAST = 4 };
    const double t = clock_now();
    char epoch[64], words[256], bar[LONGEST + 4] = "";
    if (t - r->drawn < 0.1 && p->step != r->nsteps)
        return;
    r->drawn = t;
    const double left = (t - r->started) * (double)(r->nsteps - p->step)
                        / (double)(p->step - r->first_step);
    int room = columns_of_terminal() - 1;
    room -=
        snprintf(epoch, sizeof(epoch), "epoch %ld/%ld ", p->epoch, r->nepochs);
    room -= snprintf(words, sizeof(words),
                     "%3ld %%  loss %.4f  accuracy %.3f  %.0f images/s  "
                     "%ld:%02ld left",
                     100 * p->step / r->nsteps, p->loss, p->accuracy,
                     p->images_per_s, (long)left / 60, (long)left % 60);
    const int width = room - 3 < LONGEST ? room - 3 : LONGEST;
    if (width >= LEAST) {
        snprintf(bar, sizeof(bar), "[%*s] ", width, "");
        memset(bar + 1, '-', (size_t)width);
        memset(bar + 1, '#', (size_t)(width * p->step / r->nsteps));
        room = 0;
    }
    const int cut = room < 0 ? -room : 0, length = (int)strlen(words);
    fprintf(stderr, "\r%s%s%.*s\033[K", epoch, bar,
            cut < length ? length - cut : 0, words);
    fflush(stderr);
}

/* Later calls would change errno. */
static void look_for_error(struct report *r)
{
    if (!r->log_errno && ferror(r->log))
        r->log_errno = errno;
}

static void clear_bar(struct report *r)
{
    if (r->bar && r->drawn > 0)
        fputs("\r\033[K", stderr);
    r->drawn = 0;
}

void report_step(struct report *r, const struct report_point *p)
{
    remember(r, p);
    if (r->log) {
        write_point(r->log, p);
        look_for_error(r);
    }
    if (r->bar)
        draw_bar(r, p);
}

/* How often 0, 1, ... other changes came between. */
static void write_staleness(const uint64_t *counts, FILE *log)
{
    int n = STALENESS_MOST;
    while (n > 1 && !counts[n - 1])
        n--;
    fputs(", \"staleness\": [", log);
    for (int i = 0; i < n; i++)
        fprintf(log, "%s%llu", i ? ", " : "", (unsigned long long)counts[i]);
    fputc(']', log);
}

void report_final(struct report *r, const struct report_final *f)
{
    clear_bar(r);
    if (!r->log)
        return;
    fputs("{\"final\": true, ", r->log);
    if (isfinite(f->loss))
        fprintf(r->log, "\"accuracy\": %.9g, \"loss\": %.9g, ", f->accuracy,
                f->loss);
    fprintf(r->log,
            "\"images_per_s\": %.6g, \"comm_share\": %.6g, "
            "\"seconds\": %.6g, \"parts_s\": ",
            f->images_per_s, f->comm_share, f->seconds);
    breakdown_write(f->time.mean, 1, r->log);
    if (f->stragglers) {
        fputs(", \"stragglers\": ", r->log);
        stragglers_write(f->stragglers, r->log);
    }
    if (f->has_staleness)
        write_staleness(f->staleness, r->log);
    fputs("}\n", r->log);
    look_for_error(r);
}

/* The mean of the points around each one; the noise of single batches hides
 * the curve. */
static void smooth(const double *y, double *to, int n)
{
    const int reach = n / 50;
    double sum = 0;
    int first = 0, end = 0;
    for (int i = 0; i < n; i++) {
        while (end < n && end <= i + reach)
            sum += y[end++];
        while (first < i - reach)
            sum -= y[first++];
        to[i] = sum / (end - first);
    }
}

enum column {
    STEP,
    LOSS,
    MEAN_LOSS,
    ACCURACY,
    MEAN_ACCURACY,
    TEST_LOSS,
    TEST_ACCURACY,
    LR,
    NCOLUMNS
};

/* NCOLUMNS arrays in one block, which the caller frees as y[0]. */
static int columns(const struct report *r, double **y)
{
    const size_t n = r->npoints;
    double *block = malloc((n + 1) * NCOLUMNS * sizeof(*block));
    if (!block)
        return -1;
    for (int i = 0; i < NCOLUMNS; i++)
        y[i] = block + (size_t)i * n;
    for (size_t i = 0; i < n; i++) {
        const struct report_point *p = &r->points[i];
        y[STEP][i] = (double)p->step;
        y[LOSS][i] = p->loss;
        y[ACCURACY][i] = p->accuracy;
        y[TEST_LOSS][i] = p->test_loss;
        y[TEST_ACCURACY][i] = p->test_accuracy;
        y[LR][i] = p->lr;
    }
    smooth(y[LOSS], y[MEAN_LOSS], (int)n);
    smooth(y[ACCURACY], y[MEAN_ACCURACY], (int)n);
    return 0;
}

int report_plot(const struct report *r, const char *path, const char *title,
                char *error, size_t error_bytes)
{
    double *y[NCOLUMNS];
    if (columns(r, y)) {
        snprintf(error, error_bytes, "%s: no memory", path);
        return -1;
    }
    const int n = (int)r->npoints;
    const double *x = y[STEP];
    const char *each = "each batch", *mean = "training, moving mean",
               *test = "test set", *rate = "learning rate";
    const struct plot_curve loss[] = {
        {each, x, y[LOSS],      n, 0.72, 0.80, 0.92, false},
        {mean, x, y[MEAN_LOSS], n, 0.12, 0.35, 0.70, false},
        {test, x, y[TEST_LOSS], n, 0.80, 0.25, 0.10, true },
    };
    const struct plot_curve accuracy[] = {
        {each, x, y[ACCURACY],      n, 0.72, 0.80, 0.92, false},
        {mean, x, y[MEAN_ACCURACY], n, 0.12, 0.35, 0.70, false},
        {test, x, y[TEST_ACCURACY], n, 0.80, 0.25, 0.10, true },
    };
    const struct plot_curve lr[] = {
        {rate, x, y[LR], n, 0.15, 0.50, 0.25, false},
    };
    const struct plot_panel panels[] = {
        {"loss",     loss,     3, false},
        {"accuracy", accuracy, 3, true },
        {rate,       lr,       1, false},
    };
    const int failed =
        plot_write(path, title, "step", panels, 3, error, error_bytes);
    free(y[0]);
    return failed;
}

int report_close(struct report *r, char *error, size_t error_bytes)
{
    int failed = 0;
    clear_bar(r);
    if (r->log) {
        if (fclose(r->log) && !r->log_errno)
            r->log_errno = errno;
        failed = r->log_errno;
        if (failed)
            snprintf(error, error_bytes, "%s: cannot write: %s", r->log_path,
                     strerror(failed));
    }
    free(r->points);
    *r = (struct report){0};
    return failed ? -1 : 0;
}
