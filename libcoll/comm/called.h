/* SPDX-License-Identifier: MIT */
/* What a rank called, for the sentence that tells two different calls. Another
 * thread may read it while it is written, and then sees a mix of both. */
#ifndef COMM_CALLED_H
#define COMM_CALLED_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/algo.h"
#include "coll/types.h"

enum { CALLED_TEXT = 88 };

/* Calls that are no collectives, but which all ranks make in the same order. */
enum {
    CALLED_SPLIT = NKINDS,
    CALLED_DUP,
    CALLED_GROW,
    CALLED_SHARE,
    CALLED_DESTROY,
    CALLED_SEND, /* not in the same order; the root is the peer */
    CALLED_RECV,
    CALLED_END
};

/* Zeros: nothing yet. */
struct called {
    _Atomic uint64_t what; /* kind + 1, dtype, last byte of op, root */
    _Atomic uint64_t count;
};
/* Of a v-call. One whose ranks know all lengths has a hash of them for a root,
 * and so have allreduces that go as one. */
#define CALLED_UNEVEN (UINT64_C(1) << 63)

static inline void called_set(struct called *c, int kind, coll_dtype dtype,
                              coll_op op, int root, size_t count)
{
    const uint64_t what = (uint64_t)(kind + 1) << 48 | (uint64_t)dtype << 40
                          | ((uint64_t)op & 0xff) << 32 | (uint32_t)root;
    atomic_store_explicit(&c->what, what, memory_order_relaxed);
    atomic_store_explicit(&c->count, count, memory_order_relaxed);
}

/* What `what` says. */
static inline int called_kind(uint64_t what)
{
    return (int)((what & ~CALLED_UNEVEN) >> 48) - 1;
}
static inline int called_dtype(uint64_t what)
{
    return (int)(what >> 40 & 0xff);
}
static inline int called_op(uint64_t what)
{
    return (int)(what >> 32 & 0xff);
}
static inline uint32_t called_root(uint64_t what)
{
    return (uint32_t)what;
}

/* count: of all parts that the rank names together. */
static inline void called_set_uneven(struct called *c, enum coll_kind kind,
                                     coll_dtype dtype, coll_op op,
                                     uint32_t hash_or_root, size_t count)
{
    const uint64_t what = CALLED_UNEVEN | (uint64_t)(kind + 1) << 48
                          | (uint64_t)dtype << 40 | ((uint64_t)op & 0xff) << 32
                          | hash_or_root;
    atomic_store_explicit(&c->what, what, memory_order_relaxed);
    atomic_store_explicit(&c->count, count, memory_order_relaxed);
}

/* "reduce", "coll_comm_split()"; NULL: kind is none. */
const char *called_name(int kind);

/* "reduce of 99 f32, sum, root 2", "allgather_v of 99 f32, lengths
 * #9e3779b9", or "nothing". Returns text. */
const char *called_text(const struct called *, char text[CALLED_TEXT]);

#endif
