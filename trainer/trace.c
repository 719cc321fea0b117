/* SPDX-License-Identifier: MIT */
#include "trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/whole_file.h"

int trace_open(struct trace *t, size_t room)
{
    *t = (struct trace){.events = calloc(room, sizeof(*t->events)),
                        .room = room};
    return t->events ? 0 : -1;
}

void trace_close(struct trace *t)
{
    free(t->events);
    *t = (struct trace){0};
}

void trace_add(struct trace *t, struct trace_event e)
{
    if (t->count < t->room)
        t->events[t->count++] = e;
}

void trace_path(char *to, size_t bytes, const char *path, int rank, int nranks)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
               *dot = strrchr(name, '.');
    const size_t stem = dot && dot > name ? (size_t)(dot - path) : strlen(path);
    if (nranks == 1)
        snprintf(to, bytes, "%s", path);
    else
        snprintf(to, bytes, "%.*s.%d%s", (int)stem, path, rank, path + stem);
}

/* "3 conv conv2_1a": as the table of layers has it. */
static void put_layer(FILE *to, const struct net *net, long number)
{
    const struct layer *l = &net->layers[number];
    fprintf(to, "%ld %s%s%s", number, l->ops->name, *l->name ? " " : "",
            l->name);
}

/* Both ends are rounded before they are subtracted, so that what lies in
 * another still does. */
static void put_event(FILE *to, const struct net *net, int rank,
                      const struct trace_event *e)
{
    const long long start = llround(e->span.start * 1e9),
                    took = llround(e->span.end * 1e9) - start;
    fputs("{\"name\": \"", to);
    if (!e->name)
        put_layer(to, net, e->number);
    else if (e->number >= 0)
        fprintf(to, "%s %ld", e->name, e->number);
    else
        fputs(e->name, to);
    fprintf(to,
            "\", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %lld.%03lld, "
            "\"dur\": %lld.%03lld, \"pid\": %d, \"tid\": 0}",
            e->category, start / 1000, start % 1000, took / 1000, took % 1000,
            rank);
}

int trace_write(const struct trace *t, const struct net *net, int rank,
                const char *path, char *error, size_t error_bytes)
{
    struct whole_file f;
    if (!whole_file_begin(&f, path, error, error_bytes))
        return -1;
    fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", f.stream);
    for (size_t i = 0; i < t->count; i++) {
        fputs(i ? ",\n" : "\n", f.stream);
        put_event(f.stream, net, rank, &t->events[i]);
    }
    fputs("\n]}\n", f.stream);
    return whole_file_end(&f, true, error, error_bytes) ? 0 : -1;
}
