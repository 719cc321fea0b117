/* SPDX-License-Identifier: MIT */
/* The flight record of one rank, read from its file (comm/record.h) while its
 * process runs, or whatever became of it. */
#ifndef PROGRAMS_TRACE_FILE_H
#define PROGRAMS_TRACE_FILE_H

#include "comm/record.h"

enum { TRACE_ERROR = 512, TRACE_CALL = 160 };

struct trace_file {
    char *path;
    struct record_header header; /* its texts end, and are printable */
    char *names;                 /* of all tables */
    const char **table[RECORD_NTABLES];
    int entries[RECORD_NTABLES];
    struct record *records; /* calls, by number, ascending */
    size_t n;
    struct record *messages; /* the same of sends and receives */
    size_t nmessages;
    bool written;       /* a process has it open, and may go on */
    long writer;        /* which, as this process sees it; 0: unknown */
    bool passing; /* it was just being made, or has been removed meanwhile */
    double ns_per_tick; /* by two moments, the second as late as possible */
};

/* One look at a file's bytes; `later` is a second one, of as many bytes, and
 * records that changed between them are left out. False: error has a line, that
 * begins with the path. Either way it is to be freed. */
bool trace_file_parse(struct trace_file *, const char *path,
                      const unsigned char *bytes, const unsigned char *later,
                      size_t n, char error[TRACE_ERROR]);
bool trace_file_read(struct trace_file *, const char *path,
                     char error[TRACE_ERROR]);
void trace_file_free(struct trace_file *);

/* An entry of a table, or NULL for a number that has none. */
const char *trace_name(const struct trace_file *, enum record_table, int entry);

/* CALLED_SEND or CALLED_RECV of a message; CALLED_END: it is none. */
int trace_message(const struct trace_file *, const struct record *);
/* "allreduce"; "unknown". */
const char *trace_kind(const struct trace_file *, const struct record *);
/* "allreduce of 8 f32, sum", "send of 8 f32 to rank 1 with tag 7". Returns
 * text.
 */
const char *trace_call(const struct trace_file *, const struct record *,
                       char text[TRACE_CALL]);
/* "ring in 4 segments" */
const char *trace_way(const struct trace_file *, const struct record *,
                      char text[TRACE_CALL]);

/* Nanoseconds of CLOCK_MONOTONIC on the machine that wrote it. */
double trace_time(const struct trace_file *, uint64_t ticks);

#endif
