/* SPDX-License-Identifier: MIT */
/* The two-way link between collrun and the agent of one host: frames over a
 * pair of pipes, whether a pipe of the kernel or one that ssh carries.
 *
 * A frame is length (4 bytes), type (1), number (4), then length bytes, all
 * little-endian. Both directions are queued and never block. Whatever comes
 * in is checked here against the limits, and by the receiver for its meaning.
 */
#ifndef PROGRAMS_LINK_H
#define PROGRAMS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LINK_HEADER = 9,
    LINK_PAYLOAD_MAX = 128 * 1024, /* Linux bounds one argument so, too */
};

/* `number` is a rank unless said otherwise. */
enum frame_type {
    FRAME_HELLO = 'h', /* agent: payload is its version */

    FRAME_PORT = 'p',   /* collrun asks; the agent answers, number: free port */
    FRAME_CWD = 'd',    /* collrun: working directory of the ranks */
    FRAME_ARG = 'a',    /* collrun: next argument of the program */
    FRAME_ENV = 'e',    /* collrun: NAME=VALUE for all ranks */
    FRAME_RANK = 'r',   /* collrun: a rank to start here */
    FRAME_FLAGS = 'f',  /* collrun: number is enum agent_flag bits */
    FRAME_START = 's',  /* collrun: start the ranks */
    FRAME_INPUT = 'i',  /* collrun: stdin of the rank; empty: its end */
    FRAME_SIGNAL = 'k', /* collrun: number is a signal for all ranks */

    FRAME_STARTED = 'S', /* agent: payload is the pid (4 bytes), then text */
    FRAME_OUT = 'o',    /* agent: whole lines of stdout, or a long one's part */
    FRAME_ERR = 'E',    /* agent: same, stderr */
    FRAME_TAKEN = 't',  /* agent: the rank took the input, send more */
    FRAME_EXITED = 'x', /* agent: payload is the wait status (4 bytes), then 1
                           if it was told of another rank's failure */
    FRAME_FAILED = 'F', /* agent: the rank cannot be started; a sentence */
    FRAME_NOTE = 'n',   /* agent: a sentence for --verbose */
};

enum agent_flag {
    AGENT_BIND = 1,       /* one core each, if there are enough */
    AGENT_DIRECT_OUT = 2, /* ranks inherit stdout: it is a terminal */
    AGENT_DIRECT_ERR = 4,
};

struct frame {
    enum frame_type type;
    uint32_t number;
    const char *data; /* valid until the next link_receive() */
    uint32_t bytes;
};

struct link {
    int in, out; /* -1 once closed */
    char *received;
    size_t received_from, received_to;
    char *queued;
    size_t queued_from, queued_to, queued_room;
};

/* Takes both descriptors and makes them non-blocking. */
void link_open(struct link *, int in, int out);
void link_close(struct link *);

void link_send(struct link *, enum frame_type, uint32_t number,
               const void *data, size_t bytes);
void link_send_text(struct link *, enum frame_type, uint32_t number,
                    const char *text);
size_t link_pending(const struct link *); /* bytes still queued */
bool link_flush(struct link *);           /* false: the other side is gone */

/* Reads once; false at the end or on an error. */
bool link_receive(struct link *);

/* 1: *frame is the next one; 0: not all of it is there; -1: not a frame. */
int link_next(struct link *, struct frame *frame);

uint32_t link_get32(const void *); /* little-endian */
void link_put32(void *, uint32_t);

#endif
