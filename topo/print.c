/* SPDX-License-Identifier: MIT */
/* A machine as text: a tree for people, and the notation cluster.c reads. */
#include "machine.h"

#include <inttypes.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Where text goes; like snprintf() it counts on past the end. */
struct out {
    char *text;
    size_t size, length;
};

PRINTF(2, 3) static void put(struct out *out, const char *format, ...)
{
    const size_t left = out->length < out->size ? out->size - out->length : 0;
    va_list args;
    va_start(args, format);
    out->length += (size_t)vsnprintf(left ? out->text + out->length : NULL,
                                     left, format, args);
    va_end(args);
}

/* The unit in which the number is shortest and still exact. */
static void put_bytes(struct out *out, uint64_t bytes)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {
        {"TiB", 1ull << 40   },
        {"GiB", 1ull << 30   },
        {"MiB", 1ull << 20   },
        {"TB",  1000000000000},
        {"GB",  1000000000   },
        {"MB",  1000000      },
        {"KiB", 1ull << 10   },
        {"kB",  1000         },
        {"B",   1            },
    };
    size_t u = 0;
    while (bytes % units[u].bytes)
        u++;
    put(out, "%" PRIu64 "%s", bytes / units[u].bytes, units[u].name);
}

/* For people: three figures are enough. */
static void put_about(struct out *out, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)bytes;
    int u = 0;
    for (; x >= 1024 && u < 4; u++)
        x /= 1024;
    put(out, x >= 100 ? "%.0f %s" : "%.3g %s", x, units[u]);
}

/* The fewest digits from which the parser gets the very same number. */
static void put_number(struct out *out, double x, double unit, const char *name)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, x / unit);
        if (strtod(text, NULL) * unit == x) {
            put(out, "%s%s", text, name);
            return;
        }
    }
    put(out, "%.17g%s", x, unit < 1 ? "s" : "B/s");
}

static void put_link(struct out *out, const coll_topo_link *link)
{
    const double s = link->latency_seconds, b = link->bytes_per_second;
    if (s == 0 && b == 0)
        return;
    put(out, " (");
    put_number(out, s,
               s < 1e-6   ? 1e-9
               : s < 1e-3 ? 1e-6
                          : 1e-3,
               s < 1e-6   ? "ns"
               : s < 1e-3 ? "us"
                          : "ms");
    put(out, " ");
    put_number(out, b, b < 1e9 ? 1e6 : 1e9, b < 1e9 ? "MB/s" : "GB/s");
    put(out, link->shared ? " shared)" : ")");
}

/* The same things inside, whatever their numbers. */
static bool alike(const coll_topo *topo, int a, int b)
{
    const coll_topo_object *x = &topo->objects[a], *y = &topo->objects[b];
    const int n = x->end - a;
    if (y->end - b != n)
        return false;
    for (int i = 0; i < n; i++)
        if (x[i].kind != y[i].kind || x[i].end - a != y[i].end - b
            || x[i].level != y[i].level || x[i].usable != y[i].usable
            || x[i].bytes != y[i].bytes)
            return false;
    return true;
}

/* How many siblings from i on (before end) are alike; *next is behind them. */
static int run_length(const coll_topo *topo, int i, int end, int *next)
{
    int n = 1;
    *next = topo->objects[i].end;
    while (*next < end && alike(topo, i, *next)) {
        *next = topo->objects[*next].end;
        n++;
    }
    return n;
}

static bool has_index(coll_topo_kind kind)
{
    return kind == COLL_TOPO_PACKAGE || kind == COLL_TOPO_NUMA
           || kind == COLL_TOPO_CORE || kind == COLL_TOPO_PU;
}

/* The system counts as we do, so indices need not be written. */
static bool counts_alike(const coll_topo *topo, int host)
{
    int next[COLL_TOPO_NKINDS] = {0};
    for (int i = host + 1; i < topo->objects[host].end; i++) {
        const coll_topo_object *o = &topo->objects[i];
        if (has_index(o->kind) && o->os_index != next[o->kind]++)
            return false;
    }
    return true;
}

static void put_inside(struct out *out, const coll_topo *topo, int index,
                       bool indices)
{
    const int end = topo->objects[index].end;
    if (index + 1 == end)
        return;
    put(out, "{");
    for (int i = index + 1, next; i < end; i = next) {
        const coll_topo_object *o = &topo->objects[i];
        const int n = indices ? 1 : run_length(topo, i, end, &next);
        next = indices ? o->end : next;
        put(out, "%s%s", i > index + 1 ? " " : "",
            coll_topo_kind_name(o->kind));
        if (n > 1)
            put(out, ":%d", n);
        if (indices && has_index(o->kind))
            put(out, "@%d", o->os_index);
        if (o->bytes) {
            put(out, "=");
            put_bytes(out, o->bytes);
        }
        if (!o->usable)
            put(out, "!");
        put_inside(out, topo, i, indices);
    }
    put(out, "}");
}

