/* SPDX-License-Identifier: MIT */
/* Calls that start together: coll_group_start() to coll_group_end(). */
#ifndef COMM_GROUP_H
#define COMM_GROUP_H

#include "comm/request.h"

enum {
    GROUP_FUSED_BYTES = 65536, /* longest vector made of several allreduces' */
    GROUP_FEW = 8,             /* calls for which no memory is taken */
};

/* For inside group.c. */
struct group {
    int depth, n, max;
    coll_request **calls; /* [n], in order */
    coll_request *few[GROUP_FEW];
    coll_request own[GROUP_FEW]; /* those of the first calls, unless the caller
                                    waits for them */
    coll_status failed;          /* of the first call that did */
    char sentence[SENTENCE_BYTES]; /* and why */
};

/* Of the calling thread. */
struct group *group_here(void);

/* Who may be in a group: most programs never are, and pay for one look at this.
 * The first thread that ever was has a word of its own, which takes no lock to
 * write; the others are counted. */
extern struct group_threads {
    _Atomic(struct group *) first; /* that thread's; stays when it has ended */
    _Atomic bool first_is_in;
    _Atomic int others;
} group_threads;

/* The group that the calling thread is in, so that calls are recorded; NULL: it
 * is in none. */
static inline struct group *group_open(void)
{
    if (!atomic_load_explicit(&group_threads.first_is_in, memory_order_relaxed)
        && !atomic_load_explicit(&group_threads.others, memory_order_relaxed))
        return NULL;
    struct group *const g = group_here();
    return g->depth > 0 ? g : NULL;
}

/* Records a call whose arguments are right: a copy, which has its lengths if it
 * is a v-call. Fails with MEMORY. */
coll_status group_add(struct group *, const coll_request *,
                      coll_request **request);

/* The same of one that starts at once: memory for it, owned if the caller waits
 * for it; NULL: MEMORY. It is then either kept until the end, or dropped. */
coll_request *group_place(struct group *, bool owned);
void group_keep(struct group *, coll_request *, coll_request **request);
void group_drop(struct group *, coll_request *);

/* A call has failed, with fail_sentence(): the end of the group, if the thread
 * is in one, is to say so. Returns the status. */
coll_status group_noted(coll_status failed);

/* INVALID: this thread's group has calls on it. call: as for comm_enter(). */
coll_status group_check_unused(const coll_comm *, const char *call);

/* A hash, but 0, of the lengths that a fused one puts together, which all ranks
 * must agree on. */
uint32_t group_lengths(const coll_request *fused);

/* The fused one is over: ends those in it, and frees it. */
void group_end_fused(coll_request *fused, coll_status);

#endif
