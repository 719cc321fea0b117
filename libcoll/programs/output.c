/* SPDX-License-Identifier: MIT */
#include "programs/output.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

size_t output_pending(const struct output *o)
{
    return o->to - o->from;
}

static void append(struct output *o, const char *data, size_t bytes)
{
    if (o->room - o->to < bytes) {
        const size_t pending = output_pending(o);
        if (o->from)
            memmove(o->queue, o->queue + o->from, pending);
        o->from = 0;
        o->to = pending;
        if (o->room < pending + bytes) {
            o->room = 2 * (pending + bytes);
            o->queue = realloc(o->queue, o->room);
            if (!o->queue)
                abort();
        }
    }
    memcpy(o->queue + o->to, data, bytes);
    o->to += bytes;
}

static void append_label(struct output *o, int rank)
{
    char label[24];
    const int length = snprintf(label, sizeof(label), "[%d] ", rank);
    append(o, label, (size_t)length);
}

void output_add(struct output *o, int rank, const char *data, size_t bytes)
{
    if (o->broken)
        return;
    if (!o->label && bytes) {
        append(o, data, bytes);
        o->owner = data[bytes - 1] == '\n' ? -1 : rank;
        return;
    }
    while (bytes) {
        const char *newline = memchr(data, '\n', bytes);
        const size_t length = newline ? (size_t)(newline + 1 - data) : bytes;
        if (o->owner >= 0 && o->owner != rank)
            append(o, "\n", 1);
        if (o->owner != rank)
            append_label(o, rank);
        append(o, data, length);
        o->owner = newline ? -1 : rank;
        data += length;
        bytes -= length;
    }
}

void output_note(struct output *o, const char *line)
{
    if (o->broken)
        return;
    if (o->owner >= 0)
        append(o, "\n", 1);
    o->owner = -1;
    append(o, line, strlen(line));
    append(o, "\n", 1);
}

/* A pipe that POLLOUT is said of takes PIPE_BUF bytes without blocking. */
static size_t safe_length(const struct output *o)
{
    struct stat about;
    const bool file = !fstat(o->fd, &about) && S_ISREG(about.st_mode);
    const size_t pending = output_pending(o);
    return file || pending < PIPE_BUF ? pending : PIPE_BUF;
}

void output_flush(struct output *o)
{
    const ssize_t wrote = write(o->fd, o->queue + o->from, safe_length(o));
    if (wrote >= 0)
        o->from += (size_t)wrote;
    else if (errno != EINTR && errno != EAGAIN) {
        o->broken = true;
        o->cause = errno;
        o->from = o->to;
    }
}
