/* SPDX-License-Identifier: MIT */
/* What must leave one of several hosts, or come to one, whatever the algorithm:
 * ranks of a host can combine and copy among themselves before and after. */
#include "limit.h"

static bool on(const struct job *job, int rank, int host)
{
    return job->host_of[rank] == host;
}

/* Bytes of S that belong to the ranks of a host. */
static double part_of(const struct shape *s, const struct job *job, int host,
                      size_t bytes)
{
    double part = 0;
    for (int r = 0; r < job->nranks; r++)
        if (on(job, r, host))
            part += (double)shape_part(s, bytes, r, r);
    return part;
}

/* From the ranks of a host to those of others, of what each has for each. */
static double pairs_of(const struct shape *s, const struct job *job, int host,
                       size_t bytes)
{
    double sent = 0;
    for (int r = 0; r < job->nranks; r++)
        for (int q = 0; q < job->nranks && on(job, r, host); q++)
            if (!on(job, q, host))
                sent += (double)shape_part(s, bytes, r, q);
    return sent;
}

static double next_of(const struct job *job, int host, size_t bytes)
{
    double sent = 0;
    for (int r = 0; r < job->nranks; r++)
        if (on(job, r, host) && !on(job, (r + 1) % job->nranks, host))
            sent += (double)bytes;
    return sent;
}

static double host_bytes(const struct shape *s, const struct job *job, int host,
                         size_t bytes)
{
    const double hosts = job->nhosts, all = (double)bytes;
    switch (collective_even(s->collective)) {
    case ALLREDUCE: /* as a whole for each, in either direction */
        return 2 * (hosts - 1) / hosts * all;
    case REDUCE_SCATTER:
    case ALLGATHER:
        return all - part_of(s, job, host, bytes);
    case GATHER:
    case SCATTER:
        return on(job, s->root, host) ? all - part_of(s, job, host, bytes) : 0;
    case ALLTOALL:
        return pairs_of(s, job, host, bytes);
    case SENDRECV:
        return next_of(job, host, bytes);
    case PINGPONG:
        return on(job, 0, host) && !on(job, job->nranks - 1, host) ? all : 0;
    default:
        return all;
    }
}

double crossing_bytes(const struct shape *s, const struct job *job,
                      size_t bytes)
{
    double most = 0;
    for (int host = 0; host < job->nranks; host++) {
        if (job->host_of[host] != host) /* its first rank */
            continue;
        const double those = host_bytes(s, job, host, bytes);
        most = those > most ? those : most;
    }
    return most;
}
