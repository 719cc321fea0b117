/* SPDX-License-Identifier: MIT */
#include "exec/rehearse.h"

#include <stdlib.h>

struct stage { /* all ranks of one rehearsal */
    struct plan *plans;
    struct exec *execs;
    struct transport **to;
    char **tmp;
    struct sim *sim;
};

static coll_status advance(void *context, int rank)
{
    return exec_progress((struct exec *)context + rank);
}

static coll_status set_up_rank(const struct rehearsal *c, struct stage *s,
                               int r)
{
    const int n = c->nranks;
    const struct plan_shape shape = {(r + n - c->root) % n, n, c->segments};
    const size_t part = c->count / (size_t)n * (size_t)r;
    c->plan(&s->plans[r], &shape);
    if (s->plans[r].status != COLL_OK)
        return s->plans[r].status;
    plan_turn(&s->plans[r], c->root, n);
    if (c->in) {
        s->tmp[r] =
            malloc(exec_tmp_bytes(&s->plans[r], c->count, c->elem_bytes) + 1);
        if (!s->tmp[r])
            return COLL_ERR_MEMORY;
    }
    /* Every peer is behind this rank's own end of the simulator. */
    struct transport **to = &s->to[(size_t)r * (size_t)c->nranks];
    for (int peer = 0; peer < c->nranks; peer++)
        to[peer] = sim_rank(s->sim, r);
    const coll_status status = exec_init(&s->execs[r], &s->plans[r], to);
    s->execs[r].meter = sim_rank(s->sim, r);
    if (status == COLL_OK)
        exec_start(&s->execs[r], &(struct exec_call){
                                     .in = c->in ? c->in[r] : NULL,
                                     .out = c->in ? c->out[r] : NULL,
                                     .tmp = s->tmp[r],
                                     .count = c->count,
                                     .elem_bytes = c->elem_bytes,
                                     .in_first = c->in_parts ? part : 0,
                                     .out_first = c->out_parts ? part : 0,
                                     .reduce = c->reduce,
                                 });
    return status;
}

coll_status rehearse(const struct rehearsal *c, double *seconds)
{
    const size_t n = (size_t)c->nranks;
    struct stage s = {
        .plans = calloc(n, sizeof(*s.plans)),
        .execs = calloc(n, sizeof(*s.execs)),
        .to = calloc(n * n, sizeof(struct transport *)),
        .tmp = calloc(n, sizeof(*s.tmp)),
        .sim = sim_create(c->nranks, &c->net),
    };
    coll_status status = COLL_ERR_MEMORY;
    if (s.plans && s.execs && s.to && s.tmp && s.sim) {
        status = COLL_OK;
        for (int r = 0; r < c->nranks && status == COLL_OK; r++)
            status = set_up_rank(c, &s, r);
        if (status == COLL_OK)
            status = sim_run(s.sim, advance, s.execs, seconds);
        for (int r = 0; r < c->nranks; r++) {
            if (c->traffic)
                c->traffic[r] = sim_traffic(s.sim, r);
            plan_free(&s.plans[r]);
            exec_free(&s.execs[r]);
            free(s.tmp[r]);
        }
    }
    free(s.plans);
    free(s.execs);
    free(s.to);
    free(s.tmp);
    sim_free(s.sim);
    return status;
}
