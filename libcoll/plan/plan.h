/* SPDX-License-Identifier: MIT */
/* A plan is one rank's part of a collective, written down as data.
 *
 * The vector is cut into equal chunks. A step sends, receives, reduces or
 * copies one run of chunks. Steps start in the order written, each once the
 * (at most two) steps in its `after` have finished; transfers finish in any
 * order. A plan holds no addresses, counts or datatypes, so one plan serves
 * every call of the same shape: see exec.h, which runs it.
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/types.h"

enum plan_kind {
    PLAN_SEND,
    PLAN_RECV,
    PLAN_REDUCE,
    PLAN_COPY,
    PLAN_JOIN,
    PLAN_COMBINE
};
/* Scratch: PLAN_TMP is slots, each for one chunk or another; PLAN_SUM is shaped
 * like the vector, for partial sums that go out chunk by chunk. */
enum plan_buf { PLAN_IN, PLAN_OUT, PLAN_TMP, PLAN_SUM, PLAN_NBUFS };

typedef int32_t step_id; /* index into plan.steps */
#define PLAN_START ((step_id)-1)

struct step {
    uint8_t kind;           /* enum plan_kind */
    uint8_t dst, a, b;      /* enum plan_buf: dst = a op b */
    int32_t peer;           /* send, recv: the other rank; combine: which of
                               the sources `a` is */
    int32_t chunk, nchunks; /* the data: chunks [chunk, chunk + nchunks) */
    int32_t slot;           /* its place in PLAN_TMP, in slots of one chunk */
    step_id after[2];       /* start when these have finished */
    union {
        int32_t before; /* of the run in PLAN_TMP that this one is a part of: so
                           many chunks, from slot - before on */
        int32_t nsrc;   /* combine, which names none: how many sources */
    };
};
_Static_assert(sizeof(struct step) == 32, "two steps to a cache line");

/* Groups of positions inside groups, outermost level first. A group is a run
 * of neighbours: group g of a level is positions [first[g], first[g + 1]). */
enum { PLAN_LEVELS = 8 };
struct plan_tree {
    int nlevels;
    struct plan_level {
        int ngroups;
        const int *first; /* ngroups + 1 of them */
    } level[PLAN_LEVELS];
};

/* All that a planner may know, so that plans can be cached and simulated. A
 * planner numbers the ranks by their positions in an order that it is not told:
 * plan_renumber() puts the ranks in. */
struct plan_shape {
    int rank, nranks; /* this rank's position, and how many */
    int segments;     /* pieces for planners that pipeline, from 1 to ... */
    const struct plan_tree *tree; /* NULL: all are alike */
    int root; /* where a root is not at position 0: see enum coll_kind */
};
enum {
    PLAN_SEGMENTS_MAX = 16
}; /* ... so that they fit the executor's window */

struct plan {
    struct step *steps;
    int nsteps, capacity;
    int nchunks, nslots;
    bool sums;          /* a step uses PLAN_SUM */
    bool runs;          /* a step names several chunks */
    int combines;       /* the most sources of a PLAN_COMBINE; 0: none */
    coll_status status; /* sticky: adding to a failed plan does nothing */
};

/* Where an operand lives. Build with IN(), OUT(), TMP() and SUM(). A run of
 * chunks in PLAN_TMP lies contiguously from its slot on. */
struct place {
    uint8_t buf;
    int32_t chunk, nchunks, slot;
};
#define IN(c)            ((struct place){PLAN_IN, (c), 1, 0})
#define OUT(c)           ((struct place){PLAN_OUT, (c), 1, 0})
#define TMP(c, s)        ((struct place){PLAN_TMP, (c), 1, (s)})
#define SUM(c)           ((struct place){PLAN_SUM, (c), 1, 0})
#define IN_RUN(c, n)     ((struct place){PLAN_IN, (c), (n), 0})
#define OUT_RUN(c, n)    ((struct place){PLAN_OUT, (c), (n), 0})
#define TMP_RUN(c, n, s) ((struct place){PLAN_TMP, (c), (n), (s)})
#define SUM_RUN(c, n)    ((struct place){PLAN_SUM, (c), (n), 0})

void plan_init(struct plan *p, int nchunks, int nslots);
void plan_free(struct plan *p);

/* Each returns its step. dst, a and b of a step name the same run of chunks,
 * and those of them that are in PLAN_TMP the same slot. */
step_id plan_send(struct plan *p, int peer, struct place src, step_id after);
step_id plan_recv(struct plan *p, int peer, struct place dst, step_id after);
step_id plan_copy(struct plan *p, struct place dst, struct place src,
                  step_id after);
step_id plan_reduce(struct plan *p, struct place dst, struct place a,
                    struct place b, step_id after);
step_id plan_join(struct plan *p, step_id x, step_id y);

/* dst = what all n positions have of the run, combined in one pass in the order
 * of their ranks: rounded once, an average divided too. `mine` is that of
 * position me; those of the others are in PLAN_TMP in ascending order of
 * position, from `slot` on. A plan has its results from such steps or from
 * plan_reduce(), not from both. dst is not in PLAN_TMP. */
struct sources {
    struct place mine;
    int me, n, slot;
};
step_id plan_combine(struct plan *p, struct place dst, const struct sources *,
                     step_id after);

/* Puts rank order[i] where the plan says i. */
void plan_renumber(struct plan *p, const int *order);

/* Appends another plan of as many chunks. Its peer i is members[i], or base + i
 * if that is NULL; what it reads from PLAN_IN it takes from `in`; all of it
 * waits for `after`. Its scratch lies behind the plan's own. Returns a step
 * that has finished once all that it writes is written. */
step_id plan_append(struct plan *p, const struct plan *other,
                    const int *members, int base, enum plan_buf in,
                    step_id after);

/* The plan as text, one step a line; returns the length it needs, as
 * snprintf() does, and writes at most bytes of it. */
size_t plan_print(const struct plan *p, char *text, size_t bytes);

#endif
