/* SPDX-License-Identifier: MIT */
/* Collective communication between the processes of one parallel job.
 *
 * The calls follow NCCL (nccl.h) in snake case: same argument order, same
 * meaning of count and of in place. There is no stream; where NCCL has one,
 * the last argument is a request: NULL waits.
 *
 *   lengths    in elements, unless a name ends in _bytes
 *   vectors    contiguous, aligned to their element; NULL only if count is 0
 *   in place   send == recv, or as a call says; any other overlap is
 *              COLL_ERR_INVALID
 *   threads    one thread at a time per communicator; different communicators
 *              are independent. A call while another thread is in one, or from
 *              a function that a call runs, is COLL_ERR_BUSY and has done
 *              nothing. Any thread may call coll_comm_abort(), _abort_because(),
 *              _revoke(), _count(), _user_rank(), _get_async_error() and
 *              coll_last_error()
 *   order      every rank of a communicator makes the same calls in the same
 *              order, with the same count, dtype and op, but for sends and
 *              receives. Requests of one
 *              communicator run in the order of the calls, a blocking call
 *              behind those outstanding; those of different communicators run
 *              independently, in no order
 *   mismatch   where collectives differ in kind, count, dtype, op, root or
 *              order all ranks get MISMATCH, with a sentence that names two of
 *              them and what each has called: as soon as one hears of the
 *              other, or has waited in vain for a moment; at the latest in
 *              coll_comm_destroy(). A call that needs nothing of the rank that
 *              differs may have succeeded before
 *   progress   an operation advances while some call of its communicator, or a
 *              wait or test of its request, is under way; where ranks are on
 *              several hosts (or COLL_PROGRESS=thread, but not =off) also while
 *              the program computes: by a thread of the library, which runs
 *              where the thread could that made the process's first
 *              communicator, and for which a call waits for a moment. Other
 *              ranks may depend on this rank's progress
 *   errors     a negative coll_status; coll_last_error() has the sentence.
 *              After any error but INVALID, UNSUPPORTED, MEMORY and BUSY the
 *              outputs are undefined and only abort or destroy is left; ranks
 *              of this host that do not know of it yet may still use the
 *              vectors
 */
#ifndef COLL_COLL_H
#define COLL_COLL_H

#include <stddef.h>

#include "coll/communicator.h"
#include "coll/explain.h"
#include "coll/types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct coll_request coll_request; /* a call under way */

/* recv[i] = op over all ranks of send[i], for i in [0, count).
 *
 *   send, recv   count elements each; both stay the caller's, and neither may
 *                be touched until the call, or its request, has finished
 *   request      NULL: wait. Else the call returns at once, and *request goes
 *                to coll_wait(), or to coll_test() until that says COLL_OK.
 *                Requests of one communicator run one after another
 *
 * All ranks get the same bits. How far they are the same each time
 * COLL_DETERMINISM says, see README.md; on one host they are, for a count.
 * Fails with INVALID, UNSUPPORTED (op on this dtype), MEMORY, PEER, SYSTEM,
 * TIMEOUT, ABORTED, MISMATCH. Algorithms and costs: libcoll/README.md.
 */
coll_status coll_allreduce(const void *send, void *recv, size_t count,
                           coll_dtype dtype, coll_op op, coll_comm *comm,
                           coll_request **request);

/* Operators of the caller's own, for the communicator that they are made for.
 * Ranks that make and destroy them in the same order get the same values; a
 * communicator has up to 64 at one time, and frees what is left at its end. All
 * fail with INVALID, and the first two with MEMORY and UNSUPPORTED (65). */

/* By a function, see coll/types.h, on any dtype: x0 op x1 op ... op x(n-1),
 * where associativity is used. commutative 0: these in rank order; else in any.
 * context is handed to the function, and stays the caller's. */
coll_status coll_red_op_create(coll_op *op, coll_red_function *function,
                               void *context, int commutative, coll_comm *comm);

/* The sum of *scalar * x over all x, which are of `dtype` as *scalar is. Each
 * product is rounded to dtype (integers wrap; f16, bf16 and f8 are multiplied
 * in f32), then all are summed as by COLL_SUM. The scalar may differ from rank
 * to rank. Other dtypes are INVALID. */
coll_status coll_red_op_create_pre_mul_sum(coll_op *op, const void *scalar,
                                           coll_dtype dtype, coll_comm *comm);

/* With no request outstanding, and none kept that names it. INVALID for what is
 * no such op, and for one of another communicator. */
