/* SPDX-License-Identifier: MIT */
/* The ranks of one host: what they share, and collectives on it.
 *
 * Each rank has a region in one shared segment that it alone writes:
 *
 *   entry   four cache lines, used in turn: the operation's number and
 *           fingerprint, and beside them a short vector or the place of a long
 *   phase   how far the rank is in the operation
 *   bell    wakes the rank where it sleeps
 *   copy    room for vectors that do not fit into an entry
 *   stage   room for chunks of vectors that others cannot reach
 *   news    of a job on several hosts: a number that goes with an operation
 *
 * An entry may be written again after four operations: by then every rank is
 * known to have begun the last but two, so it has done with this one.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include <stdatomic.h>

#include "algo/algo.h"
#include "node/heap.h"
#include "node/levels.h"
#include "node/modes.h"
#include "node/nest.h"
#include "node/segment.h"
#include "node/views.h"
#include "op/op.h"

enum {
    NODE_SLOTS = 4,
    NODE_LINE_DATA = 56,       /* bytes of a vector beside the number */
    NODE_INLINE_BEST = 2048,   /* with a processor for each rank */
    NODE_INLINE_BYTES = 8192,  /* longest vector that is copied into a slot */
    NODE_STAGE_BYTES = 262144, /* of a vector, copied in at one time */
    /* Of a vector, read from a process at one time: as much as lets pieces of
     * all ranks stay in a second cache, as a call costs what 10 KiB do; but: */
    NODE_PIECE_MOST = 262144,
    NODE_PIECE_LEAST = 65536,
    NODE_FOREIGN_MIN = 262144, /* shorter ones are not worth system calls */
    NODE_MEMO_OFFER = 2,       /* what pull.c offers */
    NODE_PARTS_RANKS = 256,    /* whose lengths are told in one slot */
};

/* word: number of the operation << 32 | fingerprint, or | step. Two lines
 * apart, as processors fetch lines in pairs. */
struct node_line {
    _Alignas(128) _Atomic uint64_t word;
    unsigned char data[NODE_LINE_DATA];
};

struct node_bell {
    _Alignas(128) _Atomic uint32_t rings; /* futex */
    _Atomic uint32_t asleep;
};

struct node_region {
    struct node_line entry[NODE_LEVELS_MAX][NODE_SLOTS];
    struct node_line result[NODE_SLOTS]; /* from a leader to its group */
    struct node_line phase;
    struct node_bell bell;
    _Alignas(128) _Atomic uint16_t news[NODE_SLOTS];
    _Atomic uint64_t begun; /* see node_begun() */
    _Alignas(128) unsigned char copy[NODE_LEVELS_MAX + 1][NODE_SLOTS]
                                    [NODE_INLINE_BYTES];
    _Alignas(4096) unsigned char in[2][NODE_STAGE_BYTES];
    unsigned char out[2][NODE_STAGE_BYTES];
};

struct node_peer {
    struct node_region *region;
    struct heap_name heap;
    int pid;
    bool same_process;
    struct node_views large;  /* of long collectives */
    struct node_views pulled; /* pull.c: mapped while one of those runs */
    bool out_of_reach;        /* pull.c */
    uint64_t waived;          /* pull.c: bytes that came without a mapping */
};

/* A part for each rank, of any length, in elements. */
struct node_side {
    const size_t *before; /* [n + 1]: of all before it, by place */
    const size_t *at;     /* [n]: where each begins in this rank's vector; NULL:
                             one after another */
};
struct node_parts {
    /* Of the vector that has a part for each rank; of alltoall what is sent. */
    struct node_side all;
    struct node_side got; /* alltoall: what this rank gets */
    /* Each rank knows the lengths of what it sends and gets itself, and has
     * none for the others'; see parts.c. */
    bool own;
};
/* Of a part, what two ranks say that differs, in elements. */
struct node_lengths {
    int from, to; /* places; from -1: nothing differs */
    size_t sent, expected;
};

struct node_call {
    enum coll_kind kind;
    int root; /* place */
    coll_dtype dtype;
    const void *in;
    void *out;
    size_t count, elem_bytes; /* count as in coll.h's call */
    /* Elements of all parts together, where there is a part for each rank and
     * the last ones are shorter or have none; 0: each has count. A rank without
     * may say NULL where its part is read or written. Direct only. */
    size_t whole;
    /* Or they lie apart: so many elements from the beginning of one to that of
     * the next, and the part of a place is the part_of[place]th, in ascending
     * order. 0: one after another, by place. */
    size_t apart;
    const int *part_of;
    /* Or they differ in length, and count is that of the longest. */
    const struct node_parts *parts;
    const struct combine *combine;
    bool flat; /* all is combined by place, in one pass, without groups */
    uint32_t tag;
    uint16_t news; /* for node_heard(); 0: none */
};

/* Where a vector is, seen from here: at address, or foreign: in a process. */
struct node_place_of {
    char *address;
    bool foreign;
};

/* Groups for long vectors, see nest.h. */
struct node_near {
    struct nest nest[NKINDS]; /* by kind */
    int *place_of;            /* [n], by position */
    int *position_of;         /* [n], by place */
};

/* The last long operation, and what it took on this rank. */
struct node_last {
    enum coll_kind kind;
    bool foreign, own, tells;
    int mode;
    size_t bytes;
    float ticks;
};

