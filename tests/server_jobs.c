/* SPDX-License-Identifier: MIT */
#include "server_jobs.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "random.h"
#include "stability.h"

static const double h = 0.5;

double job_target(long number, size_t i)
{
    return (double)(random_u64((uint64_t)number + 1, i) >> 40)
               / (double)(1 << 23)
           - 1;
}

struct player {
    const struct server_job *job;
    struct server_done *done;
    float *weights, *gradients, *centre, *velocity, *seen;
    int rank;
    volatile sig_atomic_t stop;
};

static coll_status gradient(void *context, long number)
{
    struct player *p = context;
    const struct server_job *job = p->job;
    const int us = job->slow_us && p->rank == job->slow_worker ? job->slow_us
                                                               : job->step_us;
    if (us)
        usleep((useconds_t)us);
    for (size_t i = 0; i < job->count; i++)
        p->gradients[i] =
            (float)h * (p->weights[i] - (float)job_target(number, i));
    p->done->numbers[p->done->n++] = number;
    if (p->done->n == job->stop_after && p->rank == 0)
        p->stop = 1;
    return COLL_OK;
}

static void update(void *context, long number)
{
    struct player *p = context;
    (void)number;
    for (size_t i = 0; i < p->job->count; i++) {
        p->velocity[i] =
            (float)p->job->momentum * p->velocity[i] + p->gradients[i];
        p->weights[i] -= (float)p->job->lr * p->velocity[i];
    }
}

static void step(void *context, long number)
{
    struct player *p = context;
    (void)number;
    for (size_t i = 0; i < p->job->count; i++)
        p->gradients[i] *= (float)-p->job->lr;
}

static coll_status work(struct player *p, const struct links *links)
{
    const struct worker_job calls = {p, gradient, update, step};
    struct worker w = {
        .links = links,
        .way = p->job->way,
        .tau = p->job->tau,
        .alpha = (float)p->job->alpha,
        .rho = (float)p->job->rho,
        .seen = p->job->rho > 0 ? p->seen : NULL,
        .weights = p->weights,
        .gradients = p->gradients,
        .centre = p->centre,
        .stop = &p->stop,
    };
    coll_status status = worker_open(&w);
    const double start = clock_now();
    if (!status)
        status = worker_run(&w, &calls, p->job->steps);
    p->done->seconds = clock_now() - start;
    p->done->exchanges = w.exchanges;
    worker_close(&w);
    return status;
}

static coll_status serve(struct player *p, const struct links *links)
{
    const volatile sig_atomic_t told =
        p->job->told_server && links_server(links) == p->job->told_server;
    struct server s = {
        .links = links,
        .order = p->job->order,
        .rule = p->job->rule,
        .stop = &told,
        .state = {.velocity = p->velocity,
                  .alpha = (float)p->job->alpha,
                  .momentum = (float)p->job->momentum},
    };
    struct server_done *d = p->done;
    d->count = links_shard(links, links_server(links), &d->first);
    s.state.count = d->count;
    s.state.centre = p->weights + d->first;
    coll_status status = server_open(&s, p->job->tau);
    if (!status)
        status = server_run(&s, p->job->steps, &d->done);
    d->bytes = server_bytes(&s);
    d->exchanges = s.tickets.served;
    memcpy(d->staleness, s.tickets.staleness, sizeof(d->staleness));
    server_close(&s);
    return status;
}

int job_run(coll_comm *comm, const struct server_job *job,
            struct server_done *done)
{
    struct links links;
    struct player p = {.job = job, .done = done};
    float *memory = calloc(5 * job->count, sizeof(*memory));
    *done = (struct server_done){
        .numbers = calloc((size_t)job->steps + 1, sizeof(*done->numbers))};
    coll_status status = links_open(&links, comm, job->nservers, job->count,
                                    job->order == SERVER_AT_ONCE);
    if (!memory || !done->numbers || status) {
        fprintf(stderr, "links: %s\n", coll_last_error(NULL));
        return 1;
    }
    p.weights = done->weights = memory;
    p.gradients = memory + job->count;
    p.centre = memory + 2 * job->count;
    p.velocity = memory + 3 * job->count;
    p.seen = memory + 4 * job->count;
    p.rank = links.rank;
    status = links_server(&links) < 0 ? work(&p, &links) : serve(&p, &links);
    if (status)
        fprintf(stderr, "rank %d: %s; %s\n", links.rank,
                coll_status_string(status), links_error(&links));
    links_close(&links);
    return status != COLL_OK;
}

void job_free(struct server_done *done)
{
    free(done->weights);
    free(done->numbers);
    *done = (struct server_done){0};
}

/* (1) or (5), (6), and (2'), for pull_push after the worker's own step; of
 * rule_add and rule_momentum what the server does with the sum of tau steps,
 * and the worker gets. */
static void oracle_step(const struct server_job *job, long number,
                        double target, double *c, double *w, double *v,
                        double *seen)
{
    const bool after = job->way == &worker_pull_push,
               exchanges = number % job->tau == (after ? job->tau - 1 : 0);
    const double old = *w, g = h * (old - target) + job->rho * (old - *seen);
    if (job->way == &worker_gradient) {
        *w -= job->lr * g;
        if (number % job->tau < job->tau - 1)
            return;
        *v = (job->rule == rule_momentum ? job->momentum * *v : 0) + *w - *seen;
        *c += *v;
        *w = *seen = *c;
        return;
    }
    *v = job->momentum * *v - job->lr * g;
    *w += *v;
    const double force = exchanges ? job->alpha * ((after ? *w : old) - *c) : 0;
    *seen = exchanges ? *c : *seen;
    *w -= force;
    *c += force;
}

static struct service in_turn(const struct server_job *job, int nworkers,
                              long k)
{
    return (struct service){(int)(k / job->tau % nworkers), k};
}

void job_oracle(const struct server_job *job, int nworkers,
                const struct service *order, double *centre, double *weights)
{
    const bool shared = job->rule == rule_momentum; /* it is the server's */
    const size_t all = (size_t)nworkers * job->count;
    double *velocity = calloc(2 * all, sizeof(*velocity));
    memset(centre, 0, job->count * sizeof(*centre));
    memset(weights, 0, all * sizeof(*weights));
    for (long k = 0; velocity && k < job->steps; k++) {
        const struct service now = order ? order[k] : in_turn(job, nworkers, k);
        for (size_t i = 0; i < job->count; i++) {
            const size_t at = (size_t)now.worker * job->count + i;
            oracle_step(job, now.step, job_target(now.step, i), &centre[i],
                        &weights[at], &velocity[shared ? i : at],
                        &velocity[all + at]);
        }
    }
    free(velocity);
}

struct round {
    const struct server_job *job;
    int nworkers;
};

/* With targets that are 0; x: the centre, and of each worker its weight, its
 * velocity and the centre that it has seen. */
static void do_round(const void *context, double *x)
{
    const struct round *r = context;
    const bool shared = r->job->rule == rule_momentum;
    for (long k = 0; k < r->nworkers * r->job->tau; k++) {
        double *w = x + 1 + 3 * in_turn(r->job, r->nworkers, k).worker;
        oracle_step(r->job, k, 0, x, w, shared ? x + 2 : w + 1, w + 2);
    }
}

double job_radius(const struct server_job *job, int nworkers)
{
    const struct round r = {job, nworkers};
    assert(nworkers == 1 || job->rule != rule_momentum);
    return stability_radius(1 + 3 * nworkers, do_round, &r);
}
