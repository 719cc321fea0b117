/* SPDX-License-Identifier: MIT */
#include "job.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double job_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static coll_comm *joined; /* by this process; NULL: none now */

void job_refuse(int exit_status, const char *format, ...)
{
    char why[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    fflush(stdout);
    fprintf(stderr, "coll_bench: %s\n", why);
    if (joined) {
        coll_comm_abort_because(joined, why);
        coll_comm_destroy(joined);
    }
    exit(exit_status);
}

void job_look_up(void)
{
    if (joined && coll_comm_get_async_error(joined) < 0)
        job_refuse(1, "rank %d: %s", coll_comm_user_rank(joined),
                   coll_last_error(joined));
}

void job_no_memory(size_t bytes)
{
    job_refuse(1, "no memory for %zu bytes; a smaller -e asks for less", bytes);
}

void *job_alloc(size_t bytes)
{
    void *const x = calloc(1, bytes ? bytes : 1);
    if (!x)
        job_no_memory(bytes);
    return x;
}

void job_check(const struct job *job, coll_status status)
{
    if (status == COLL_OK)
        return;
    if (!job->comm)
        job_refuse(status == COLL_ERR_INVALID ? 2 : 1, "%s",
                   coll_last_error(NULL));
    job_refuse(1, "rank %d: %s", job->rank, coll_last_error(job->comm));
}

void job_barrier(const struct job *job)
{
    job_check(job, coll_barrier(job->comm, NULL));
}

void job_max(const struct job *job, double *x, size_t count)
{
    job_check(job,
              coll_allreduce(x, x, count, COLL_F64, COLL_MAX, job->comm, NULL));
}

uint64_t job_sum(const struct job *job, uint64_t x)
{
    job_check(job,
              coll_allreduce(&x, &x, 1, COLL_U64, COLL_SUM, job->comm, NULL));
    return x;
}

void job_gather(const struct job *job, const uint64_t *mine, size_t count,
                uint64_t *all)
{
    const size_t total = (size_t)job->nranks * count;
    memset(all, 0, total * sizeof *all);
    memcpy(all + (size_t)job->rank * count, mine, count * sizeof *all);
    job_check(job, coll_allreduce(all, all, total, COLL_U64, COLL_SUM,
                                  job->comm, NULL));
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++) /* FNV-1a */
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return hash;
}

/* Ranks with the same name and the same boot run on the same host. */
static uint64_t host_identity(void)
{
    char name[256] = "", boot[64] = "";
    gethostname(name, sizeof name - 1);
    FILE *const file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file) {
        if (!fgets(boot, sizeof boot, file))
            boot[0] = '\0';
        fclose(file);
    }
    return hash_text(hash_text(0xcbf29ce484222325, name), boot);
}

static void find_hosts(struct job *job)
{
    const int n = job->nranks, cpu = sched_getcpu();
    const uint64_t mine[] = {host_identity(), cpu < 0 ? 0 : (uint64_t)cpu};
    uint64_t *const all = job_alloc((size_t)n * sizeof mine);
    job->host_of = job_alloc((size_t)n * sizeof(int));
    job->cpu_of = job_alloc((size_t)n * sizeof(int));
    job_gather(job, mine, 2, all);
    for (int r = 0; r < n; r++) {
        int first = 0;
        while (all[2 * first] != all[2 * r])
            first++;
        job->host_of[r] = first;
        job->cpu_of[r] = (int)all[2 * r + 1];
        job->nhosts += first == r;
    }
    free(all);
}

void job_start(struct job *job)
{
    *job = (struct job){0};
    job_check(job, coll_comm_init(&job->comm));
    joined = job->comm;
    job->rank = coll_comm_user_rank(job->comm);
    job->nranks = coll_comm_count(job->comm);
    find_hosts(job);
}

void job_finish(struct job *job)
{
    free(job->host_of);
    free(job->cpu_of);
    coll_comm *const comm = job->comm;
    job->comm = joined = NULL;
    if (coll_comm_destroy(comm) != COLL_OK)
        job_refuse(1, "rank %d: %s", job->rank, coll_last_error(NULL));
}
