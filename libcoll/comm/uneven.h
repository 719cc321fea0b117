/* SPDX-License-Identifier: MIT */
/* The v-calls: collectives in which each rank's part has a length of its own.
 *
 *     recvcounts  3 0 2          before  0 3 3 5     lengths, and where parts
 *     displs      4 9 0          at      4 9 0       are one after another
 *
 * allgather_v, reduce_scatter_v: all ranks know all lengths, and say so in
 * their tags. These run as the even ones of as many bytes in all would, but not
 * by hosts, as that wants equal parts. What they take is not learned from: it
 * hangs on how uneven they are. Where parts lie in its result only a rank
 * itself knows, so nothing is chosen by it. Where a plan names several chunks
 * at once the result is then put together in scratch, and its parts are copied
 * to their places at the end.
 *
 * gather_v, scatter_v, alltoall_v: a rank knows the lengths of what it sends
 * and receives itself. So nothing can be chosen by length. Ranks of one host
 * copy parts, as node/parts.c says; else each is a message to whom it is for.
 * Who expects another length finds out by the part; those of no elements have
 * a message too, see exec.h.
 */
#ifndef COMM_UNEVEN_H
#define COMM_UNEVEN_H

#include "exec/exec.h"
#include "node/node.h"

struct coll_comm;
struct coll_request;
struct select_choice;

/* What a request has of it: what was called, down to the chunks, and what is
 * made of it at each start. One block of memory: a blocking call's is the
 * communicator's, else it goes with the request. */
struct uneven {
    uint32_t hash;  /* of all lengths, if all ranks know them */
    size_t longest; /* elements of the longest part that this rank names, */
    size_t all;     /* of all of them, */
    size_t mine;    /* and of this rank's own in its result */
    struct exec_chunks chunks[2]; /* of send and recv; what is not for or from
                                     this rank has no length */
    struct exec_chunks plan[2];   /* the same, as a plan runs on them */
    struct node_parts parts;
    char *packed; /* a result in scratch, until the operation is over; NULL: it
                     is in its place */
    size_t numbers[];
};

/* "allgather_v", for sentences. */
const char *uneven_name(enum coll_kind);

/* Whether all ranks know all lengths. */
static inline bool uneven_is_known(enum coll_kind kind)
{
    return kind == ALLGATHER || kind == REDUCE_SCATTER;
}

/* Of a rank: elements, */
static inline size_t uneven_part(const struct exec_chunks *chunks, int rank)
{
    return chunks->before[rank + 1] - chunks->before[rank];
}

/* and where they begin in the vector. */
static inline size_t uneven_place(const struct exec_chunks *chunks, int rank)
{
    return chunks->at ? chunks->at[rank] : chunks->before[rank];
}

/* uneven_check.c: whether the vectors are such as the call asks for. Fails with
 * INVALID. */
coll_status uneven_check(const struct coll_request *);

/* uneven_plan.c, as all that follows. As select_best(). */
coll_status uneven_choose(const struct coll_request *, struct select_choice *);

/* What it chooses where not all ranks know all lengths: a message for each
 * part, whatever the number of ranks. */
const struct algo *uneven_by_parts(enum coll_kind, int nranks);

/* Completes the call of a plan that is prepared. Fails with MEMORY. */
coll_status uneven_prepare(struct coll_request *, struct exec_call *);

/* For ranks of one host; the call is the request's but for its parts. Fails
 * with MEMORY. */
coll_status uneven_set_node(struct coll_request *, struct node_call *);

/* After a MISMATCH: whether two ranks have said different lengths of
 * one part. Then it has called fail(), with a sentence that names both. */
bool uneven_differs(const struct coll_request *);

/* After a plan's last step. */
void uneven_finish(struct coll_request *);

#endif
