/* SPDX-License-Identifier: MIT */
/* What happened when, as a file that trace viewers show: Chrome's trace event
 * format ("Trace Event Format", The Chromium Project, 2016), which Perfetto and
 * chrome://tracing read. */
#ifndef TRAINER_TRACE_H
#define TRAINER_TRACE_H

#include <stddef.h>

#include "net/net.h"

struct trace_event {
    const char *category; /* static: "step", "part", "forward", "gradients",
                             "backward" */
    const char *name;     /* static; NULL: that of layer `number` */
    long number;          /* shown behind the name; -1: none */
    struct net_span span;
};

struct trace {
    struct trace_event *events;
    size_t count, room; /* room 0: nothing is kept */
};

int trace_open(struct trace *, size_t room); /* 0, or -1: no memory */
void trace_close(struct trace *);

/* What finds no room is left out. An event comes before those inside it. */
void trace_add(struct trace *, struct trace_event);

/* The file of a rank: "run.json" if it is alone, else "run.3.json". */
void trace_path(char *to, size_t bytes, const char *path, int rank, int nranks);

/* Writes all events, with times as of clock_now(), so that the files of ranks
 * of one host have one clock. -1 with one line in error. */
int trace_write(const struct trace *, const struct net *, int rank,
                const char *path, char *error, size_t error_bytes);

#endif