coll_status coll_red_op_destroy(coll_op op, coll_comm *comm);

/* The other collectives. What is said of coll_allreduce() about memory,
 * requests, repeatability and errors holds for each. root: INVALID unless in
 * [0, nranks). A collective with a root may return before others have come to
 * it, but some wait for all ranks: no rank may count on either. */

/* recv[i] of rank root = op over all ranks of send[i], for i in [0, count).
 * recv is not touched elsewhere, and may be NULL there. */
coll_status coll_reduce(const void *send, void *recv, size_t count,
                        coll_dtype dtype, coll_op op, int root, coll_comm *comm,
                        coll_request **request);

/* recv[i] = send[i] of rank root, for i in [0, count). send is not read
 * elsewhere, and may be NULL there. */
coll_status coll_broadcast(const void *send, void *recv, size_t count,
                           coll_dtype dtype, int root, coll_comm *comm,
                           coll_request **request);

/* recv[i] = op over all ranks of send[rank * recvcount + i], for i in
 * [0, recvcount). send has nranks * recvcount elements.
 * In place: recv == send + rank * recvcount elements. */
coll_status coll_reduce_scatter(const void *send, void *recv, size_t recvcount,
                                coll_dtype dtype, coll_op op, coll_comm *comm,
                                coll_request **request);

/* recv[r * sendcount + i] = send[i] of rank r, for i in [0, sendcount). recv
 * has nranks * sendcount elements.
 * In place: send == recv + rank * sendcount elements. */
coll_status coll_allgather(const void *send, void *recv, size_t sendcount,
                           coll_dtype dtype, coll_comm *comm,
                           coll_request **request);

/* recv[r * sendcount + i] of rank root = send[i] of rank r, for i in
 * [0, sendcount). recv has nranks * sendcount elements; elsewhere it is not
 * touched, and may be NULL.
 * In place, at the root: send == recv + root * sendcount elements. */
coll_status coll_gather(const void *send, void *recv, size_t sendcount,
                        coll_dtype dtype, int root, coll_comm *comm,
                        coll_request **request);

/* recv[i] = send[rank * recvcount + i] of rank root, for i in [0, recvcount).
 * send has nranks * recvcount elements; elsewhere it is not read, and may be
 * NULL.
 * In place, at the root: recv == send + root * recvcount elements. */
coll_status coll_scatter(const void *send, void *recv, size_t recvcount,
                         coll_dtype dtype, int root, coll_comm *comm,
                         coll_request **request);

/* recv[r * count + i] = send[rank * count + i] of rank r, for i in [0, count).
 * Both have nranks * count elements.
 * In place: send == recv; what is sent is then copied aside first. */
coll_status coll_alltoall(const void *send, void *recv, size_t count,
                          coll_dtype dtype, coll_comm *comm,
                          coll_request **request);

/* The same with parts that differ in length: counts and displs are arrays with a
 * number for each rank, in elements, which are copied by the call. displs says
 * where parts begin, in any order and with gaps, which are not touched; each rank
 * its own. NULL: one after another. Parts of a result must not overlap, which is
 * not checked: what lies in two of them may then be of either. A vector may be
 * NULL if none of its parts has elements. Ranks that say different lengths of a
 * part get MISMATCH, at the latest in a later call; also where one makes the v-call
 * and another the call without, whatever the lengths. */

/* recv[displs[r] + i] = send[i] of rank r, for i in [0, recvcounts[r]). All ranks
 * say the same recvcounts; send has recvcounts[rank] elements.
 * In place: send == recv + displs[rank] elements. */
coll_status coll_allgather_v(const void *send, void *recv,
                             const size_t *recvcounts, const size_t *displs,
                             coll_dtype dtype, coll_comm *comm,
                             coll_request **request);

/* recv[i] = op over all ranks of send[first + i], for i in [0,
 * recvcounts[rank]), where first is the sum of recvcounts[r] for r in [0, rank).
 * All ranks say the same recvcounts; send has as many elements as these together.
 * In place: recv == send + first elements. */
coll_status coll_reduce_scatter_v(const void *send, void *recv,
                                  const size_t *recvcounts, coll_dtype dtype,
                                  coll_op op, coll_comm *comm,
                                  coll_request **request);

