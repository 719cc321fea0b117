/* SPDX-License-Identifier: MIT */
/* Waits for requests of several communicators at once. */
#ifndef COMM_SEVERAL_H
#define COMM_SEVERAL_H

#include "comm/request.h"

struct several {
    int n;
    coll_request **requests; /* active ones count; NULL is none */
    bool any;                /* one will do */
    coll_comm *comms;        /* of those under way, entered, on by `also` */
};

/* Enters a communicator, unless it is among them. call: as for comm_enter(). */
coll_status several_enter(struct several *, coll_comm *, const char *call);

/* Until enough are over. Leaves communicators on the way that have nothing left
 * to wait for. What fails ends the requests of one communicator; the others go
 * on. */
void several_wait(struct several *);
/* Looks for sends and receives alone, without what a long wait takes. */
void several_look(const struct several *);

/* Leaves those that are left. */
void several_leave(struct several *);

#endif
