/* SPDX-License-Identifier: MIT */
#include "dist/worker.h"

#include <stdlib.h>
#include <string.h>

#include "dist/elastic.h"
#include "dist/tickets.h"

coll_status worker_open(struct worker *w)
{
    const size_t servers = (size_t)w->links->nservers;
    w->requests = calloc(2 * servers, sizeof(*w->requests));
    w->messages = calloc(servers, sizeof(*w->messages));
    if (w->requests && w->messages)
        return COLL_OK;
    worker_close(w);
    return COLL_ERR_MEMORY;
}

void worker_close(struct worker *w)
{
    free(w->requests);
    free(w->messages);
    w->requests = NULL;
    w->messages = NULL;
}

/* The server that worker i goes to as its k-th: so not all go to one at once.
 */
static int server_of(const struct worker *w, int k)
{
    return (w->links->rank + k) % w->links->nservers;
}

static int tag_of(const struct worker *w, enum link_call call)
{
    const bool stops = w->told || (w->stop && *w->stop);
    return (int)call | (stops ? LINK_STOP : 0);
}

/* Starts to send each server its part, or an empty message if from is NULL, and
 * to receive its reply, unless to is NULL. */
static coll_status call(struct worker *w, enum link_call call,
                        const float *from, float *to)
{
    const enum part before = breakdown_enter(w->time, PART_OUTSIDE);
    coll_status status = COLL_OK;
    for (int k = 0; !status && k < w->links->nservers; k++) {
        const int server = server_of(w, k);
        const struct link link = links_to_server(w->links, server);
        size_t first;
        const size_t n = links_shard(w->links, server, &first);
        if (to)
            status = coll_recv(to + first, n, COLL_F32, link.peer, COLL_ANY_TAG,
                               link.comm, &w->messages[server],
                               &w->requests[2 * server]);
        if (!status)
            status = coll_send(from ? from + first : NULL, from ? n : 0,
                               COLL_F32, link.peer, tag_of(w, call), link.comm,
                               &w->requests[2 * server + 1]);
    }
    breakdown_enter(w->time, before);
    return status;
}

static coll_status await(struct worker *w, int *next)
{
    const enum part before = breakdown_enter(w->time, PART_OUTSIDE);
    const coll_status status =
        coll_wait_all(2 * w->links->nservers, w->requests);
    breakdown_enter(w->time, before);
    *next = w->messages[0].tag;
    for (int k = 1; !status && k < w->links->nservers; k++)
        w->told |= w->messages[k].tag > 0;
    return status;
}

coll_status worker_progress(struct worker *w)
{
    const coll_status status =
        coll_test_all(2 * w->links->nservers, w->requests);
    return status == COLL_IN_PROGRESS ? COLL_OK : status;
}

/* Of the loss rho / 2 |weights - seen|^2. */
static void add_penalty(const struct worker *w)
{
    for (size_t i = 0; w->seen && i < w->links->count; i++)
        w->gradients[i] += w->rho * (w->weights[i] - w->seen[i]);
}

/* n steps with nobody's help. */
static coll_status alone(const struct worker *w, const struct worker_job *job,
                         long first, long n)
{
    coll_status status = COLL_OK;
    for (long i = first; !status && i < first + n; i++) {
        status = job->gradient(job->context, i);
        if (status)
            break;
        breakdown_enter(w->time, PART_UPDATE);
        add_penalty(w);
        job->update(job->context, i);
    }
    return status;
}

/* The centre is there, the weights and their gradient are those of before. */
static void move(struct worker *w, const struct worker_job *job, long number)
{
    breakdown_enter(w->time, PART_UPDATE);
    elastic_distance(w->centre, w->weights, w->centre, w->links->count);
    job->update(job->context, number);
    elastic_pull(w->weights, w->centre, w->alpha, w->links->count);
}

static coll_status elastic(struct worker *w, const struct worker_job *job,
                           long first, long n, int *next)
{
    coll_status status = call(w, LINK_EXCHANGE, w->weights, w->centre);
    if (!status)
        status = job->gradient(job->context, first);
    if (!status)
        status = await(w, next);
    if (status)
        return status;
    move(w, job, first);
    return alone(w, job, first + 1, n - 1);
}

static coll_status elastic_strict(struct worker *w,
                                  const struct worker_job *job, long first,
                                  long n, int *next)
{
    int ignored;
    coll_status status = call(w, LINK_PULL, NULL, w->centre);
    if (!status)
        status = await(w, next);
    if (!status)
        status = job->gradient(job->context, first);
    if (!status)
        status = call(w, LINK_PUSH, w->weights, NULL);
    if (!status)
        status = await(w, &ignored);
    if (status)
        return status;
    move(w, job, first);
    return alone(w, job, first + 1, n - 1);
}

/* Of several steps each moves this worker's weights, and the last leaves in
 * place of its gradients what all have moved them by. */
static coll_status gradient(struct worker *w, const struct worker_job *job,
                            long first, long n, int *next)
{
    const size_t count = w->links->count;
    if (n > 1)
        memcpy(w->centre, w->weights, count * sizeof(*w->centre));
    for (long i = first; i < first + n; i++) {
        const coll_status status = job->gradient(job->context, i);
        if (status)
            return status;
        job->step(job->context, i);
        for (size_t k = 0; n > 1 && k < count; k++)
            w->weights[k] += w->gradients[k];
    }
    if (n > 1)
        elastic_distance(w->gradients, w->weights, w->centre, count);
    const coll_status status =
        call(w, LINK_EXCHANGE, w->gradients, w->weights);
    return status ? status : await(w, next);
}

static coll_status pull_push(struct worker *w, const struct worker_job *job,
                             long first, long n, int *next)
{
    int ignored;
    coll_status status = alone(w, job, first, n);
    if (!status)
        status = call(w, LINK_PULL, NULL, w->centre);
    if (!status)
        status = await(w, next);
    if (status)
        return status;
    if (w->seen)
        memcpy(w->seen, w->centre, w->links->count * sizeof(*w->seen));
    for (size_t i = 0; i < w->links->count; i++) {
        const float d = w->alpha * (w->weights[i] - w->centre[i]);
        w->weights[i] -= d;
        w->centre[i] = d;
    }
    status = call(w, LINK_PUSH, w->centre, NULL);
    return status ? status : await(w, &ignored);
}

coll_status worker_run(struct worker *w, const struct worker_job *job, long n)
{
    int ignored;
    long first;
    const long at_once = tickets_at_once(n, w->tau, w->links->nworkers);
    long count = tickets_first(n, at_once, w->links->rank, &first);
    coll_status status = COLL_OK;
    while (!status && count) {
        int next = 0;
        status = w->way->block(w, job, first, count, &next);
        w->exchanges += !status;
        first = next - 1;
        count = next ? tickets_count(n, at_once, first) : 0;
    }
    if (!status)
        status = call(w, LINK_LEAVE, NULL, NULL);
    if (!status)
        status = await(w, &ignored);
    if (status) {
        links_abort(w->links);
        await(w, &ignored); /* ends the requests */
        links_failed(w->links);
    }
    return status;
}

const struct worker_way worker_elastic = {elastic};
const struct worker_way worker_elastic_strict = {elastic_strict};
const struct worker_way worker_gradient = {gradient};
const struct worker_way worker_pull_push = {pull_push};