/* The other three ask a rank only for what it sends and receives itself. Nothing
 * can be chosen by lengths that not all know: on one host each part is copied
 * from rank to rank, else, or with more than 256 ranks, it is one message. A rule
 * of COLL_ALGO for gather, scatter or alltoall that takes vectors of no bytes from
 * node_inline, or those of 8193 from node_direct, makes messages of all parts on
 * one host too. */

/* recv[displs[r] + i] of rank root = send[i] of rank r, for i in
 * [0, recvcounts[r]), which is rank r's sendcount. recv, recvcounts and displs
 * are not read elsewhere, and may be NULL.
 * In place, at the root: send == recv + displs[root] elements. */
coll_status coll_gather_v(const void *send, size_t sendcount, void *recv,
                          const size_t *recvcounts, const size_t *displs,
                          coll_dtype dtype, int root, coll_comm *comm,
                          coll_request **request);

/* recv[i] = send[displs[rank] + i] of rank root, for i in
 * [0, sendcounts[rank]), which is this rank's recvcount. send, sendcounts and
 * displs are not read elsewhere, and may be NULL.
 * In place, at the root: recv == send + displs[root] elements. */
coll_status coll_scatter_v(const void *send, const size_t *sendcounts,
                           const size_t *displs, void *recv, size_t recvcount,
                           coll_dtype dtype, int root, coll_comm *comm,
                           coll_request **request);

/* recv[recvdispls[r] + i] = send[senddispls[rank] + i] of rank r, for i in
 * [0, recvcounts[r]), which is rank r's sendcounts[rank]. From the first to the
 * last of their elements the two vectors must not overlap.
 * In place: send == recv; what is sent is then copied aside first. */
coll_status coll_alltoall_v(const void *send, const size_t *sendcounts,
                            const size_t *senddispls, void *recv,
                            const size_t *recvcounts, const size_t *recvdispls,
                            coll_dtype dtype, coll_comm *comm,
                            coll_request **request);

/* Finishes once every rank has called it. */
coll_status coll_barrier(coll_comm *comm, coll_request **request);

/* Point to point. A send matches a receive of its rank, peer and tag; messages
 * that match the same receive are received in the order in which they were
 * sent, and receives that match the same message in the order in which they
 * were called. Sends and receives are independent of the order of collectives:
 * a rank that waits in one goes on with its sends and receives.
 *
 *   peer      the other rank, or this one
 *   tag       any number from 0 on, that both give
 *   dtype     must be the other side's
 *   count     of the message must not be above that of the receive, but may be
 *             below. Else, and where dtypes differ, all ranks get MISMATCH
 *   request   as for collectives; those of sends and receives run all at once
 *
 * A send finishes when its vector may be written again. Short ones, of some
 * KiB, or 2 from shared memory, do so before they are received, but not without
 * end: no rank may count on it. What has no other side waits for it, as that may come yet: until
 * TIMEOUT, after COLL_OP_SECONDS, whatever the other rank waits for meanwhile.
 * coll_comm_destroy() fails with MISMATCH if messages are left that this rank did
 * not receive. */
coll_status coll_send(const void *send, size_t count, coll_dtype dtype,
                      int peer, int tag, coll_comm *comm,
                      coll_request **request);

/* Of whom a receive takes its message. */
enum { COLL_ANY_SOURCE = -1, COLL_ANY_TAG = -1 };

/* What a receive has received: from whom, and how many elements. */
typedef struct coll_message {
    int source, tag;
    size_t count;
} coll_message;

/* peer may be COLL_ANY_SOURCE, tag COLL_ANY_TAG; count is the most that may
 * come. message: written when the receive has finished, or NULL. */
coll_status coll_recv(void *recv, size_t count, coll_dtype dtype, int peer,
                      int tag, coll_comm *comm, coll_message *message,
                      coll_request **request);

/* Calls of this thread from coll_group_start() to coll_group_end(), of any
 * communicators, start together at the end (sends and receives may start
 * before), which waits for those whose request is NULL. So sends and receives
 * may come in any order, and short allreduces that follow one another (in one
 * communicator, with the same dtype and op) go as one message; but not with
 * operators of the caller's own, and not where COLL_DETERMINISM is run or
 * layout. Groups nest: the outermost one counts.
 *
 * No call may use what another one of its group writes. Every rank puts the same
 * allreduces together: else MISMATCH; all other calls may as well be made one by
 * one, or in other groups, in the same order. A call with wrong arguments fails
 * at once and is left out; the end says so, too: it returns the first error of
 * the group. Requests may be waited for after the end only; coll_start() is
 * INVALID in a group. Fails with INVALID (no group was started), with BUSY (the
 * group has not ended, and may be ended again), and like the calls. */
