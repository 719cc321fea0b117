/* SPDX-License-Identifier: MIT */
/* The collectives that can be measured, and how each treats its vectors.
 *
 *                   input                 output            count is
 *   allreduce       all of S, each rank   all of S, each    all of S
 *   reduce          all of S, each rank   all of S, root    all of S
 *   broadcast       all of S, root        all of S, each    all of S
 *   reduce_scatter  all of S, each rank   1/n, each rank    1/n of S
 *   allgather       1/n, each rank        all of S, each    1/n of S
 *   gather          1/n, each rank        all of S, root    1/n of S
 *   scatter         all of S, root        1/n, each rank    1/n of S
 *   alltoall        all of S, each rank   all of S, each    1/n of S
 *   allgather_v ... as without _v         as without _v     1/n of S, on
 * average sendrecv        all of S, each rank   all of S, each    all of S
 *   pingpong        all of S, two ranks   all of S, both    all of S
 *   barrier         nothing               nothing           0
 *
 * S is the column "bytes": the longer of the two, as nccl-tests has it. In a
 * sendrecv each rank sends to the next one and receives from the one before, as
 * there. In a pingpong the first rank sends to the last, which answers with a
 * vector of its own; half of the time counts.
 *
 * The parts of a _v grow linearly from rank to rank: rank r's share of S is
 * 2 (r + 1) / (n (n + 1)), so that the last one's is n times the first one's;
 * it begins at S r (r + 1) / (n (n + 1)), rounded down. In an alltoall_v ranks
 * r and q exchange the part of (r + q) mod n, so that each rank has S in all.
 */
#ifndef COLLECTIVE_H
#define COLLECTIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/coll.h"

#ifdef __cplusplus
extern "C" {
#endif

enum collective {
    ALLREDUCE,
    REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    ALLGATHER,
    GATHER,
    SCATTER,
    ALLTOALL,
    REDUCE_SCATTER_V,
    ALLGATHER_V,
    GATHER_V,
    SCATTER_V,
    ALLTOALL_V,
    SENDRECV,
    PINGPONG,
    BARRIER,
    NCOLLECTIVES
};

/* One of them on a job, as a rank sees it. */
struct shape {
    enum collective collective;
    coll_dtype dtype;
    coll_op op;
    int root, rank, nranks;
    bool in_place;
    const size_t *lengths; /* of a _v: shape_lengths() of the count called */
};

const char *collective_name(enum collective);
enum collective collective_even(enum collective); /* without _v */
bool collective_reduces(enum collective); /* else its op means nothing */
bool collective_has_root(enum collective);
bool collective_root_sends(enum collective); /* it has one, and hears nobody */
bool collective_has_vectors(enum collective);
bool collective_in_place(enum collective); /* it can be */

/* The name by which the library's model and algorithms know it; NULL: it has
 * neither. */
const char *collective_model(enum collective);

/* A call of it can be left under way. Not a pingpong, as one rank answers. */
bool collective_at_once(enum collective);

/* What of the time of its call counts: all, or half of a round trip. */
double collective_share(enum collective);

/* algbw times this is what each link must carry in each direction if no link
 * carries more than another, and so comparable between numbers of ranks. */
double collective_busbw(enum collective, int nranks);

/* What one count of the call is in S: n for those that cut S into parts. */
size_t collective_parts(enum collective, int nranks);

/* algorithms.c. Fills in the names of the library's algorithms for it; returns
 * how many. */
enum { COLLECTIVE_ALGORITHMS = 64 };
int collective_algorithms(enum collective,
                          const char *names[COLLECTIVE_ALGORITHMS]);
bool collective_has_algorithm(enum collective, const char *name);

/* The next of a list of names with commas between them; false: no more. A name
 * that is too long for an algorithm's is cut. */
enum { ALGORITHM_BYTES = 64 };
bool collective_next_name(const char **list, char name[ALGORITHM_BYTES]);

/* Elements that this rank has to give and gets, for the call's count. */
size_t shape_sends(const struct shape *, size_t count);
size_t shape_receives(const struct shape *, size_t count);

/* Whether nothing of this rank's memory may change, whatever the count. */
bool shape_gets_nothing(const struct shape *);

/* Elements from the start of a vector of S to where this rank's input or output
 * is in it if the call is in place. */
size_t shape_send_offset(const struct shape *, size_t count);
size_t shape_recv_offset(const struct shape *, size_t count);

/* Where in S the part is that `rank` has of or for another one, and how long it
 * is: of `all` units of any kind. Of collectives that cut S. */
size_t shape_part_begin(const struct shape *, size_t all, int rank, int of);
size_t shape_part(const struct shape *, size_t all, int rank, int of);

/* The parts of this rank, for the call's count: [nranks]. */
void shape_lengths(const struct shape *, size_t count, size_t *lengths);

/* From whom a rank hears in a sendrecv or pingpong; -1: in the latter nobody.
 */
int shape_source(const struct shape *);

/* The call itself; waits if requests is NULL. Else it writes as many of them as
 * it leaves under way, see collective_at_once(). call.c */
enum { SHAPE_REQUESTS = 2 };
coll_status shape_call(const struct shape *, const void *send, void *recv,
                       size_t count, coll_comm *comm,
                       coll_request *requests[SHAPE_REQUESTS]);

#ifdef __cplusplus
}
#endif
#endif
