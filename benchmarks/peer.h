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

#include "collective.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One call of the collective under test. Parts of a _v and of nothing else have
 * lengths, and lie one after another: rank r's begins at begins[r]. */
struct peer_call {
    struct shape shape;
    float *send, *recv;
    size_t count;
    int *lengths, *begins;
};

struct peer {
    int rank, nranks;
    void *context;
    /* Makes it. Where the library leaves the result is returned: recv, or send
     * if it only works in place. */
    float *(*call)(void *context, const struct peer_call *);
    /* Returns once every rank has come: an allreduce of one byte. */
    void (*together)(void *context);
    /* x[i] becomes the largest of all ranks' x[i]. */
    void (*largest)(void *context, double *x, size_t count);
};

/* Measures what the arguments after the program's name ask for. Returns the
 * exit status: 2 for bad arguments. */
int peer_run(const struct peer *, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
