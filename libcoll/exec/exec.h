/* SPDX-License-Identifier: MIT */
/* Runs a plan: starts steps in order, lets them finish out of order.
 *
 * A run allocates nothing. Chunks of no elements move no messages. But where
 * the caller says what is in each chunk, they move a byte with a tag of its
 * own: so a rank that expects more, or less, gets MISMATCH and does not wait in
 * vain.
 */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include "op/op.h"
#include "plan/plan.h"
#include "transport/transport.h"

enum { EXEC_WINDOW = 64 }; /* transfers in flight at once */

/* By how much that tag differs from the call's: in bits that travel anywhere.
 */
enum { EXEC_NOTHING = 0x155 };

/* Chunks of any lengths, in elements, of PLAN_IN or PLAN_OUT. */
struct exec_chunks {
    const size_t *before; /* [nchunks + 1]: elements of all that come before */
    const size_t *at; /* [nchunks]: where each begins in the buffer. NULL: one
                         after another; must be if plan.runs */
};

/* What one run works on. in may equal out. tmp: exec_tmp_bytes(). All NULL: a
 * dry run, of which only the timing is wanted. A buffer that the plan does not
 * name may be NULL. */
struct exec_call {
    const void *in;
    void *out, *tmp;
    size_t count, elem_bytes;         /* of the vector that the plan cuts up */
    size_t in_first, out_first;       /* if in (out) is a part of it: the part's
                                         first element */
    const struct exec_chunks *chunks; /* [2], of PLAN_IN, whose lengths are the
                                         scratch's too, and PLAN_OUT; NULL:
                                         equal ones. See exec_lay_out() */
    const struct combine *reduce;
    int first;     /* of PLAN_COMBINE: the position of rank 0, ... */
    int divisor;   /* ... and of an average; both 0 for other plans */
    uint32_t tag;  /* equal on all ranks, see struct transfer */
    uint16_t news; /* this rank's; 0: none */
};

struct exec {
    const struct plan *plan;
    struct transport *const *to; /* per rank; NULL: meter, for all */
    struct transport *meter;     /* whose work() is told of local work */
    struct exec_call call;
    char *base[PLAN_NBUFS];
    size_t chunk_min, nlonger; /* the first nlonger chunks have one more */
    size_t slot_bytes;
    size_t *slot_at; /* [nslots + 1], in elements; as exec_lay_out() left it */
    char nothing[2]; /* is sent, and received, as a chunk of no elements */
    /* By this run so far. A message is a copy at each of its ends. */
    uint64_t bytes_read, bytes_written;
    uint64_t messages; /* sent */
    /* The least, but 0, of this rank's news and of all that it has heard. What
     * it sends says so: who hears, through others too, from every rank before
     * it finishes then knows the least of all ranks' news. */
    uint16_t news;
    uint32_t run;       /* stamps finished[], so that a rerun needs no reset */
    uint32_t *finished; /* per step: the run in which it last finished */
    const void **src;   /* as many as the plan combines; NULL: none */
    step_id next;       /* first step not yet started */
    uint64_t flying;    /* bit i: flight[i] is under way */
    struct {
        struct transfer transfer;
        step_id step;
    } flight[EXEC_WINDOW];
};

/* plan and to stay the caller's and outlive the exec. */
coll_status exec_init(struct exec *, const struct plan *plan,
                      struct transport *const *to);
void exec_free(struct exec *);

size_t exec_tmp_bytes(const struct plan *, size_t count, size_t elem_bytes);
void exec_start(struct exec *, const struct exec_call *);

/* To be called before exec_start() of a call that says its chunks: makes the
 * slots as long as those of PLAN_IN need them, so scratch is never much more
 * than what is heard at once. *tmp_bytes: then, instead of exec_tmp_bytes().
 * Fails with MEMORY. */
coll_status exec_lay_out(struct exec *, const struct exec_chunks *in,
                         size_t elem_bytes, size_t *tmp_bytes);

/* COLL_OK: all done; COLL_IN_PROGRESS: call again once a transport moved; an
 * error of a transfer: the run is over once the transports are cancelled. */
coll_status exec_progress(struct exec *);

/* The same for who knows that of this run's transfers just this one is newly
 * over, or none (NULL), and that none ends while it is posted. */
coll_status exec_follow(struct exec *, const struct transfer *over);

/* After a MISMATCH: a message that was sent in this call, but has not the
 * length that the plan asks for, as the ranks said other chunks; in bytes.
 * false: there is none, or it is not known. */
struct exec_lengths {
    int peer; /* who sent it */
    size_t sent, expected;
};
bool exec_find_lengths(const struct exec *, struct exec_lengths *);

/* Whether the run waits for a message from or to that rank now. */
bool exec_awaits(const struct exec *, int peer);

#endif
