/* SPDX-License-Identifier: MIT */
/* Communicators: how groups of ranks come to be, change, fail and end. coll.h says
 * what holds for all calls. */
#ifndef COLL_COMMUNICATOR_H
#define COLL_COMMUNICATOR_H

#include <stddef.h>

#include "coll/types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define COLL_VERSION_MAJOR 0
#define COLL_VERSION_MINOR 1
#define COLL_VERSION_PATCH 0
#define COLL_VERSION                                                           \
    (COLL_VERSION_MAJOR * 10000 + COLL_VERSION_MINOR * 100 + COLL_VERSION_PATCH)

typedef struct coll_comm coll_comm; /* a group of ranks */

/* Names a job. One process makes it and passes the bytes to all ranks. */
typedef struct coll_unique_id {
    unsigned char bytes[128];
} coll_unique_id;

/* COLL_VERSION of the library in use, which may differ from the header's. */
int coll_version(void);

/* A short lower-case phrase; static storage, never NULL. */
const char *coll_status_string(coll_status status);

/* The sentence about the last error: of this communicator if it failed, else
 * of the calling thread; "" if there was none. Valid until the thread's next
 * call into libcoll. comm may be NULL. */
const char *coll_last_error(const coll_comm *comm);

/* Makes an id and starts to listen for the ranks that will present it, in a
 * thread of this process, until all ranks have left or none came within
 * COLL_JOIN_SECONDS. Listens on the interfaces in COLL_INTERFACE, else on every
 * address of this host. Fails with SYSTEM. */
coll_status coll_get_unique_id(coll_unique_id *id);

/* Joins the job `id` as `rank` of `nranks`; returns once all have joined.
 *
 * The caller owns *comm and ends it with coll_comm_destroy() or _abort().
 * Fails with INVALID (rank outside [0, nranks), or taken), PEER (not all came
 * within COLL_JOIN_SECONDS: the sentence names who is missing), SYSTEM, MEMORY.
 */
coll_status coll_comm_init_rank(coll_comm **comm, int nranks, coll_unique_id id,
                                int rank);

/* What may differ from the settings for one communicator. size says how many
 * of the fields the caller knows: begin with COLL_CONFIG_INITIALIZER. Of any
 * field 0 or NULL means the setting, or the parent's in coll_comm_split(). */
typedef struct coll_config {
    size_t size;
    double op_seconds;       /* COLL_OP_SECONDS; INFINITY: for ever */
    double join_seconds;     /* COLL_JOIN_SECONDS */
    const char *algorithm;   /* COLL_ALGO; copied, and equal on all ranks */
    const char *determinism; /* COLL_DETERMINISM; equal on all ranks */
} coll_config;
#define COLL_CONFIG_INITIALIZER                                                \
    {                                                                          \
        sizeof(coll_config), 0, 0, NULL, NULL                                  \
    }

/* Like coll_comm_init_rank(). config: may be NULL. Fails also with INVALID for
 * what a config may not say, UNSUPPORTED for a field of a later version. */
coll_status coll_comm_init_rank_config(coll_comm **comm, int nranks,
                                       coll_unique_id id, int rank,
                                       const coll_config *config);

/* Makes a job of nranks threads of this process: comms[i] is rank i, each to be
 * used, and destroyed, by a thread of its own, as they wait for one another.
 * comms has room for nranks. The ranks inherit the calling thread's affinity.
 * Fails like coll_comm_init_rank(), and then has made none. Threads: any. */
coll_status coll_comm_init_all(coll_comm **comms, int nranks);

/* Groups the ranks of comm by color: each group becomes a communicator, its
 * ranks ordered by key and, where that is equal, as in comm.
 *
 * color     0 or more; COLL_SPLIT_NOCOLOR: this rank is in no group, and
 *           *newcomm is NULL; COLL_SPLIT_HOST: a group for each host, of ranks
 *           that say so and share memory (COLL_TRANSPORT=ucx: none do)
 * config    may be NULL; what it leaves open is as in comm
 *
 * Every rank of comm makes the call, in the same order as its collectives. It
 * waits for this rank's outstanding requests, which the caller still ends, and
 * for the others. comm stays as it is, to be destroyed before or after the new
 * one. A call that fails does so at all ranks, with the sentence of the first
 * that has found the reason; but for INVALID with comm NULL, comm that has
 * failed, or ranks that made different calls, comm can be used on.
 * Where the ranks are comm's in their order nothing is measured anew.
 * Threads: one at a time for comm. Fails with INVALID, PEER, SYSTEM, MEMORY,
 * TIMEOUT, ABORTED, MISMATCH. */
