/* SPDX-License-Identifier: MIT */
/* The library learns by itself while operations run; here they only have to
 * run, often enough. Rank 0 looks at what is known after each batch and says
 * how many operations the next one has; 0 ends the length. Its word goes out by
 * broadcast, so broadcasts of four bytes are learned on the way. */
#include "programs/tune_run.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    BATCH = 25,
    QUIET = 75, /* operations after which, if nothing changed, nothing will */
    CANDIDATES = 128,
};

static const char *const names[] = {"allreduce",      "reduce",    "broadcast",
                                    "reduce_scatter", "allgather", "gather",
                                    "scatter",        "alltoall",  "barrier"};
enum { NNAMES = sizeof(names) / sizeof(names[0]) };

const char *tune_collective(int i)
{
    return i >= 0 && i < NNAMES ? names[i] : NULL;
}

void tune_fail(struct tune_job *job, const char *format, ...)
{
    char why[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    fprintf(stderr, "coll_tune: rank %d: %s\n", job->rank, why);
    coll_comm_abort_because(job->comm, why);
    coll_comm_destroy(job->comm);
    exit(1);
}

void tune_check(struct tune_job *job, coll_status status)
{
    if (status != COLL_OK)
        tune_fail(job, "%s", coll_last_error(job->comm));
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool has_parts(const char *collective)
{
    static const char *const those[] = {"reduce_scatter", "allgather", "gather",
                                        "scatter", "alltoall"};
    for (size_t i = 0; i < sizeof(those) / sizeof(those[0]); i++)
        if (!strcmp(collective, those[i]))
            return true;
    return false;
}

size_t tune_count(const struct tune_job *job, const char *collective,
                  size_t *bytes)
{
    const size_t each = coll_dtype_bytes(job->dtype)
                        * (has_parts(collective) ? (size_t)job->nranks : 1);
    const size_t count = *bytes > each ? *bytes / each : 1;
    *bytes = !strcmp(collective, "barrier") ? 0 : count * each;
    return count;
}

/* Written to, so that each page is one of its own. Zeros sum up to zeros, in
 * every type. */
static void *vector(struct tune_job *job, size_t bytes)
{
    void *x = aligned_alloc(4096, bytes);
    if (!x)
        tune_fail(job, "no memory for %zu bytes; a smaller -e asks for less",
                  bytes);
    memset(x, 0, bytes);
    return x;
}

void tune_allocate(struct tune_job *job, size_t max_bytes)
{
    const size_t least = coll_dtype_bytes(job->dtype) * (size_t)job->nranks;
    const size_t bytes = max_bytes > least ? max_bytes : least;
    const size_t rounded = (bytes + 4095) / 4096 * 4096;
    job->send = vector(job, rounded);
    job->recv = vector(job, rounded);
}

static coll_status run_once(const struct tune_job *job, const char *collective,
                            size_t count)
{
    if (!strcmp(collective, "allreduce"))
        return coll_allreduce(job->send, job->recv, count, job->dtype, COLL_SUM,
                              job->comm, NULL);
    if (!strcmp(collective, "reduce"))
        return coll_reduce(job->send, job->recv, count, job->dtype, COLL_SUM, 0,
                           job->comm, NULL);
    if (!strcmp(collective, "broadcast"))
        return coll_broadcast(job->send, job->recv, count, job->dtype, 0,
                              job->comm, NULL);
    if (!strcmp(collective, "reduce_scatter"))
        return coll_reduce_scatter(job->send, job->recv, count, job->dtype,
                                   COLL_SUM, job->comm, NULL);
    if (!strcmp(collective, "allgather"))
        return coll_allgather(job->send, job->recv, count, job->dtype,
                              job->comm, NULL);
    if (!strcmp(collective, "gather"))
        return coll_gather(job->send, job->recv, count, job->dtype, 0,
                           job->comm, NULL);
    if (!strcmp(collective, "scatter"))
        return coll_scatter(job->send, job->recv, count, job->dtype, 0,
                            job->comm, NULL);
    if (!strcmp(collective, "alltoall"))
        return coll_alltoall(job->send, job->recv, count, job->dtype, job->comm,
                             NULL);
    return coll_barrier(job->comm, NULL);
}

/* What rank 0 goes by. */
struct watch {
    double begun;
    coll_candidate list[CANDIDATES];
    int n;
    const char *algorithm, *order; /* what was last chosen */
    int samples;                   /* of all */
    long changed;                  /* after so many operations */
};

static void look(struct tune_job *job, const struct tune_result *r,
                 struct watch *w)
{
    int samples = 0;
    tune_check(job,
               coll_explain_candidates(job->comm, r->collective, r->count,
                                       job->dtype, w->list, CANDIDATES, &w->n));
    for (int i = 0; i < w->n; i++)
        samples += w->list[i].samples;
    const coll_candidate *chosen = &w->list[0];
    if (samples == w->samples && chosen->algorithm == w->algorithm
        && chosen->rank_order == w->order)
        return;
    w->samples = samples;
    w->algorithm = chosen->algorithm;
    w->order = chosen->rank_order;
    w->changed = r->operations;
}

/* How many operations the next batch has. */
static int32_t next_batch(struct tune_job *job, struct tune_result *r,
                          struct watch *w)
{
    look(job, r, w);
    r->seconds = now() - w->begun;
    r->native = !strncmp(w->list[0].algorithm, "node_", 5);
    const double left = job->seconds - r->seconds;
    if (r->native || r->operations >= job->iterations || left <= 0
        || r->operations - w->changed >= QUIET)
        return 0;
    if (r->operations == 0)
        return 1; /* from which it is known how long one takes */
    const double each = r->seconds / (double)r->operations;
    double n = left / each;
    if (n > BATCH)
        n = BATCH;
    if (n > (double)(job->iterations - r->operations))
        n = (double)(job->iterations - r->operations);
    return n < 1 ? 1 : (int32_t)n;
}

static void keep(struct tune_job *job, struct tune_result *r,
                 const struct watch *w)
{
    const size_t bytes = (size_t)w->n * sizeof(*r->candidates);
    r->candidates = malloc(bytes + 1);
    if (!r->candidates)
        tune_fail(job, "no memory for the results");
    memcpy(r->candidates, w->list, bytes);
    r->n = w->n;
}

void tune_size(struct tune_job *job, struct tune_result *r)
{
    static struct watch w;
    int32_t batch = 0;
    w = (struct watch){.begun = now()};
    do {
        if (job->rank == 0)
            batch = next_batch(job, r, &w);
        tune_check(job, coll_broadcast(&batch, &batch, 1, COLL_I32, 0,
                                       job->comm, NULL));
        for (int32_t i = 0; i < batch; i++)
            tune_check(job, run_once(job, r->collective, r->count));
        r->operations += batch;
    } while (batch > 0);
    if (job->rank == 0)
        keep(job, r, &w);
}

const coll_candidate *tune_runner_up(const struct tune_result *r)
{
    const coll_candidate *best = NULL;
    for (int i = 0; i < r->n; i++) {
        const coll_candidate *c = &r->candidates[i];
        if (c->samples && !c->chosen
            && (!best || c->measured_seconds < best->measured_seconds))
            best = c;
    }
    return best;
}

const coll_candidate *tune_predicted(const struct tune_result *r)
{
    const coll_candidate *best = r->candidates;
    for (int i = 1; i < r->n; i++) {
        const coll_candidate *c = &r->candidates[i];
        if (c->predicted_seconds >= 0
            && (best->predicted_seconds < 0
                || c->predicted_seconds < best->predicted_seconds))
            best = c;
    }
    return best;
}

int tune_measured(const struct tune_result *r)
{
    int measured = 0;
    for (int i = 0; i < r->n; i++)
        measured += r->candidates[i].samples > 0;
    return measured;
}
