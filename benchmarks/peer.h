/* SPDX-License-Identifier: MIT */
/* The measurement of coll_bench -d f32 -o sum -r 0 for another library, by the
 * timing rule and with the meaning of bytes of README.md. peer_mpi.c and
 * peer_gloo.cc say how that library is called; compare_peers.py runs them.
 *
 *   peer_NAME COLLECTIVE MIN MAX FACTOR [PAUSE]
 *
 * prints for each size: bytes, min, p50, p99 and max in us, wrong elements of
 * the worst rank in the first and the last iteration, iterations. PAUSE is
 * coll_bench's --pause.
 */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum peer_collective {
    PEER_ALLREDUCE,
    PEER_REDUCE,
    PEER_BROADCAST,
    PEER_REDUCE_SCATTER,
    PEER_ALLGATHER,
    PEER_GATHER,
    PEER_SCATTER,
    PEER_ALLTOALL,
    PEER_BARRIER,
    PEER_NCOLLECTIVES
};

struct peer {
    int rank, nranks;
    void *context;
    /* The collective under test; count as in the table of collective.h. Where
     * the library leaves the result is returned: recv, or send if it only works
     * in place. */
    float *(*call)(void *context, enum peer_collective, float *send,
                   float *recv, size_t count);
    /* Returns once every rank has come: an allreduce of one byte. */
    void (*together)(void *context);
    /* x[i] becomes the largest of all ranks' x[i]. */
    void (*largest)(void *context, double *x, size_t count);
};

/* PEER_NCOLLECTIVES for an unknown name. */
enum peer_collective peer_collective_find(const char *name);

/* Measures what the arguments after the program's name ask for. Returns the
 * exit status: 2 for bad arguments. */
int peer_run(const struct peer *, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