/* Objects of the cluster's level directly inside object index. */
static int children(const coll_topo *topo, int index)
{
    int n = 0;
    for (int i = index + 1; i < topo->objects[index].end;
         i = topo->objects[i].end)
        n++;
    return n;
}

/* ":4", or ":4*2,3" where not every object of the level outside holds as many,
 * one count for each. */
static void put_counts(struct out *out, const coll_topo *topo, int level)
{
    int count = 0, times = 0;
    char separator = ':';
    if (topo->levels[level].count) {
        put(out, ":%d", topo->levels[level].count);
        return;
    }
    for (int i = 0; i <= topo->nobjects; i++) {
        const bool end = i == topo->nobjects;
        if (!end
            && (topo->objects[i].kind != COLL_TOPO_LEVEL
                || topo->objects[i].level != level - 1))
            continue;
        const int n = end ? 0 : children(topo, i);
        if (times && n != count) {
            put(out, "%c%d", separator, count);
            if (times > 1)
                put(out, "*%d", times);
            separator = ',';
            times = 0;
        }
        count = n;
        times++;
    }
}

size_t coll_topo_print_notation(const coll_topo *topo, char *text, size_t bytes)
{
    struct out out = {text, bytes, 0};
    int host = 0;
    /* The parser's numbers have a point in every locale. */
    const locale_t locale =
        uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
    if (bytes)
        text[0] = '\0';
    for (int l = 0; l < topo->nlevels; l++) {
        put(&out, "%s", topo->levels[l].name);
        put_counts(&out, topo, l);
        put_link(&out, &topo->levels[l].link);
        put(&out, " ");
    }
    while (topo->objects[host].kind != COLL_TOPO_HOST)
        host++;
    put_inside(&out, topo, host, !counts_alike(topo, host));
    uselocale(locale);
    return out.length;
}

static int by_value(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* "  cpu 0-3,8"; os indices of the PUs in objects [i, end). */
static void put_cpus(struct out *out, const coll_topo *topo, int i, int end)
{
    int *cpus = malloc((size_t)(end - i) * sizeof(int)), n = 0;
    if (!cpus)
        return;
    for (; i < end; i++)
        if (topo->objects[i].kind == COLL_TOPO_PU)
            cpus[n++] = topo->objects[i].os_index;
    qsort(cpus, (size_t)n, sizeof(int), by_value);
    for (int a = 0, b; a < n; a = b) {
        for (b = a + 1; b < n && cpus[b] == cpus[b - 1] + 1;)
            b++;
        put(out, "%s%d", a ? "," : "  cpu ", cpus[a]);
        if (b > a + 1)
            put(out, "-%d", cpus[b - 1]);
    }
    free(cpus);
}

/* ", n0 to n3" for n hosts. */
static void put_hosts(struct out *out, const coll_topo *topo, int first, int n)
{
    const char *name = coll_topo_host_name(topo, first);
    if (!name)
        return;
    put(out, ", %s", name);
    if (n > 1)
        put(out, " to %s", coll_topo_host_name(topo, first + n - 1));
}

/* One line for n objects that are alike, the first of them at index. */
static void put_line(struct out *out, const coll_topo *topo, int index, int n,
                     int next)
{
    const coll_topo_object *o = &topo->objects[index];
    if (n > 1)
        put(out, "%d x ", n);
    put(out, "%s", coll_topo_name(topo, index));
    if (o->kind == COLL_TOPO_HOST)
        put_hosts(out, topo, o->logical, n);
    if (n == 1 && o->os_index >= 0 && o->kind != COLL_TOPO_PU)
        put(out, " %d", o->os_index);
    if (o->bytes) {
        put(out, ", ");
        put_about(out, o->bytes);
        put(out, n > 1 ? " each" : "");
    }
    if (!o->usable)
        put(out, ", not ours");
    if (o->level >= 0)
        put_link(out, &topo->levels[o->level].link);
    else if (!topo->nlevels)
        put_cpus(out, topo, index, next);
    put(out, "\n");
}

static void put_tree(struct out *out, const coll_topo *topo, int index,
                     int depth)
{
    const int end = topo->objects[index].end;
    for (int i = index + 1, next; i < end; i = next) {
        const int n = run_length(topo, i, end, &next);
        put(out, "%*s", 2 * depth, "");
        put_line(out, topo, i, n, next);
        put_tree(out, topo, i, depth + 1);
    }
}

size_t coll_topo_print_tree(const coll_topo *topo, char *text, size_t bytes)
{
    struct out out = {text, bytes, 0};
    if (bytes)
        text[0] = '\0';
    put(&out, "%s", coll_topo_name(topo, 0));
    for (int k = COLL_TOPO_HOST; k < COLL_TOPO_NKINDS; k++)
        if (topo->counts[k] && (k != COLL_TOPO_HOST || topo->nlevels))
            put(&out, "%s%d %s", out.length > 7 ? ", " : ": ", topo->counts[k],
                coll_topo_kind_name((coll_topo_kind)k));
    put(&out, "\n");
    put_tree(&out, topo, 0, 1);
    return out.length;
}
