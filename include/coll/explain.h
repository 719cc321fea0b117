/* SPDX-License-Identifier: MIT */
/* What a communicator has moved, what it would choose and why, and the tables of
 * settings, algorithms and transports. coll.h says what holds for all calls. */
#ifndef COLL_EXPLAIN_H
#define COLL_EXPLAIN_H

#include <stddef.h>
#include <stdint.h>

#include "coll/communicator.h"
#include "coll/types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* What this rank has moved since the communicator was made: bytes that the
 * library read and wrote in vectors and in its own buffers, on this rank's
 * processor. bytes of a vector that are read twice count twice. */
typedef struct coll_statistics {
    uint64_t operations; /* collectives finished */
    uint64_t bytes_read, bytes_written;
    uint64_t failures;     /* collectives that ended with an error */
    uint64_t vector_bytes; /* of those finished: what one rank holds in full,
                              as all parts of an allgather */
    double seconds;        /* from begin to end of each, waiting included */
} coll_statistics;
coll_status coll_stats(const coll_comm *comm, coll_statistics *stats);

/* What coll_stats() says, of one collective: "allreduce", "reduce_scatter" and so
 * on. Both fail with INVALID. */
coll_status coll_stats_of(const coll_comm *comm, const char *collective,
                          coll_statistics *stats);

/* Messages that this rank has sent to others in the finished collectives of
 * that name, or of all, for NULL. What the ranks of a host combine in memory
 * that they share takes none. Fails with INVALID. */
coll_status coll_stats_messages(const coll_comm *comm, const char *collective,
                                uint64_t *messages);

/* What a collective ("allreduce", "reduce_scatter" ...) of this count would run,
 * and how long the library's model expects it to take. The algorithm's name has
 * static storage. Fails with INVALID. */
typedef struct coll_choice {
    const char *algorithm;
    double predicted_seconds;
} coll_choice;
coll_status coll_explain(const coll_comm *comm, const char *collective,
                         size_t count, coll_dtype dtype, coll_op op,
                         coll_choice *choice);

/* One way to run a collective, as the library sees it. */
typedef struct coll_candidate {
    const char *algorithm;     /* static storage, as the two below */
    const char *rank_order;    /* "given", "block" or "round_robin"; "by_hosts",
                                  "hosts_dealt": in shared memory on each host,
                                  so that the algorithm runs between hosts, in
                                  blocks or dealt over their groups */
    int segments;              /* pieces that are pipelined */
    double predicted_seconds;  /* by the model; negative: not priced */
    double latency_seconds;    /* of that, with links of endless bandwidth; 0:
                                  that is the least it takes, it was not
                                  rehearsed */
    double measured_seconds;   /* middle of the last operations; 0: none yet */
    int samples;               /* of them */
    int chosen;                /* 1: what the next operation would run */
    char why[160];             /* why it was chosen, or what it loses by */
} coll_candidate;

/* All candidates for such a call, the best first, at most max of them; *n says
 * how many. May take some milliseconds: prices are parted anew. Other ranks need
 * not call it. Fails with INVALID, UNSUPPORTED (COLL_ALGO forbids all), MEMORY.
 */
coll_status coll_explain_candidates(coll_comm *comm, const char *collective,
                                    size_t count, coll_dtype dtype,
                                    coll_candidate *candidates, int max,
                                    int *n);

/* The same for a cluster that is not here: nranks ranks, ranks_per_host of them
 * on each of the first hosts of a description (coll_topo_load()), and bytes of
 * the whole vector: what one rank holds in the end of an allgather, or at first
 * of a reduce-scatter. Obeys COLL_ALGO; ranks that are all on one host share its
 * memory, with a processor for each. INVALID beyond 2048 ranks, whose prices
 * would take minutes. */
coll_status coll_explain_cluster(const char *spec, int nranks,
                                 int ranks_per_host, const char *collective,
                                 size_t bytes, coll_candidate *candidates,
                                 int max, int *n);

/* Candidates as a table, several lines. As snprintf(): returns the length that
 * all of it has, and writes at most text_bytes with the final 0. */
size_t coll_explain_print(const coll_candidate *candidates, int n, char *text,
                          size_t text_bytes);

/* The tables behind coll_info. The i-th entry, or 0 past the last. */
typedef struct coll_setting_info {
    const char *name, *value, *fallback, *meaning;
    const char *source; /* "default", "environment", or the file's path */
} coll_setting_info;
typedef struct coll_algorithm_info {
    const char *collective, *name, *when;
} coll_algorithm_info;
int coll_setting_get(int i, coll_setting_info *info);
int coll_algorithm_get(int i, coll_algorithm_info *info);
const char *coll_transport_get(int i); /* NULL past the last */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
