/* SPDX-License-Identifier: MIT */
/* Collectives by hosts: memory inside, messages across, memory inside.
 *
 *             host 0            host 1
 *         rank 0  rank 1    rank 2  rank 3
 *   in      [0]---->[1]       [0]---->[1]     node/: each sums up its slice
 *   across   |       |         |       |
 *            +-------|--- plan +       |      slice 0 of both hosts
 *                    +---------- plan -+      slice 1
 *   out     [01]<->[01]       [01]<->[01]     node/: all get all slices
 *
 * Across runs the plan of any planner, for as many positions as there are
 * hosts. Short vectors, hosts with unequal numbers of ranks, and collectives
 * with a root go through one rank of each host, its leader. The slices,
 * together the whole vector, share the host's port, so the time is that of the
 * plan with one rank a host.
 *
 *   in       out        of
 *   reduce_scatter, allgather    an allreduce in slices
 *   reduce,  broadcast  an allreduce through leaders
 *   reduce,  -          a reduce
 *   -,       broadcast  a broadcast
 *   barrier, barrier    a barrier
 *   reduce_scatter, -   a reduce_scatter: a round for each host, of its ranks'
 *                       parts, after which its jth rank has the sums of the
 *                       parts of all hosts' jth ranks: the plan's vector
 *   -,      allgather   an allgather, the other way round
 *
 * One rank on a host has no stages inside. Results are equal on all ranks to
 * the bit: each element is computed by one rank of a host, and the plan gives
 * its result to all hosts alike.
 *
 * A long vector is cut into segments, so that one is under way between hosts
 * while the next is combined and the last one spread in memory:
 *
 *   inside   in 0 | in 1 | out 0  in 2 | out 1  in 3 | out 2 | out 3
 *   across        |   0  |      1      |      2      |   3   |
 *
 * A segment of a vector that has a part for each rank is the same range of
 * every part, so that it is for each what the whole is. What crosses of it lies
 * in a vector of its own, of which there are two: one may cross while the other
 * is filled, or read.
 *
 *   parts of    rank 0      rank 1      rank 2      rank 3
 *               [ 0 | 1 ]   [ 0 | 1 ]   [ 0 | 1 ]   [ 0 | 1 ]      4 in all
 *   segment 0    ^           ^           ^           ^
 *   of which rank 0 carries  [0: of rank 0, of rank 2]             2 hosts
 *
 * Inside all ranks of a host go through the same list. Whatever the number of
 * segments two calls are under way at most, one of node/ and one plan; each
 * runs again and again. Into how many: hosts_segments().
 */
#ifndef COMM_STAGED_H
#define COMM_STAGED_H

#include "exec/exec.h"

struct coll_comm;
struct coll_request;
struct prepared;

/* Of the operation that runs by hosts. */
struct staged {
    bool slices;  /* each rank carries its slice ... */
    bool parts;   /* or a part for each host; else the leader everything */
    bool carries; /* this rank takes part in the plan */
    int leader;   /* place */
    int nsegments;
    size_t segment; /* elements of each but the last, which may be less; with
                       parts, of each part */
    char *sum;      /* of this host's vectors: where the first one begins */
    const struct combine
        *combine; /* an average is a sum until it has crossed */

    int in, crossed, out; /* segments that are through with each stage */
    int round;    /* of the stage inside, which has one for each host's parts */
    bool inside;  /* a call of node/ is under way: ... */
    bool spreads; /* ... of the stage out, else of the stage in */
    bool crossing; /* the plan is under way */
    int overlaps;  /* calls of node/ that ended while the plan was */
    uint16_t news; /* the least that this rank has heard */
    uint64_t bytes_read, bytes_written;
    uint64_t messages; /* sent */
};

/* Whether the request that has chosen goes by hosts. */
bool staged_serves(const struct coll_request *);

/* Makes the plan, and room for what it needs; the first stage begins at the
 * first step. Fails with MEMORY. */
coll_status staged_prepare(struct coll_request *);
coll_status staged_step(struct coll_request *); /* as exec_progress() */

/* Whether the running operation waits for this rank. */
bool staged_awaits(const struct coll_request *, int rank);

/* What whoever waits may leave alone meanwhile. */
enum staged_need {
    STAGED_NEEDS_ALL,
    STAGED_NEEDS_MESSAGES, /* nothing from this host's ranks */
    STAGED_NEEDS_NODE,     /* no message, nor has this rank sent any */
};
enum staged_need staged_needs(const struct coll_comm *);

#endif