/* At the start of the segment. */
struct node_shared {
    _Alignas(4096) _Atomic uint32_t sleepers;
    struct node_region region[];
};

struct node {
    int n, me;
    int *rank_of;            /* place -> rank */
    struct segment *segment; /* the first rank's */
    struct node_shared *shared;
    struct segment_view view;
    struct node_peer *peers; /* by place */
    struct node_levels levels;
    struct node_membership groups[NODE_LEVELS_MAX]; /* this rank's */
    int ngroups;
    bool top;  /* the last of them is the top one */
    bool flat; /* one level, one group */
    struct node_near near;
    bool tells; /* the job has other hosts, so operations carry news */

    bool reads_foreign;  /* process_vm_readv() and _writev() work among all */
    bool fences;         /* membarrier() does */
    size_t inline_bytes; /* the longest vector that is best sent inline */
    size_t cache_bytes;  /* vectors from here on do not stay in the caches */

    struct node_call call; /* the caller's; what follows is of its run */
    coll_status (*step)(struct node *);
    uint32_t number;        /* of the operation, from 1 */
    uint64_t word;          /* number << 32 | call.tag: what its lines say */
    uint32_t safe;          /* every rank is known to have begun this one */
    int awaited;            /* a place that something is awaited of; -1: none */
    int state, level, at;   /* the way's own: where it is, whom it waits for */
    size_t ahead_at, ahead; /* inline.c: bytes that it will read of others */
    bool foreign;           /* some vector is in no heap */
    bool in_place; /* of some rank, both vectors are one, see entries.c */
    int mode;      /* as in modes.h */
    bool stage_stream;
    size_t block; /* stage.c, near.c: which block is under way */
    struct node_place_of *ins, *outs; /* by place */
    const void **src;
    void **dst;
    size_t piece_bytes;     /* of a vector, read from a process at one time */
    unsigned char *scratch; /* a piece of each rank, and one more */

    struct modes *modes; /* what this rank learned if it says them; [2], of
                            parts of which each rank knows its own */
    struct node_last last;
    struct heap_memo memo[3];           /* of in, out, and: */
    struct node_views announced;        /* own blocks that peers know */
    uint64_t bytes_read, bytes_written; /* by this operation */
    struct node_lengths differ;         /* parts.c */
};

/* Exchanges `bytes` of each rank of the job. */
typedef coll_status node_allgather(void *context, const void *mine, void *all,
                                   size_t bytes);

struct node_job {
    int rank, nranks;
    const uint64_t *host_of;
    uint64_t job;
    node_allgather *allgather;
    void *context;
    /* Where this rank runs, see levels.h. */
    void (*place)(void *context, struct node_place *, int local_rank,
                  int local_ranks);
    bool crowded; /* ranks have to take turns on the processors */
};

/* near_pieces.c: the groups of node->near. */
coll_status near_group(struct node *, const struct node_place places[]);

/* Collective over the job. *node is NULL where this host has one rank, or where
 * its ranks cannot share memory: the reason is logged. */
coll_status node_create(struct node **node, const struct node_job *job);
void node_free(struct node *node);

/* A peer's block, mapped now if need be; NULL if it cannot be. The one before
 * stays as well. touch: as heap_map() takes it. */
char *node_view(struct node_peer *, struct node_views *, uint64_t block,
                uint64_t bytes, bool touch);

/* Two ways to run node->call; how is in inline.c and direct.c. Inline is for at
 * most NODE_INLINE_BYTES of what a rank sends; direct is for all but BARRIER.
 */
void node_start_inline(struct node *node);
void node_start_direct(struct node *node);
/* The third is for parts of which each rank knows its own: GATHER, SCATTER and
 * ALLTOALL of at most NODE_PARTS_RANKS ranks. A MISMATCH of lengths is in
 * node->differ. */
void node_start_parts(struct node *node);
/* COLL_IN_PROGRESS: call again. */
static inline coll_status node_step(struct node *node)
{
    return node->step(node);
}
/* Whether the running operation waits for this rank. */
bool node_awaits(const struct node *node, int rank);
/* Of the operation that has just finished: the least, but 0, of this rank's
 * news and of those that came with what it waited for: of all ranks but in
 * REDUCE and GATHER (the root hears all), BROADCAST and SCATTER (the root is
 * heard). Only where the job has other hosts. */
uint16_t node_heard(const struct node *node);

/* For jobs on several hosts, in which not every operation comes here: says that
 * this rank has begun the job's operation `number`, wherever it runs. */
void node_begun(struct node *node, uint32_t number, uint32_t tag);
/* MISMATCH if the running operation waits for a rank that has begun another one
 * of the same number; else IN_PROGRESS. */
coll_status node_check(const struct node *node, uint32_t number);

/* Sleeps until a peer rings, but not for long; at_most_ns 0: some milliseconds.
 * ready is asked once more after peers can see that this rank sleeps. */
void node_sleep(struct node *node, long at_most_ns,
                bool (*ready)(void *context), void *context);
/* Wakes who sleeps and may wait for what was just published: one place, or all
 * (-1). */
void node_ring_sleepers(struct node *node, int place);
static inline void node_ring(struct node *node, int place)
{
    if (atomic_load_explicit(&node->shared->sleepers, memory_order_relaxed))
        node_ring_sleepers(node, place);
}
static inline void node_ring_all(struct node *node)
{
    node_ring(node, -1);
}
bool node_bell_register(void);

#endif
