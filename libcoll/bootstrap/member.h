/* SPDX-License-Identifier: MIT */
/* A rank's side of the protocol, without I/O: no clock, socket or thread.
 *
 * The driver reports what came from the hub and that the link closed, and
 * sends what member_output() has. Not thread-safe.
 */
#ifndef BOOTSTRAP_MEMBER_H
#define BOOTSTRAP_MEMBER_H

#include "bootstrap/frame.h"
#include "coll/types.h"

enum member_phase {
    MEMBER_CALLING, /* the hello is out, or will be */
    MEMBER_HEARD,   /* it was right; others are awaited */
    MEMBER_RUNNING, /* all have joined */
    MEMBER_LEAVING, /* has said farewell, and waits for the hub's */
    MEMBER_LEFT,    /* the link ended after the farewell */
    MEMBER_FAILED,  /* status and sentence say why */
};

struct member {
    enum member_phase phase;
    int rank, nranks;
    struct frame_reader reader;
    struct outbox out;
    bool gathering, gathered;
    size_t part_bytes;            /* of each rank, in the round under way */
    unsigned char *gathered_data; /* nranks parts once gathered */
    bool asked;                   /* what this rank has called last, */
    bool asked_upto;              /* up to this number */
    uint32_t upto;
    bool foreign; /* failed, since this is no hub of libcoll */
    bool told;    /* failed, since another rank or the hub has */
    int culprit;  /* see bootstrap_culprit() */
    coll_status status;
    char sentence[FRAME_TEXT_MAX + 64];
};

/* Queues the hello for a fresh link; what an earlier link left is forgotten.
 * False: no memory. */
bool member_call(struct member *, int rank, const struct frame_hello *hello,
                 const char *about);
void member_clear(struct member *);

void member_received(struct member *, const void *bytes, size_t n);
void member_closed(struct member *, const char *why);

size_t member_output(const struct member *, const unsigned char **bytes);
void member_sent(struct member *, size_t bytes);

/* Starts a round; the hub gives up after wait_seconds. False: no memory, or a
 * round is under way. */
bool member_gather(struct member *, const void *mine, size_t bytes,
                   double wait_seconds);
/* Takes the result of a finished round; all has room for nranks parts. */
void member_take(struct member *, void *all);

/* Asks the hub whether all ranks are in the same call; nothing if there is no
 * job. */
void member_inquire(struct member *);
/* Answers, once the hub has asked. frame: taken. */
void member_answer(struct member *, struct frame_bytes *frame);

/* Fails this rank and queues the news. */
void member_abort(struct member *, coll_status, const char *why);
void member_leave(struct member *);

#endif