#define COLL_SPLIT_NOCOLOR (-1)
#define COLL_SPLIT_HOST    (-2)
coll_status coll_comm_split(coll_comm *comm, int color, int key,
                            coll_comm **newcomm, const coll_config *config);

/* The same ranks in the same order, as coll_comm_split(). It takes over what
 * comm has measured and learned, and its settings. */
coll_status coll_comm_dup(coll_comm *comm, coll_comm **newcomm);

/* Makes a communicator of the ranks of comm but for some, in their order; also
 * where comm has failed, and whichever rank is gone.
 *
 * exclude   nexclude ranks of comm, which do not make the call. nexclude 0: of a
 *           comm that failed with PEER those of the process that is gone, else
 *           nobody
 * config    may be NULL; what it leaves open is as in comm
 * flags     COLL_SHRINK_DEFAULT, or COLL_SHRINK_ABORT: first coll_comm_abort(),
 *           so that ranks that wait in comm come here too; another thread of
 *           this process that waits there is waited for
 *
 * All that stay make the call, and must mean the same ranks: else they do not
 * meet, and the call fails with PEER when COLL_JOIN_SECONDS have passed. So it
 * does if another one dies meanwhile; the sentence names it by its new number,
 * and the call may be made again without it; twice if that was the first that stays
 * and its host is gone, too: who came late may have called it for
 * COLL_JOIN_SECONDS. Who is gone may be unknown where two processes died at once or
 * a network broke. An operation that failed in comm may have ended well at some
 * ranks, so who goes on from step to step has to ask, in the new communicator, how
 * far all are. comm is as it was, still to be destroyed. Threads: one at a time for
 * comm. Fails with INVALID, PEER, UNSUPPORTED (nexclude 0, and it is not known who
 * is gone; the first rank that stays had no socket left for this), SYSTEM, MEMORY. */
#define COLL_SHRINK_DEFAULT 0
#define COLL_SHRINK_ABORT   1
coll_status coll_comm_shrink(coll_comm *comm, const int *exclude, int nexclude,
                             coll_comm **newcomm, const coll_config *config,
                             int flags);

/* Makes a communicator of comm's ranks, which keep their numbers, and new ones.
 *
 * Ranks of comm give it, and rank -1; one of them, or several the same, an id of
 * coll_get_unique_id(), the others NULL. New ranks give comm NULL, that id, and
 * a rank from coll_comm_count(comm) to nranks - 1; for them it is
 * coll_comm_init_rank_config(). nranks is the new number of all.
 * config    may be NULL; what it leaves open is as in comm, and for new ranks
 *           as the settings say, which must come to the same
 *
 * For ranks of comm as coll_comm_split(): made in the order of its collectives,
 * waits for outstanding requests, fails at all of them if at one, and leaves
 * comm as it is. Threads: one at a time for comm. Fails with INVALID, PEER (not
 * all came within COLL_JOIN_SECONDS), SYSTEM, MEMORY, TIMEOUT, ABORTED,
 * MISMATCH. */
coll_status coll_comm_grow(coll_comm *comm, int nranks,
                           const coll_unique_id *id, int rank,
                           coll_comm **newcomm, const coll_config *config);

/* Joins the job that the environment describes: COLL_RANK, COLL_NRANKS and
 * COLL_ROOT (collrun sets them), else RANK, WORLD_SIZE, MASTER_ADDR and
 * MASTER_PORT (torchrun sets those), else PMIx (mpirun of Open MPI, prterun, srun
 * --mpi=pmix), else a step of Slurm's (SLURM_PROCID, SLURM_STEP_NUM_TASKS,
 * SLURM_STEP_NODELIST), else one rank alone. Fails like
 * coll_comm_init_rank(), and with INVALID for a half-set environment. */
