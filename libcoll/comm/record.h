/* SPDX-License-Identifier: MIT */
/* The flight recorder: what a rank's operations were and when, in a file that
 * is mapped, so that it can be read whatever becomes of the process.
 *
 *   header   who wrote it, two moments of its clock, why it failed, the names
 *            of kinds, datatypes and so on: a reader needs no other table
 *   ring     the last RECORD_RING operations, 64 bytes each
 *
 * Two looks at a clock and a cache line for each operation: no lock, no system
 * call. A record's sequence is written last, and is 0 while the rest changes.
 * So what a killed process leaves is whole, and who reads twice the same
 * sequence has read a whole record meanwhile. In native byte order. Sends and
 * receives are not on record.
 */
#ifndef COMM_RECORD_H
#define COMM_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "coll/types.h"

enum {
    RECORD_VERSION = 1,
    RECORD_RING = 2048, /* a power of two */
    RECORD_HEADER_BYTES = 8192,
    RECORD_SENTENCE = 1024,
};
#define RECORD_MAGIC "collrec" /* 8 bytes with the 0 */

enum record_flag {
    RECORD_MEETING = 1, /* the library's own barrier before this call */
    RECORD_UNEVEN = 2,  /* a v-call; count is that of all ranks' parts */
};

struct record {
    _Atomic uint64_t sequence; /* from 1; 0: none, or not whole */
    uint64_t begun;            /* ticks; 0: just now */
    _Atomic uint64_t ended;    /* 0: not yet */
    uint64_t count;            /* as the caller says it */
    uint32_t number;           /* of the operation, the same on all ranks:
                                  from 1, wraps */
    uint32_t fingerprint;      /* of what all ranks must agree on */
    int32_t root, op;
    int16_t kind, dtype, algo, order; /* order: of the ranks */
    uint16_t segments, flags;
    int32_t status; /* once ended */
};
_Static_assert(sizeof(struct record) == 64, "a cache line");

/* What ticks counts. */
enum record_clock { RECORD_TSC = 1, RECORD_CNTVCT, RECORD_NANOSECONDS };

struct record_moment {
    uint64_t ticks;
    int64_t monotonic_ns, real_ns; /* CLOCK_MONOTONIC, CLOCK_REALTIME */
};

/* Tables of names, in this order, in the text behind the header: each name ends
 * with a 0, each table with an empty name. */
enum record_table {
    RECORD_KINDS,
    RECORD_DTYPES,
    RECORD_OPS,
    RECORD_ALGOS,
    RECORD_ORDERS,
    RECORD_NTABLES
};

struct record_header {
    char magic[8];
    uint32_t version, header_bytes, record_bytes, nrecords;
    uint32_t coll_version;
    int32_t rank, nranks, pid;
    uint32_t clock;
    _Atomic int32_t failed; /* a coll_status, with a sentence; 0: none */
    uint64_t job;           /* the communicator's number, on all ranks */
    uint64_t machine; /* where equal, monotonic_ns is one clock; 0: unknown */
    struct record_moment first, last;
    char host[64];
    char sentence[RECORD_SENTENCE];
};

struct record_file {
    struct record_header header;
    char names[RECORD_HEADER_BYTES - sizeof(struct record_header)];
    struct record ring[RECORD_RING];
};

/* Of a communicator; recorder_init() makes one that keeps nothing but the
 * running operation. */
struct recorder {
    struct record *ring, *now; /* now: the last one begun */
    uint64_t mask, sequence;
    bool counts; /* the processor's own counter is the clock */
    struct record_moment first;
    struct record spare;

    struct record_file *file; /* NULL: none */
    int fd;                   /* holds the lock that says that this lives */
    char *path;
    struct recorder *next; /* of this process */
};

static inline uint64_t record_nanoseconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t record_ticks(bool counts)
{
#if defined(__x86_64__)
    if (counts)
        return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    if (counts) {
        uint64_t ticks;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
    }
#endif
    (void)counts;
    return record_nanoseconds(CLOCK_MONOTONIC);
}

/* The next record, to be filled in: what the caller knows, from count on. */
static inline struct record *record_next(struct recorder *d)
{
    struct record *e = d->now = &d->ring[d->sequence & d->mask];
    atomic_store_explicit(&e->sequence, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* for who reads meanwhile */
    return e;
}

static inline void record_publish(struct recorder *d)
{
    struct record *e = d->now;
    e->begun = 0;
    atomic_store_explicit(&e->ended, 0, memory_order_relaxed);
    /* Pairs with the two looks of a reader. */
    atomic_store_explicit(&e->sequence, ++d->sequence, memory_order_release);
}

/* When it began. A short operation is asked once its vector is out, as a look
 * at the clock takes less while one waits. */
static inline void record_begun(struct recorder *d)
{
    d->now->begun = record_ticks(d->counts);
}

/* Notes a second moment, from which a reader knows the length of a tick. */
void recorder_note(struct recorder *);

/* Returns how many ticks it took. */
static inline uint64_t record_end(struct recorder *d, coll_status status)
{
    struct record *e = d->now;
    const uint64_t now = record_ticks(d->counts);
    if (!e->begun)
        e->begun = now;
    e->status = status;
    atomic_store_explicit(&e->ended, now, memory_order_release);
    if (d->sequence % RECORD_RING == 0)
        recorder_note(d);
    return now - e->begun;
}

/* Whether an operation has begun and not ended. */
static inline bool record_runs(const struct recorder *d)
{
    return d->sequence
           && !atomic_load_explicit(&d->now->ended, memory_order_relaxed);
}

void recorder_init(struct recorder *);

/* What a file says of its communicator. */
struct record_job {
    int rank, nranks;
    uint64_t job, machine;
    const char *host;
    bool cleans; /* one rank of each host: removes what old jobs left */
};

/* Goes over to a file; where it cannot have one a line of the log says why, and
 * it goes on without. */
void recorder_open(struct recorder *, const struct record_job *);

/* The reason why the communicator failed. Any thread. */
void recorder_fail(struct recorder *, coll_status, const char *sentence);

/* kept false: nothing is left of it. */
void recorder_close(struct recorder *, bool kept);

/* The length of `ticks`. */
double recorder_seconds(const struct recorder *, uint64_t ticks);

/* The moment now, of the processor's own counter or not. */
struct record_moment record_moment_now(bool counts);

/* record_folder.c: where files are, an absolute path that the caller frees.
 * NULL: nowhere; *why says why, NULL if the user said so. */
char *record_folder(const char **why);
/* "coll-JOB-rank-pid.rec"? And of which process? */
bool record_is_name(const char *name, long *pid);
/* Removes files that nobody writes any more: those of a week ago, and the
 * oldest while there are more than 256. */
void record_clean(const char *folder);

#endif
