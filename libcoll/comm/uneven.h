/* SPDX-License-Identifier: MIT */
/* The v-calls: collectives in which each rank's part has a length of its own.
 *
 * They run as the even ones of as many bytes in all would, but not by hosts, as
 * that wants equal parts. What they take is not learned from: it hangs on how
 * uneven they are.
 *
 *     recvcounts  3 0 2          before  0 3 3 5     lengths, and where parts
 *     displs      4 9 0          displs  4 9 0       are one after another
 *
 * All ranks know all lengths, and say so in their tags. Where parts lie in its
 * result only a rank itself knows, so nothing is chosen by it. Where a plan
 * names several chunks at once the result is then put together in scratch, and
 * its parts are copied to their places at the end.
 */
#ifndef COMM_UNEVEN_H
#define COMM_UNEVEN_H

#include "exec/exec.h"
#include "node/node.h"

struct coll_comm;
struct coll_request;

/* What a request has of it. One block of memory: a blocking call's is the
 * communicator's, else it goes with the request. */
struct uneven {
    uint32_t hash;        /* of all lengths */
    size_t longest;       /* elements of the longest part, */
    size_t mine;          /* and of this rank's */
    const size_t *before; /* [nranks + 1]: elements of all parts before it */
    const size_t *displs; /* [nranks]; NULL: one after another */
    struct exec_chunks chunks[2];
    struct node_parts parts;
    const char *packed; /* the result, until it is over; NULL: in its place */
    size_t numbers[];
};

/* "allgather_v", for sentences. */
const char *uneven_name(enum coll_kind);

/* Whether the vectors are such as the call asks for. Fails with INVALID. */
coll_status uneven_check(const struct coll_request *);

/* Completes the call of a plan that is prepared. Fails with MEMORY. */
coll_status uneven_prepare(struct coll_request *, struct exec_call *);

/* After a plan's last step. */
void uneven_finish(const struct coll_request *);

#endif
