/* SPDX-License-Identifier: MIT */
/* The strategies in which the last ranks serve and the others work by
 * themselves (links.h): what is sent, in which order it is served, and what the
 * server does with it. You, Buluc, Demmel, SC17, have those of EASGD beside
 * those of SGD; parameter-server is the elastic averaging of swFLOW (Li et al.,
 * 2021). */
#include <stdlib.h>
#include <string.h>

#include "dist/servers.h"
#include "dist/strategy.h"

struct servers {
    struct links links;
    struct server server; /* of a server; else */
    struct worker worker;
    struct arena seen; /* of the worker */
};

static const struct server_way
    in_turn = {SERVER_IN_TURN, rule_elastic, &worker_elastic},
    in_turn_strict = {SERVER_IN_TURN, rule_elastic, &worker_elastic_strict},
    elastic = {SERVER_FIRST_COME, rule_elastic, &worker_elastic},
    elastic_at_once = {SERVER_AT_ONCE, rule_elastic_at_once, &worker_elastic},
    sgd = {SERVER_FIRST_COME, rule_add, &worker_gradient},
    sgd_at_once = {SERVER_AT_ONCE, rule_add_at_once, &worker_gradient},
    msgd = {SERVER_FIRST_COME, rule_momentum, &worker_gradient},
    pull_push = {SERVER_FIRST_COME, rule_add, &worker_pull_push};

/* Of the server's own weights its shard of the centre is what counts. */
static coll_status open_server(struct strategy *s, struct servers *v,
                               const struct server_way *way)
{
    size_t first;
    const size_t count =
        links_shard(&v->links, links_server(&v->links), &first);
    if (way->rule == rule_momentum && arena_alloc(&s->state, count))
        return COLL_ERR_MEMORY;
    v->server = (struct server){
        .links = &v->links,
        .order = way->order,
        .rule = way->rule,
        .state = {.centre = s->net->params.x + first,
                  .velocity = s->state.x,
                  .count = count,
                  .alpha = (float)s->settings.alpha,
                  .momentum = (float)s->momentum},
        .time = s->time,
    };
    s->bytes += server_memory(&v->server);
    return server_open(&v->server, s->settings.tau);
}

/* What a worker has seen last of the centre is that of the start. */
static void adopt(struct strategy *s)
{
    const struct servers *v = s->own;
    if (v->seen.count)
        memcpy(v->seen.x, s->centre.x, v->seen.count * sizeof(float));
}

static coll_status open_servers(struct strategy *s)
{
    const struct server_way *way =
        s->settings.strict ? &in_turn_strict : s->ops->way;
    struct servers *v = s->own = calloc(1, sizeof(*v));
    const size_t count = s->net->params.count;
    if (!v || arena_alloc(&s->centre, count))
        return COLL_ERR_MEMORY;
    memcpy(s->centre.x, s->net->params.x, count * sizeof(float));
    if (s->settings.alpha <= 0)
        s->settings.alpha = 0.9 / (double)s->settings.tau / s->nworkers;
    const coll_status status =
        links_open(&v->links, s->comm, (int)s->settings.servers, count,
                   way->order == SERVER_AT_ONCE);
    if (status)
        return status;
    s->part = PART_OUTSIDE;
    if (links_server(&v->links) >= 0)
        return open_server(s, v, way);
    s->overlaps = way->worker == &worker_elastic;
    if (s->settings.rho > 0) {
        if (arena_alloc(&v->seen, count))
            return COLL_ERR_MEMORY;
        s->bytes += arena_bytes(count);
        adopt(s);
    }
    v->worker = (struct worker){
        .links = &v->links,
        .way = way->worker,
        .tau = s->settings.tau,
        .alpha = (float)s->settings.alpha,
        .rho = (float)s->settings.rho,
        .weights = s->net->params.x,
        .gradients = s->net->grads.x,
        .centre = s->centre.x,
        .seen = v->seen.x,
        .time = s->time,
    };
    return worker_open(&v->worker);
}

