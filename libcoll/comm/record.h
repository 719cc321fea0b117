/* SPDX-License-Identifier: MIT */
/* What a rank's operations were and when, in memory that is a file, so that it
 * can be read whatever becomes of the process: the flight recorder. The rank
 * itself reads it too, when calls that differ are looked for (calls.h).
 *
 *   header    who wrote it, two moments of its clock, why it failed, the names
 *             of kinds, datatypes and so on: a reader needs no other table
 *   calls     the last collectives, splits and so on, 64 bytes each. All ranks
 *             make them in the same order, so that their numbers match
 *   messages  the same of sends and receives, in a ring of their own: however
 *             many there are, the collective that another rank waits in stays
 *
 * Two looks at a clock and a cache line for each operation: no lock, no system
 * call. A record's number is written last, over that of the one that was there
 * before. So of a ring whose last number is n that of n + 1 - RECORD_RING may
 * be in part another one, and no reader believes it; and who reads twice the
 * same number of another has read a whole record meanwhile, but for how it ends
 * and, of a receive, whose message it took. In native byte order.
 */
#ifndef COMM_RECORD_H
#define COMM_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "coll/types.h"
#include "comm/called.h"

enum {
    RECORD_VERSION = 2,
    RECORD_RING = 2048, /* a power of two */
    RECORD_HEADER_BYTES = 8192,
    RECORD_SENTENCE = 1024,
};
#define RECORD_MAGIC "collrec" /* 8 bytes with the 0 */

enum record_flag {
    RECORD_MEETING = 1, /* the library's own barrier before this call */
};

struct record {
    _Atomic uint64_t number; /* from 1; 0: none */
    struct called called;
    _Atomic uint32_t tag;   /* of this call and all before it, see request.c;
                               of a message its own */
    uint32_t how;           /* record_how() */
    uint64_t begun;         /* ticks */
    _Atomic uint64_t ended; /* 0: not yet */
    int32_t status;         /* once ended */
    uint32_t flags, unused[2];
};
_Static_assert(sizeof(struct record) == 64, "a cache line");

/* Algorithm, order of the ranks, and 1 << variant segments. */
static inline uint32_t record_how(int algo, int order, int variant)
{
    return (uint32_t)algo << 24 | (uint32_t)order << 20
           | (uint32_t)variant << 16;
}
#define RECORD_NO_ALGO 255 /* of what is no collective */

/* Of a call, how it runs, and the tag of the one before. */
static inline uint32_t record_tag(uint32_t before, uint32_t fingerprint,
                                  uint32_t how)
{
    return (before ^ fingerprint ^ how) * 0x9e3779b1u + 1;
}
/* Without how: equal where the calls are, and all before them. */
static inline uint32_t record_tag_of_call(uint32_t tag, uint32_t how)
{
    return (tag - 1) * 0xe8b2f51u ^ how; /* times the inverse */
}

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
    uint32_t version, header_bytes, record_bytes;
    uint32_t nrecords; /* of each ring */
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
    struct record calls[RECORD_RING], messages[RECORD_RING];
};

struct record_ring {
    struct record *records;
    _Atomic uint64_t last; /* number; 0: there is none yet */
};

/* Of a communicator. Where it can have no file it is kept all the same, for the
 * rank's own looks. */
struct recorder {
    struct record_ring calls, messages;
    bool counts; /* the processor's own counter is the clock */
    struct record_moment first;

    struct record_file *file, *own; /* own: memory that is no file */
    int fd;     /* holds the lock that says that this lives; -1: no file */
    char *path; /* of the file */
    struct recorder *next; /* of this process, with a file */
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

static inline struct record *record_at(const struct record_ring *ring,
                                       uint64_t number)
{
    return &ring->records[number % RECORD_RING];
}

static inline uint64_t record_last(const struct record_ring *ring)
{
    return atomic_load_explicit(&((struct record_ring *)ring)->last,
                                memory_order_relaxed);
}

/* The next record, to be filled in: called, tag and how. */
static inline struct record *record_next(const struct record_ring *ring)
{
    /* Who reads what follows knows the last number. */
    atomic_thread_fence(memory_order_release);
    return record_at(ring, record_last(ring) + 1);
}

/* ended: 0 for what has not. */
static inline void record_publish(struct record_ring *ring, uint32_t flags,
                                  coll_status status, uint64_t begun,
                                  uint64_t ended)
{
    const uint64_t number = record_last(ring) + 1;
    struct record *e = record_at(ring, number);
    e->begun = begun;
    atomic_store_explicit(&e->ended, ended, memory_order_relaxed);
    e->status = status;
    e->flags = flags;
    /* Pair with the looks of readers, of a file or as in record_copy(). */
    atomic_store_explicit(&e->number, number, memory_order_release);
    atomic_store_explicit(&ring->last, number, memory_order_release);
}

/* Notes a second moment, from which a reader knows the length of a tick. */
void recorder_note(struct recorder *);

/* Whether the last call has not ended. */
static inline bool record_runs(const struct recorder *d)
{
    const uint64_t last = record_last(&d->calls);
    return last
           && !atomic_load_explicit(&record_at(&d->calls, last)->ended,
                                    memory_order_relaxed);
}

/* Ends the last call. Returns how many ticks it took. */
static inline uint64_t record_end(struct recorder *d, coll_status status)
{
    const uint64_t last = record_last(&d->calls);
    struct record *e = record_at(&d->calls, last);
    const uint64_t now = record_ticks(d->counts);
    if (status != COLL_OK)
        e->status = status;
    atomic_store_explicit(&e->ended, now, memory_order_release);
    if (last % RECORD_RING == 0)
        recorder_note(d);
    return now - e->begun;
}

/* Fails with MEMORY. */
coll_status recorder_init(struct recorder *);

/* What a file says of its communicator. */
struct record_job {
    int rank, nranks;
    uint64_t job, machine;
    const char *host;
    bool cleans; /* one rank of each host: removes what old jobs left */
};

/* Goes over to a file, before the first operation; where it cannot have one a
 * line of the log says why, and it goes on without. */
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
