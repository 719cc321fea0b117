/* SPDX-License-Identifier: MIT */
#include "programs/link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECEIVE_ROOM = 2 * (LINK_HEADER + LINK_PAYLOAD_MAX) };

uint32_t link_get32(const void *from)
{
    const unsigned char *b = from;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16
           | (uint32_t)b[3] << 24;
}

void link_put32(void *to, uint32_t x)
{
    unsigned char *b = to;
    for (int i = 0; i < 4; i++)
        b[i] = (unsigned char)(x >> 8 * i);
}

static void set_nonblocking(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0)
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

void link_open(struct link *link, int in, int out)
{
    *link = (struct link){.in = in, .out = out};
    link->received = malloc(RECEIVE_ROOM);
    if (!link->received)
        abort();
    set_nonblocking(in);
    set_nonblocking(out);
}

void link_close(struct link *link)
{
    if (link->in >= 0)
        close(link->in);
    if (link->out >= 0)
        close(link->out);
    free(link->received);
    free(link->queued);
    *link = (struct link){.in = -1, .out = -1};
}

static char *make_room(struct link *link, size_t bytes)
{
    const size_t pending = link_pending(link);
    memmove(link->queued, link->queued + link->queued_from, pending);
    link->queued_from = 0;
    link->queued_to = pending;
    if (link->queued_room < pending + bytes) {
        link->queued_room = 2 * (pending + bytes);
        link->queued = realloc(link->queued, link->queued_room);
        if (!link->queued)
            abort();
    }
    return link->queued + pending;
}

void link_send(struct link *link, enum frame_type type, uint32_t number,
               const void *data, size_t bytes)
{
    if (link->out < 0 || bytes > LINK_PAYLOAD_MAX)
        return;
    if (!link->queued
        || link->queued_room - link->queued_to < LINK_HEADER + bytes) {
        if (!link->queued)
            link->queued = malloc(link->queued_room = 4096);
        if (!link->queued)
            abort();
        make_room(link, LINK_HEADER + bytes);
    }
    char *at = link->queued + link->queued_to;
    link_put32(at, (uint32_t)bytes);
    at[4] = (char)type;
    link_put32(at + 5, number);
    if (bytes)
        memcpy(at + LINK_HEADER, data, bytes);
    link->queued_to += LINK_HEADER + bytes;
}

void link_send_text(struct link *link, enum frame_type type, uint32_t number,
                    const char *text)
{
    link_send(link, type, number, text, strlen(text));
}

size_t link_pending(const struct link *link)
{
    return link->queued_to - link->queued_from;
}

bool link_flush(struct link *link)
{
    while (link->out >= 0 && link_pending(link)) {
        const ssize_t wrote = write(link->out, link->queued + link->queued_from,
                                    link_pending(link));
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return errno == EAGAIN;
        link->queued_from += (size_t)wrote;
    }
    return link->out >= 0;
}

bool link_receive(struct link *link)
{
    const size_t kept = link->received_to - link->received_from;
    memmove(link->received, link->received + link->received_from, kept);
    link->received_from = 0;
    link->received_to = kept;
    const ssize_t got =
        read(link->in, link->received + kept, RECEIVE_ROOM - kept);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    link->received_to += (size_t)got;
    return got > 0;
}

int link_next(struct link *link, struct frame *frame)
{
    const char *at = link->received + link->received_from;
    const size_t available = link->received_to - link->received_from;
    if (available < LINK_HEADER)
        return 0;
    const uint32_t bytes = link_get32(at);
    if (bytes > LINK_PAYLOAD_MAX || !strchr("hpdaerfsikSoEtxFn", at[4])
        || !at[4])
        return -1;
    if (available < LINK_HEADER + bytes)
        return 0;
    *frame = (struct frame){.type = (enum frame_type)at[4],
                            .number = link_get32(at + 5),
                            .data = at + LINK_HEADER,
                            .bytes = bytes};
    link->received_from += LINK_HEADER + bytes;
    return 1;
}
