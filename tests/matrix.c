/* SPDX-License-Identifier: MIT */
/* Every collective x dtype x op x {in place, not} x counts, on the ranks of one
 * job, against what coll_bench knows that each result must be.
 *
 *   matrix LONG      under collrun; LONG is the longest count, of the whole
 *                    vector; 0: just the short ones
 *
 * Vectors end where nobody may write, and an input that is no output stays what
 * it was. Rank 0 prints how many cases there were. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inputs.h"
#include "job.h"

static const char *const program = "matrix";

enum { GUARD = 64 };

static struct job job;
static uint64_t cases, wrong;
static char *send, *recv, *kept; /* for the longest vector and its guard */
static size_t *lengths;          /* of parts */

static bool defined(coll_op op, coll_dtype dtype)
{
    const bool bits = op >= COLL_BAND;
    const bool floating = dtype >= COLL_F16;
    return !bits || !floating;
}

static bool guarded(const char *end)
{
    for (int i = 0; i < GUARD; i++)
        if (end[i] != 0x55)
            return false;
    return true;
}

static void tell(const struct shape *s, size_t count, const char *what)
{
    if (wrong++ < 5)
        fprintf(stderr, "%s: rank %d of %d: %s of %zu %s, %s, root %d%s: %s\n",
                program, s->rank, s->nranks, collective_name(s->collective),
                count, coll_dtype_name(s->dtype), coll_op_name(s->op), s->root,
                s->in_place ? ", in place" : "", what);
}

static void try_one(struct shape *s, size_t count)
{
    const size_t bytes = coll_dtype_bytes(s->dtype);
    const size_t whole =
        bytes * count * collective_parts(s->collective, s->nranks);
    const size_t sent = bytes * shape_sends(s, count);
    const size_t got = bytes * shape_receives(s, count);
    const long turn = (long)cases++;
    char *in = send, *out = recv, what[48];
    struct inputs inputs;
    if (s->in_place) {
        in = recv + bytes * shape_send_offset(s, count);
        out = recv + bytes * shape_recv_offset(s, count);
    }
    memset(recv, INPUTS_UNTOUCHED, whole);
    memset(recv + whole, 0x55, GUARD);
    shape_lengths(s, count, lengths);
    s->lengths = lengths;
    inputs_create(&inputs, s);
    inputs_write(&inputs, in, count, turn);
    if (!s->in_place)
        memcpy(kept, send, sent);
    job_check(&job, shape_call(s, in, out, count, job.comm, NULL));
    const size_t bad = inputs_wrong(&inputs, out, count, turn);
    snprintf(what, sizeof(what), "%zu elements are wrong", bad);
    if (bad)
        tell(s, count, what);
    if (!s->in_place && memcmp(kept, send, sent) != 0)
        tell(s, count, "the input has changed");
    if (!guarded(recv + whole)
        || (!s->in_place && got < whole && got
            && (unsigned char)recv[got] != INPUTS_UNTOUCHED))
        tell(s, count, "written past the end");
    inputs_free(&inputs);
}

static void try_counts(struct shape *s, size_t longest)
{
    const size_t n = (size_t)s->nranks;
    const size_t counts[] = {0, 1, 7, n - 1, n, n + 1};
    const size_t parts = collective_parts(s->collective, s->nranks);
    const int ways = collective_in_place(s->collective) ? 2 : 1;
    for (int in_place = 0; in_place < ways; in_place++) {
        s->in_place = in_place;
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            s->root = collective_has_root(s->collective)
                          ? (int)(cases % (uint64_t)n)
                          : 0;
            try_one(s, counts[i]);
        }
        if (longest)
            try_one(s, (longest + parts - 1) / parts);
    }
}

int main(int argc, char **argv)
{
    const size_t longest = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    struct shape s;
    job_start(&job);
    const size_t room =
        8 * (longest + (size_t)job.nranks * (size_t)(job.nranks + 8)) + GUARD;
    send = job_alloc(room);
    recv = job_alloc(room);
    kept = job_alloc(room);
    lengths = job_alloc((size_t)job.nranks * sizeof *lengths);
    for (int c = 0; c < NCOLLECTIVES; c++)
        for (int d = 0; coll_dtype_name((coll_dtype)d); d++)
            for (int o = 0; coll_op_name((coll_op)o); o++) {
                s = (struct shape){.collective = (enum collective)c,
                                   .dtype = (coll_dtype)d,
                                   .op = (coll_op)o,
                                   .rank = job.rank,
                                   .nranks = job.nranks};
                if (collective_has_vectors(s.collective)
                    && (o == 0 || collective_reduces(s.collective))
                    && defined(s.op, s.dtype))
                    try_counts(&s, longest);
            }
    const uint64_t all = job_sum(&job, wrong);
    if (job.rank == 0)
        printf("%llu cases, %llu wrong\n", (unsigned long long)cases,
               (unsigned long long)all);
    free(send);
    free(recv);
    free(kept);
    free(lengths);
    job_finish(&job);
    return all != 0;
}
