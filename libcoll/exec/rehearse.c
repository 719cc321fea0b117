/* SPDX-License-Identifier: MIT */
#include "exec/rehearse.h"

#include <stdlib.h>

struct stage { /* all ranks of one rehearsal */
    const struct plan *plans;
    struct exec *execs;
    char **tmp;
    struct sim *sim;
};

static coll_status advance(void *context, int rank, const struct transfer *over)
{
    return exec_follow((struct exec *)context + rank, over);
}

static coll_status make_room(const struct rehearsal *c, struct stage *s, int r)
{
    size_t bytes = exec_tmp_bytes(&s->plans[r], c->count, c->elem_bytes);
    const coll_status status =
        c->chunks
            ? exec_lay_out(&s->execs[r], c->chunks[r], c->elem_bytes, &bytes)
            : COLL_OK;
    s->tmp[r] = malloc(bytes + 1);
    return s->tmp[r] ? status : COLL_ERR_MEMORY;
}

static coll_status set_up_rank(const struct rehearsal *c, struct stage *s,
                               int r)
{
    const size_t part = c->chunks ? c->chunks[r]->before[r]
                                  : c->count / (size_t)c->nranks * (size_t)r;
    const int first = c->order ? 0 : (c->nranks - c->root) % c->nranks;
    coll_status status = exec_init(&s->execs[r], &s->plans[r], NULL);
    if (c->in && status == COLL_OK)
        status = make_room(c, s, r);
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
                                     .chunks = c->chunks ? c->chunks[r] : NULL,
                                     .reduce = c->reduce,
                                     .first = first,
                                     .divisor = 1,
                                     .news = c->news ? c->news[r] : 0,
                                 });
    return status;
}

/* What the ranks have done, and heard. */
static void report(const struct rehearsal *c, const struct stage *s)
{
    for (int r = 0; r < c->nranks; r++) {
        if (c->traffic)
            c->traffic[r] = sim_traffic(s->sim, r);
        if (c->news)
            c->news[r] = s->execs[r].news;
    }
}

static coll_status perform(const struct rehearsal *c, const struct cast *cast,
                           double *seconds)
{
    const int n = c->nranks;
    int set_up = 0;
    struct stage s = {
        .plans = cast->plans,
        .execs = malloc((size_t)n * sizeof(*s.execs)),
        .tmp = calloc((size_t)n, sizeof(*s.tmp)),
        .sim = sim_create(n, &c->net),
    };
    coll_status status = s.execs && s.tmp && s.sim ? COLL_OK : COLL_ERR_MEMORY;
    while (set_up < n && status == COLL_OK)
        status = set_up_rank(c, &s, set_up++);
    if (status == COLL_OK) {
        status = sim_run(s.sim, advance, s.execs, seconds);
        report(c, &s);
    }
    for (int r = 0; r < set_up; r++) {
        exec_free(&s.execs[r]);
        free(s.tmp[r]);
    }
    free(s.execs);
    free(s.tmp);
    sim_free(s.sim);
    return status;
}

coll_status rehearse(const struct rehearsal *c, double *seconds)
{
    struct cast own = {0};
    coll_status status = c->cast ? COLL_OK : cast_make(&own, c);
    if (status == COLL_OK)
        status = perform(c, c->cast ? c->cast : &own, seconds);
    cast_free(&own);
    return status;
}
