/* SPDX-License-Identifier: MIT */
/* One collective under way. */
#ifndef COMM_REQUEST_H
#define COMM_REQUEST_H

#include "comm/comm.h"

struct coll_request {
    coll_comm *comm;
    struct prepared *prepared;
    struct exec_call call;
    coll_dtype dtype;
    coll_op op;
    coll_status status;
    bool started;
    coll_request *next;
};

/* Puts a filled-in request behind those outstanding and starts it if it is
 * the first. Memory stays the caller's until status leaves IN_PROGRESS. */
void request_enqueue(coll_request *);

/* Returns once the request is over, with its status. */
coll_status request_wait(coll_request *);
coll_status request_step(void *request);

#endif
