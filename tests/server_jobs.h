/* SPDX-License-Identifier: MIT */
/* Jobs of servers and workers that learn something simple: step k pulls all
 * weights towards numbers of its own, with loss h/2 (w - target)^2. */
#ifndef TESTS_SERVER_JOBS_H
#define TESTS_SERVER_JOBS_H

#include "coll/coll.h"
#include "dist/server.h"
#include "dist/worker.h"

struct server_job {
    const struct worker_way *way;
    enum server_order order;
    server_rule *rule;
    int nservers;
    size_t count;
    long tau, steps;
    double lr, alpha, momentum; /* at the worker, or of rule_momentum */
    double rho;                 /* of pull_push */
    int step_us;                /* how long a step takes, asleep; */
    int slow_worker, slow_us;   /* and of this worker, if slow_us > 0 */
    long stop_after;            /* steps of worker 0; 0: never */
    int told_server;            /* to stop, before it starts; 0: none is */
};

struct server_done {
    float *weights;      /* of a worker; of a server its shard, at its place */
    size_t first, count; /* of the shard */
    long *numbers, n;    /* a worker's steps in order */
    long done;           /* as of server_run() */
    uint64_t bytes, exchanges, staleness[STALENESS_MOST];
    double seconds; /* of a worker's loop */
};

double job_target(long number, size_t i);

/* This rank's part; returns 0, or 1 and has said what is wrong. */
int job_run(coll_comm *, const struct server_job *, struct server_done *);
void job_free(struct server_done *);

/* One exchange: whose, and in which of its steps. */
struct service {
    int worker;
    long step;
};

/* The same in double, as of papers: centre[count], and
 * weights[worker * count + i]. order: of the job's services, where tau is 1;
 * NULL: the workers in turn. */
void job_oracle(const struct server_job *, int nworkers,
                const struct service *order, double *centre, double *weights);

/* The spectral radius of that for the round in which each of so many workers
 * has its tau steps in turn: errors shrink where it is below 1. With
 * rule_momentum of one worker. */
double job_radius(const struct server_job *, int nworkers);

#endif