static coll_status progress(struct strategy *s, size_t first, size_t count)
{
    struct servers *v = s->own;
    (void)first;
    (void)count;
    return worker_progress(&v->worker);
}

static coll_status stretch(struct strategy *s, const struct worker_job *job,
                           const volatile sig_atomic_t *stop, long n,
                           long *done)
{
    struct servers *v = s->own;
    *done = 0;
    v->server.stop = v->worker.stop = stop;
    if (links_server(&v->links) < 0)
        return worker_run(&v->worker, job, n);
    long counted;
    const coll_status status = server_run(&v->server, n, &counted);
    if (links_server(&v->links) == 0)
        *done = counted;
    return status;
}

static coll_status gather(struct strategy *s)
{
    const struct servers *v = s->own;
    coll_status status = COLL_OK;
    for (int k = 0; !status && k < v->links.nservers; k++) {
        size_t first;
        const size_t n = links_shard(&v->links, k, &first);
        status =
            coll_broadcast(s->net->params.x + first, s->centre.x + first, n,
                           COLL_F32, v->links.nworkers + k, s->comm, NULL);
    }
    return status;
}

static coll_status staleness(struct strategy *s, uint64_t *counts)
{
    struct servers *v = s->own;
    return coll_broadcast(v->server.tickets.staleness, counts, STALENESS_MOST,
                          COLL_U64, v->links.nworkers, s->comm, NULL);
}

static const char *sentence(const struct strategy *s)
{
    const struct servers *v = s->own;
    return links_error(&v->links);
}

static void close_servers(struct strategy *s)
{
    struct servers *v = s->own;
    if (!v)
        return;
    if (coll_comm_get_async_error(s->comm) < 0)
        links_abort(&v->links);
    links_close(&v->links);
    server_close(&v->server);
    worker_close(&v->worker);
    arena_free(&v->seen);
    free(v);
}

/* What all rows have. */
#define SERVED                                                                 \
    .apart = true, .open = open_servers, .grads_ready = progress,              \
    .stretch = stretch, .gather = gather, .adopt = adopt,                      \
    .staleness = staleness, .sentence = sentence, .close = close_servers
enum { SGD = USES_SERVERS | USES_TAU, ELASTIC = SGD | USES_ALPHA };

const struct strategy_ops strategy_easgd_round_robin = {
    SERVED, .name = "easgd-round-robin", .uses = ELASTIC | USES_STRICT,
    .way = &in_turn, .descent = DESCENT_PLAIN};
const struct strategy_ops strategy_async_sgd = {
    SERVED,      .name = "async-sgd",      .uses = SGD,
    .way = &sgd, .descent = DESCENT_PLAIN, .any_order = true};
const struct strategy_ops strategy_async_msgd = {
    SERVED,       .name = "async-msgd",        .uses = SGD,
    .way = &msgd, .descent = DESCENT_MOMENTUM, .any_order = true};
const struct strategy_ops strategy_hogwild_sgd = {SERVED,
                                                  .name = "hogwild-sgd",
                                                  .uses = SGD,
                                                  .way = &sgd_at_once,
                                                  .descent = DESCENT_PLAIN,
                                                  .any_order = true};
const struct strategy_ops strategy_async_easgd = {
    SERVED,          .name = "async-easgd",    .uses = ELASTIC,
    .way = &elastic, .descent = DESCENT_PLAIN, .any_order = true};
const struct strategy_ops strategy_async_measgd = {
    SERVED,          .name = "async-measgd",      .uses = ELASTIC,
    .way = &elastic, .descent = DESCENT_MOMENTUM, .any_order = true};
const struct strategy_ops strategy_hogwild_easgd = {SERVED,
                                                    .name = "hogwild-easgd",
                                                    .uses = ELASTIC,
                                                    .way = &elastic_at_once,
                                                    .descent = DESCENT_PLAIN,
                                                    .any_order = true};
const struct strategy_ops strategy_parameter_server = {
    SERVED, .name = "parameter-server", .uses = ELASTIC | USES_RHO,
    .way = &pull_push, .any_order = true};
