/* SPDX-License-Identifier: MIT */
#include "exec/rehearse.h"

#include <stdlib.h>

struct stage { /* all ranks of one rehearsal */
    struct plan *plans;
    struct exec *execs;
    int *order; /* rank at each position */
    char **tmp;
    struct sim *sim;
};

static coll_status advance(void *context, int rank, const struct transfer *over)
{
    return exec_follow((struct exec *)context + rank, over);
}

static coll_status set_up_rank(const struct rehearsal *c, struct stage *s,
                               int position)
{
    const int n = c->nranks, r = s->order[position];
    const struct plan_shape shape = {position, n, c->segments, c->tree};
    const size_t part = c->count / (size_t)n * (size_t)r;
    c->plan(&s->plans[r], &shape);
    if (s->plans[r].status != COLL_OK)
        return s->plans[r].status;
    plan_renumber(&s->plans[r], s->order);
    if (c->in) {
        s->tmp[r] =
            malloc(exec_tmp_bytes(&s->plans[r], c->count, c->elem_bytes) + 1);
        if (!s->tmp[r])
            return COLL_ERR_MEMORY;
    }
    const coll_status status = exec_init(&s->execs[r], &s->plans[r], NULL);
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
                                     .news = c->news ? c->news[r] : 0,
                                 });
    return status;
}

coll_status rehearse(const struct rehearsal *c, double *seconds)
{
    const int n = c->nranks;
    struct stage s = {
        .plans = calloc((size_t)n, sizeof(*s.plans)),
        .execs = calloc((size_t)n, sizeof(*s.execs)),
        .order = calloc((size_t)n, sizeof(*s.order)),
        .tmp = calloc((size_t)n, sizeof(*s.tmp)),
        .sim = sim_create(n, &c->net),
    };
    coll_status status = COLL_ERR_MEMORY;
    if (s.plans && s.execs && s.order && s.tmp && s.sim) {
        status = COLL_OK;
        for (int i = 0; i < n; i++)
            s.order[i] = c->order ? c->order[i] : (i + c->root) % n;
        for (int i = 0; i < n && status == COLL_OK; i++)
            status = set_up_rank(c, &s, i);
        if (status == COLL_OK)
            status = sim_run(s.sim, advance, s.execs, seconds);
        for (int r = 0; r < n; r++) {
            if (c->traffic)
                c->traffic[r] = sim_traffic(s.sim, r);
            if (c->news)
                c->news[r] = s.execs[r].news;
            plan_free(&s.plans[r]);
            exec_free(&s.execs[r]);
            free(s.tmp[r]);
        }
    }
    free(s.plans);
    free(s.execs);
    free(s.order);
    free(s.tmp);
    sim_free(s.sim);
    return status;
}