coll_status coll_comm_init(coll_comm **comm);

/* Waits for this rank's outstanding collectives and sends and for the other
 * ranks to come here too, then leaves. NULL is allowed. An error says that not
 * all ranks left in order; the communicator is gone all the same, but after
 * BUSY, and INVALID: it has calls in a group that has not ended. Requests are
 * to be ended by coll_wait() or coll_test() before. */
coll_status coll_comm_destroy(coll_comm *comm);

/* The part of coll_comm_destroy() that needs other ranks, which come here or
 * there. What is left then waits for nobody: coll_comm_destroy(), which others
 * may have called long before, and what looks at this rank alone, as coll_stats()
 * and coll_comm_count(). Receives that have no message, and calls that would move
 * data, are INVALID; coll_comm_get_async_error() is COLL_OK.
 * Fails as coll_comm_destroy(), which is then what is left, and with INVALID
 * (NULL; finalized before). Threads: one at a time for comm. */
coll_status coll_comm_finalize(coll_comm *comm);

/* Fails all work of this communicator, here and at the other ranks, with
 * COLL_ERR_ABORTED, and wakes who waits. Never blocks; may be called from any
 * thread. The communicator still needs coll_comm_destroy(). */
coll_status coll_comm_abort(coll_comm *comm);

/* The same before coll_comm_shrink(), so that ranks that wait in comm come
 * there: all work of comm ends with ABORTED, here and at the others. flags: 0.
 * Never blocks. Threads: any. Fails with INVALID. */
coll_status coll_comm_revoke(coll_comm *comm, int flags);

/* coll_comm_abort() with a reason: one line, of which up to 600 bytes travel. It
 * becomes this rank's coll_last_error(comm), and at the others "rank 2 (host a,
 * pid 12) aborted: " goes before it. Nothing if comm has failed already.
 * Threads: any. Fails with INVALID for NULL. */
coll_status coll_comm_abort_because(coll_comm *comm, const char *why);

/* COLL_OK, or the error that ended this communicator. Never blocks. */
coll_status coll_comm_get_async_error(const coll_comm *comm);

/* The number of ranks, and this rank. */
int coll_comm_count(const coll_comm *comm);
int coll_comm_user_rank(const coll_comm *comm);

/* Where this rank's threads should run if all ranks have as many: cpus[t] is the
 * system's number of the processor for thread t, to which the caller may bind it
 * (sched_setaffinity()). Nobody is bound by this call.
 *
 * Ranks that may use the same processors share them out: each gets neighbouring
 * cores, and its threads the fewest NUMA nodes that hold them, a core each; so
 * memory that they touch first is near. By what the ranks might use when the
 * communicator was made; to be called before the calling thread binds itself.
 * comm NULL: of a process alone on its machine. Other ranks need not call it.
 * Takes some milliseconds. Fails with UNSUPPORTED (more threads than cores; a
 * rank that may use only some of this one's processors; hwloc describes another
 * machine), INVALID, SYSTEM, MEMORY; coll_last_error(NULL) has the sentence. */
coll_status coll_comm_place_threads(const coll_comm *comm, int nthreads,
                                    int cpus[]);

/* Forces or forbids algorithms from the next call on, in COLL_ALGO's words:
 * "ring", "allreduce:0-4k:recursive_doubling;4k-:^ring", and with an order of
 * the ranks "ring@by_hosts", "^@by_hosts" (see coll_candidate). "@by_hosts"
 * alone means "@hosts_dealt" too; with an algorithm it means just that
 * candidate. One rank alone ignores rules that leave it nothing, as "node_direct"
 * would. NULL or "" goes back to the library's own choice, and to what it has
 * yet to learn. Every rank must make the same call, with no request
 * outstanding. Fails with INVALID; the sentence lists the valid names. */
coll_status coll_comm_set_algorithm(coll_comm *comm, const char *rules);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
