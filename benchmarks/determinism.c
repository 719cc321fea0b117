/* SPDX-License-Identifier: MIT */
#include "determinism.h"

#include <stdlib.h>

#include "variants.h"

const char *const bench_mode_names[BENCH_MODES] = {"off", "run", "layout",
                                                   "full"};

struct determinism {
    const struct job *job;
    int n;
    const char *names[BENCH_MODES];
    coll_comm *comms[BENCH_MODES];
};

struct determinism *determinism_create(const struct job *job,
                                       const struct bench_options *o)
{
    if (!o->determinism)
        return NULL;
    struct determinism *const d = job_alloc(sizeof *d);
    d->job = job;
    for (int i = 0; i < BENCH_MODES; i++) {
        if (!o->modes[i])
            continue;
        coll_config config = COLL_CONFIG_INITIALIZER;
        config.determinism = d->names[d->n] = bench_mode_names[i];
        job_check(job, coll_comm_split(job->comm, 0, job->rank,
                                       &d->comms[d->n++], &config));
    }
    return d;
}

void determinism_free(struct determinism *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->n; i++)
        job_check(d->job, coll_comm_destroy(d->comms[i]));
    free(d);
}

static void play(struct measure *m, int way, void *context)
{
    const struct determinism *const d = context;
    m->comm = d->comms[way];
    job_check(d->job, measure_call(m, NULL));
}

void determinism_run(struct determinism *d, struct measure *m,
                     struct bench_result *result)
{
    const struct variants v = {d->n, 1, play, d};
    double p50[BENCH_MODES];
    variants_run(m, &v, p50, result);
    m->comm = d->job->comm;
    for (int i = 0; i < d->n; i++) {
        coll_choice choice;
        job_check(d->job,
                  coll_explain(d->comms[i],
                               collective_model(m->shape.collective), m->count,
                               m->shape.dtype, m->shape.op, &choice));
        result->modes[i] =
            (struct bench_mode){d->names[i], choice.algorithm, p50[i]};
    }
}