coll_status coll_group_start(void);
coll_status coll_group_end(void);

/* COLL_OK: finished; *request is freed and set to NULL. Never blocks (but for
 * half a second, once, to learn why a transport failed). TIMEOUT after calls for
 * COLL_OP_SECONDS in which the running operation did not finish; a pause between
 * two of them counts for a tenth of that at most. An error ends and frees the
 * request too, but for BUSY, and INVALID where its group has not ended.
 * *request == NULL is COLL_OK. */
coll_status coll_test(coll_request **request);

/* Like coll_test(), but returns only with COLL_OK or an error. */
coll_status coll_wait(coll_request **request);

/* Several requests at once, of one communicator or of many: all of these make
 * progress. n >= 0; entries that are NULL, or persistent and not started, are
 * skipped. BUSY, if one of the communicators is in use: nothing has happened.
 * A failure ends the requests of its communicator, the others go on.
 *
 * wait_all returns once all are over: COLL_OK, or the error of the first entry
 * that failed. All are ended, and freed and set to NULL unless persistent.
 * test_all does the same if all are over, else returns COLL_IN_PROGRESS and
 * ends none. */
coll_status coll_wait_all(int n, coll_request *requests[]);
coll_status coll_test_all(int n, coll_request *requests[]);

/* Returns once one is over, with its status; *index says which, and it is ended
 * as by coll_wait(). With nothing but entries to skip: COLL_OK, *index -1.
 * test_any returns COLL_IN_PROGRESS, and leaves *index, if none is over. */
coll_status coll_wait_any(int n, coll_request *requests[], int *index);
coll_status coll_test_any(int n, coll_request *requests[], int *index);

/* Persistent requests: a call that is made once and started often. Arguments
 * are those of the call without _init, are checked here, and hold for every
 * start: the addresses, not what is there; but counts and displs of a v-call
 * are copied. *request is not NULL and starts nothing; it is the caller's until
 * coll_request_free(). Fails as the call does before it starts. Other ranks
 * need not make it, nor use persistent requests: it is the starts of
 * collectives that must come in the same order as their calls. A send or
 * receive matches as if it were called when it is started. */
coll_status coll_allreduce_init(const void *send, void *recv, size_t count,
                                coll_dtype dtype, coll_op op, coll_comm *comm,
                                coll_request **request);
coll_status coll_reduce_init(const void *send, void *recv, size_t count,
                             coll_dtype dtype, coll_op op, int root,
                             coll_comm *comm, coll_request **request);
coll_status coll_broadcast_init(const void *send, void *recv, size_t count,
                                coll_dtype dtype, int root, coll_comm *comm,
                                coll_request **request);
coll_status coll_reduce_scatter_init(const void *send, void *recv,
                                     size_t recvcount, coll_dtype dtype,
                                     coll_op op, coll_comm *comm,
                                     coll_request **request);
coll_status coll_allgather_init(const void *send, void *recv, size_t sendcount,
                                coll_dtype dtype, coll_comm *comm,
                                coll_request **request);
coll_status coll_gather_init(const void *send, void *recv, size_t sendcount,
                             coll_dtype dtype, int root, coll_comm *comm,
                             coll_request **request);
coll_status coll_scatter_init(const void *send, void *recv, size_t recvcount,
                              coll_dtype dtype, int root, coll_comm *comm,
                              coll_request **request);
coll_status coll_alltoall_init(const void *send, void *recv, size_t count,
                               coll_dtype dtype, coll_comm *comm,
                               coll_request **request);
coll_status coll_allgather_v_init(const void *send, void *recv,
                                  const size_t *recvcounts,
                                  const size_t *displs, coll_dtype dtype,
                                  coll_comm *comm, coll_request **request);
coll_status coll_reduce_scatter_v_init(const void *send, void *recv,
                                       const size_t *recvcounts,
                                       coll_dtype dtype, coll_op op,
                                       coll_comm *comm, coll_request **request);
coll_status coll_gather_v_init(const void *send, size_t sendcount, void *recv,
                               const size_t *recvcounts, const size_t *displs,
                               coll_dtype dtype, int root, coll_comm *comm,
                               coll_request **request);
coll_status coll_scatter_v_init(const void *send, const size_t *sendcounts,
                                const size_t *displs, void *recv,
                                size_t recvcount, coll_dtype dtype, int root,
                                coll_comm *comm, coll_request **request);
