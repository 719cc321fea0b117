/* SPDX-License-Identifier: MIT */
/* The hub's inside, for its own files: hub.c (events and questions), hub_fail.c
 * (names, connections, the end of the job), hub_join.c (strangers become
 * ranks), hub_hear.c (what ranks say), hub_judge.c (whether their calls
 * differ). */
#ifndef BOOTSTRAP_HUB_INSIDE_H
#define BOOTSTRAP_HUB_INSIDE_H

#include "bootstrap/hub.h"
#include "coll/types.h"

struct conn {
    enum {
        CONN_FREE,
        CONN_STRANGER,
        CONN_MEMBER,
        CONN_HELD,    /* left, but the hub's process must not end yet */
        CONN_CLOSING, /* takes the last frames; what it says is ignored */
        CONN_DROP,
    } state;
    int rank;
    double opened, deadline;
    struct frame_reader reader;
    struct outbox out;
};

/* One rank. */
struct seat {
    enum { SEAT_AWAITED, SEAT_PRESENT, SEAT_LEFT } state;
    bool resident;        /* in the hub's own process */
    bool given;           /* its part of the round under way */
    char *about;          /* NULL: not told yet */
    bool answered;        /* the question under way */
    unsigned char *calls; /* what it answered, ncalls of FRAME_CALL_BYTES */
    int ncalls;
};

struct hub {
    unsigned char key[FRAME_KEY];
    uint64_t process;

    enum { HUB_JOINING, HUB_RUNNING, HUB_ENDED } phase;
    double idle_deadline, join_deadline, join_seconds;
    double late_deadline; /* after a failure */
    double last_tick;     /* what is past by then needs no other */
    bool finished;

    struct seat *seats;
    int nranks, npresent, nleft;
    int first_rank; /* who said how many ranks there are */

    struct conn *conns;
    int nconns, nstrangers;
    unsigned long dropped;

    struct frame_bytes *round; /* the allgather under way, or NULL */
    size_t round_bytes;        /* of each rank */
    int ngiven, first_given;
    unsigned nrounds;
    double round_deadline, round_seconds;

    double answer_deadline; /* of a question; INFINITY: none is under way */
    int nanswers;
    bool asks_again;      /* once that is over */
    bool goes_back;       /* it is not of the last calls, but of some before */
    struct hub_found {    /* two calls that differ, */
        bool known, sure; /* sure: they are the first */
        int one, other;   /* of which ranks */
        char its[FRAME_CALL_BYTES], others[FRAME_CALL_BYTES];
    } found;

    coll_status failure;
    struct frame_bytes *failure_frame;
};

/* --- hub_fail.c ----------------------------------------------------------- */

struct hub_name {
    char text[FRAME_ABOUT_MAX + 32];
};

/* "rank 2 (host a, pid 12)" */
struct hub_name hub_name(const struct hub *, int rank);
/* "ranks 1, 4-9 and 30 more of 64": the ranks that lack something. */
struct hub_name hub_names(const struct hub *,
                          bool (*lacks)(const struct seat *));

/* Before a stranger becomes something else. */
void hub_leave_strangers(struct hub *, struct conn *);
/* Quietly, and for good: nothing that is queued will be sent. */
void hub_drop(struct hub *, struct conn *);
void hub_drop_stranger(struct hub *, struct conn *);
/* Once the queue is sent. */
void hub_finish_conn(struct hub *, struct conn *, double now);

void hub_end(struct hub *);
/* The job has failed: everybody present is told why. */
__attribute__((__format__(__printf__, 5, 6))) void
hub_fail(struct hub *, coll_status, int culprit, double now, const char *format,
         ...);
void hub_no_memory(struct hub *, double now);

/* --- hub_judge.c ---------------------------------------------------------- */

/* A rank doubts that all are in the same call. */
void hub_hear_inquiry(struct hub *, double now);
void hub_hear_calls(struct hub *, int rank, const struct frame *, double now);
/* Compares the answers that there are; fails the job if two differ. */
void hub_judge(struct hub *, double now);

/* --- hub_join.c, hub_hear.c ----------------------------------------------- */

void hub_hear_stranger(struct hub *, struct conn *, const struct frame *,
                       double now);
void hub_hear_member(struct hub *, struct conn *, const struct frame *,
                     double now);
/* A rank sent what no rank may. */
void hub_not_protocol(struct hub *, struct conn *, double now);

#endif
