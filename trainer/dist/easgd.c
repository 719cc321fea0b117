/* SPDX-License-Identifier: MIT */
#include "dist/easgd.h"

#include <stdlib.h>
#include <string.h>

#include "dist/elastic.h"
#include "dist/group.h"

/* Into memory that the ranks of a host share, where they are summed without a
 * copy, if that pays. */
static coll_status share_memory(struct strategy *s, struct easgd *e)
{
    const struct arena *arenas[] = {&s->net->params, &s->centre, &e->sum};
    coll_status status = COLL_OK;
    for (int i = 0; i < 3 && !status && e->workers > 1; i++)
        if (arenas[i]->count)
            status = coll_comm_register(e->comm, arenas[i]->x,
                                        arena_bytes(arenas[i]->count),
                                        &e->handles[i]);
    return status;
}

static bool is_said(const char *setting)
{
    coll_setting_info info;
    for (int i = 0; coll_setting_get(i, &info); i++)
        if (!strcmp(info.name, setting))
            return strcmp(info.source, "default") != 0;
    return false;
}

/* A tree's root has more to do than its leaves. */
static const char *algorithm_of(const struct easgd_way *way)
{
    return way->alike && !is_said("COLL_ALGO") ? "allreduce:^binomial_tree"
                                               : way->algorithm;
}

coll_status easgd_open(struct strategy *s, const struct easgd_way *way)
{
    const size_t count = s->net->params.count;
    struct easgd *e = s->own = calloc(1, sizeof(*e));
    if (!e || arena_alloc(&s->centre, count))
        return COLL_ERR_MEMORY;
    e->way = way;
    e->workers = coll_comm_count(s->comm);
    e->rank = coll_comm_user_rank(s->comm);
    const double tau = (double)s->settings.tau, said = s->settings.alpha;
    e->alpha = (float)(said > 0 ? said : 0.9 / tau / e->workers);
    memcpy(s->centre.x, s->net->params.x, count * sizeof(float));
    if (!way->open && arena_alloc(&e->sum, count))
        return COLL_ERR_MEMORY;
    e->distance = e->sum.x;
    coll_status status = way->open ? way->open(s, e) : COLL_OK;
    s->bytes += arena_bytes(e->sum.count);
    coll_config config = COLL_CONFIG_INITIALIZER;
    config.algorithm = algorithm_of(way);
    config.determinism = way->algorithm ? "layout" : "full";
    if (!status)
        status = coll_comm_split(s->comm, 0, e->rank, &e->comm, &config);
    return status ? status : share_memory(s, e);
}

static void note(struct easgd *e, coll_status status)
{
    if (e->status == COLL_OK && status < 0)
        e->status = status;
}

coll_status easgd_begin(struct strategy *s, long number)
{
    struct easgd *e = s->own;
    e->exchanges = number % s->settings.tau == 0;
    s->overlaps = e->exchanges && e->way->early;
    if (s->overlaps)
        note(e, e->way->exchange(s, e));
    return e->status;
}

coll_status easgd_grads_ready(struct strategy *s, size_t first, size_t count)
{
    struct easgd *e = s->own;
    (void)first;
    (void)count;
    if (!s->overlaps || e->status)
        return e->status;
    /* What is on its way moves on while it is asked for. */
    note(e, coll_test_all(2, e->requests));
    return e->status;
}

coll_status easgd_finish(struct strategy *s)
{
    struct easgd *e = s->own;
    if (e->exchanges && !e->way->early)
        note(e, e->way->exchange(s, e));
    note(e, coll_wait_all(2, e->requests));
    return e->status;
}

static void move_share(void *context, int i, int n)
{
    const struct strategy *s = context;
    struct easgd *e = s->own;
    size_t first;
    const size_t count = crew_floats(s->net->params.count, i, n, &first);
    e->way->move(s, e, first, count);
}

static void pull_share(void *context, int i, int n)
{
    const struct strategy *s = context;
    const struct easgd *e = s->own;
    size_t first;
    const size_t count = crew_floats(s->net->params.count, i, n, &first);
    elastic_pull(s->net->params.x + first, e->distance + first, e->alpha,
                 count);
}

void easgd_prepare(struct strategy *s)
{
    const struct easgd *e = s->own;
    if (e->exchanges)
        crew_run(s->net->crew, move_share, s);
}

void easgd_settle(struct strategy *s)
{
    const struct easgd *e = s->own;
    if (e->exchanges)
        crew_run(s->net->crew, pull_share, s);
}

void easgd_close(struct strategy *s)
{
    struct easgd *e = s->own;
    if (!e)
        return;
    for (int i = 0; i < 3; i++)
        if (e->handles[i])
            coll_comm_deregister(e->comm, e->handles[i]);
    group_leave(e->comm, s->comm);
    if (e->way && e->way->close)
        e->way->close(e);
    arena_free(&e->sum);
    free(e);
}

coll_status easgd_sum(struct strategy *s, struct easgd *e)
{
    return coll_allreduce(s->net->params.x, e->sum.x, s->net->params.count,
                          COLL_F32, COLL_SUM, e->comm,
                          e->way->early ? &e->requests[0] : NULL);
}

void easgd_meet(const struct strategy *s, struct easgd *e, size_t first,
                size_t count)
{
    elastic_meet(s->centre.x + first, e->sum.x + first,
                 s->net->params.x + first, e->alpha, e->workers, count);
}