coll_status coll_alltoall_v_init(const void *send, const size_t *sendcounts,
                                 const size_t *senddispls, void *recv,
                                 const size_t *recvcounts,
                                 const size_t *recvdispls, coll_dtype dtype,
                                 coll_comm *comm, coll_request **request);
coll_status coll_barrier_init(coll_comm *comm, coll_request **request);
coll_status coll_send_init(const void *send, size_t count, coll_dtype dtype,
                           int peer, int tag, coll_comm *comm,
                           coll_request **request);
coll_status coll_recv_init(void *recv, size_t count, coll_dtype dtype, int peer,
                           int tag, coll_comm *comm, coll_message *message,
                           coll_request **request);

/* Starts a persistent request, a collective behind those outstanding; returns at
 * once. It is then waited for or tested like any other, which leaves it not
 * started instead of freeing it. Any number may be under way, each once.
 * Allocates nothing but what the first run of an algorithm needs, and a message
 * that has to wait. Fails with INVALID (NULL, not persistent, still under way:
 * wait for it first), BUSY, and an earlier failure of the communicator; it is
 * then not started. */
coll_status coll_start(coll_request *request);

/* Frees a persistent request and sets *request to NULL; before the communicator
 * is destroyed or after. *request == NULL is COLL_OK. Fails with INVALID (not
 * persistent, or still under way). */
coll_status coll_request_free(coll_request **request);

/* Memory that the other ranks of this host reach without a copy: collectives
 * are fastest on vectors that lie in it, but for what coll_comm_register() says
 * of long ones. Zeroed, page aligned, on the NUMA node of the
 * calling thread; on huge pages of 2 MiB as far as they fit and the system has any.
 * It belongs to the process, serves all communicators, and vanishes with the
 * process however that ends. A child of fork() shares it with its parent.
 * Threads: any. Fails with INVALID (NULL, 0 bytes), MEMORY.
 */
coll_status coll_mem_alloc(void **memory, size_t bytes);

/* Gives memory of coll_mem_alloc() back that is in no collective under way; NULL
 * is allowed. Fails with INVALID. */
coll_status coll_mem_free(void *memory);

/* Gives memory of the caller's own what coll_mem_alloc() gives: its pages are
 * replaced by shared ones with the same contents, at the same address. More than
 * 4 MiB stays as it is, and collectives copy, where its pages cost more than
 * that, which is measured once in a process: on virtual machines whose host keeps
 * page tables in software.
 *
 * buf, bytes   whole pages (aligned_alloc() with the page size, mmap());
 *              private, and used by no other thread and in no call of libcoll
 *              under way during this one and coll_comm_deregister()
 * *handle      for coll_comm_deregister(), which turns shared pages into private
 *              ones again; to be called before the memory is freed
 *
 * Until then a child of fork() shares these with its parent. Serves every
 * communicator of the process. Fails with INVALID, MEMORY.
 */
coll_status coll_comm_register(coll_comm *comm, void *buf, size_t bytes,
                               void **handle);
coll_status coll_comm_deregister(coll_comm *comm, void *handle);

/* Gives all ranks, which share memory, the same pages: rank 0's, with what it
 * has there, take the place of the others', each at its own address. What one
 * writes all have; who reads it meets who wrote it before, by a barrier, an
 * allreduce or an allgather. For what all need and none wants a copy of:
 * weights, tables. Children of fork() have the same pages, too.
 *
 * buf, bytes   as of coll_comm_register(), as many bytes at all ranks
 * *handle      for coll_comm_deregister(), by which this rank alone gets pages of
 *              its own again, with what is there by then
 *
 * Every rank of comm makes the call, in the same order as its collectives. It
 * waits for this rank's outstanding requests, which the caller still ends, and
 * for the others. A call that fails does so at all ranks, with the sentence of
 * the first that has found the reason, and leaves each pages of its own; after
 * MEMORY with rank 0's contents at some. Collectives take the memory as any
 * other. Threads: one at a time for comm. Fails with
 * INVALID, UNSUPPORTED (ranks do not share memory, as COLL_SPLIT_HOST says; or
 * more than 4 MiB where pages cost too much, as coll_comm_register() says), PEER,
 * MEMORY, TIMEOUT, ABORTED, MISMATCH. */
coll_status coll_comm_share(coll_comm *comm, void *buf, size_t bytes,
                            void **handle);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
