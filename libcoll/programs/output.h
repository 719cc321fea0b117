/* SPDX-License-Identifier: MIT */
/* The ranks' output on collrun's own stdout or stderr.
 *
 * What comes in is whole lines, or pieces of one longer than 64 KiB; it goes
 * out as it is. With labels every line begins with "[rank] ", and a line that
 * another rank interrupts between two pieces is broken in two. Nothing blocks:
 * what the reader does not take yet is queued.
 */
#ifndef PROGRAMS_OUTPUT_H
#define PROGRAMS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct output {
    int fd;
    bool label;
    bool broken; /* everything more is dropped, as the reader has gone (EPIPE) */
    int cause;   /* or for this reason */
    int owner;   /* whose line is unfinished, -1: nobody's */
    char *queue;
    size_t from, to, room;
};

void output_add(struct output *, int rank, const char *data, size_t bytes);

/* A line of collrun's own, which never lands inside a rank's line. */
void output_note(struct output *, const char *line);

size_t output_pending(const struct output *);

/* Writes what the descriptor takes; to be called when poll() says POLLOUT. */
void output_flush(struct output *);

#endif
