/* SPDX-License-Identifier: MIT */
#include "dist/strategy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "programs/options.h"

#define STRATEGY(name, file) extern const struct strategy_ops strategy_##name;
#include "dist/strategies.def"
#undef STRATEGY

#define STRATEGY(name, file) &strategy_##name,
const struct strategy_ops *const strategies[] = {
#include "dist/strategies.def"
};
#undef STRATEGY
enum { NSTRATEGIES = sizeof(strategies) / sizeof(strategies[0]) };
const int nstrategies = NSTRATEGIES;

const char *const exchange_names[] = {"auto", "packed", "layers", "buckets",
                                      "priority"};

const struct strategy_ops *strategy_find(const char *name, char *error,
                                         size_t error_bytes)
{
    const char *names[NSTRATEGIES];
    for (int i = 0; i < NSTRATEGIES; i++) {
        names[i] = strategies[i]->name;
        if (!strcmp(names[i], name))
            return strategies[i];
    }
    say_unknown(error, error_bytes, name, names, NSTRATEGIES);
    return NULL;
}

/* Where memory was short outside the library, its last sentence is of another
 * call. */
const char *strategy_why(const coll_comm *comm, coll_status status)
{
    const char *sentence = coll_last_error(comm);
    const bool own =
        status == COLL_ERR_MEMORY && !coll_comm_get_async_error(comm);
    return own || !*sentence ? coll_status_string(status) : sentence;
}

double strategy_predicted(const struct strategy *s, const char *collective,
                          size_t count)
{
    coll_choice c;
    return count
                   && !coll_explain(s->comm, collective, count, COLL_F32,
                                    COLL_SUM, &c)
                   && c.predicted_seconds > 0
               ? c.predicted_seconds
               : 0;
}

enum part strategy_part(const struct strategy *s)
{
    coll_choice c;
    return coll_comm_count(s->comm) > 1
                   && !coll_explain(s->comm, "allreduce", s->net->grads.count,
                                    COLL_F32, COLL_SUM, &c)
                   && strncmp(c.algorithm, "node_", 5) != 0
               ? PART_OUTSIDE
               : PART_INSIDE;
}

/* The names of the strategies that use a setting. */
static void list_users(unsigned use, char *list, size_t bytes)
{
    list[0] = '\0';
    for (int i = 0; i < nstrategies; i++) {
        const size_t used = strlen(list);
        if (strategies[i]->uses & use)
            snprintf(list + used, bytes - used, "%s%s", used ? ", " : "",
                     strategies[i]->name);
    }
}

int strategy_complete(const struct strategy_ops *ops,
                      struct strategy_settings *s, char *error,
                      size_t error_bytes)
{
    const struct {
        const char *option;
        unsigned use;
        bool said;
    } settings[] = {
        {"--exchange layers, buckets and priority", USES_EXCHANGE,
         s->exchange > EXCHANGE_PACKED                                                       },
        {"--tau",                                   USES_TAU,      s->tau != 0               },
        {"--alpha",                                 USES_ALPHA,    s->alpha != 0             },
        {"--rho",                                   USES_RHO,      s->rho != 0               },
        {"--centre",                                USES_CENTRE,   s->centre != CENTRE_UNSAID},
        {"--wire",                                  USES_WIRE,     s->wire.kind != WIRE_F32  },
        {"--servers",                               USES_SERVERS,  s->servers != 0           },
        {"--original-strict",                       USES_STRICT,   s->strict                 },
        {"--shard-optimizer",                       USES_SHARD,    s->shard                  },
        {"--factors on",                            USES_FACTORS,  s->factors == FACTORS_ON  },
    };
    char users[400];
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        if (settings[i].said && !(ops->uses & settings[i].use)) {
            list_users(settings[i].use, users, sizeof(users));
            snprintf(error, error_bytes,
                     "%s: found --strategy %s, valid with %s",
                     settings[i].option, ops->name, users);
            return -1;
        }
    if (s->deterministic && ops->any_order) {
        snprintf(
            error, error_bytes,
            "--deterministic: found --strategy %s, whose servers take what "
            "comes first; valid of those with servers is "
            "easgd-round-robin",
            ops->name);
        return -1;
    }
    if (s->shard && s->exchange > EXCHANGE_PACKED) {
        snprintf(error, error_bytes,
                 "--shard-optimizer: found --exchange %s, valid is packed",
                 exchange_names[s->exchange]);
        return -1;
    }
    if (s->exchange == EXCHANGE_PRIORITY && s->together) {
        snprintf(error, error_bytes,
                 "--clip-norm: found --exchange priority, which moves weights "
                 "before the norm is known; valid are packed, layers and "
                 "buckets");
        return -1;
    }
    if (s->exchange == EXCHANGE_PRIORITY && s->wire.kind != WIRE_F32) {
        snprintf(error, error_bytes,
                 "--wire %s: found --exchange priority, valid are packed, "
                 "layers and buckets",
                 wire_names[s->wire.kind]);
        return -1;
    }
    if (s->shard && s->wire.kind != WIRE_F32) {
        snprintf(error, error_bytes,
                 "--shard-optimizer: found --wire %s, valid is f32",
                 wire_names[s->wire.kind]);
        return -1;
    }
    if (!s->tau)
        s->tau = 1;
    if (!s->servers && ops->uses & USES_SERVERS)
        s->servers = 1;
    if (s->centre == CENTRE_UNSAID)
        s->centre = CENTRE_REPLICATED;
    return 0;
}

int strategy_descends(const struct strategy_ops *ops, const char *optimiser,
                      double *momentum, char *error, size_t error_bytes)
{
    const bool plain = ops->descent == DESCENT_PLAIN;
    if (ops->descent == DESCENT_ANY)
        return 0;
    if (strcmp(optimiser, "sgd")) {
        snprintf(error, error_bytes,
                 "--optimizer: found %s, valid with --strategy %s is sgd",
                 optimiser, ops->name);
        return -1;
    }
    if (isnan(*momentum))
        *momentum = plain ? 0 : 0.9;
    if (plain == (*momentum > 0)) {
        snprintf(error, error_bytes,
                 "--momentum: found %g, valid with --strategy %s is %s",
                 *momentum, ops->name, plain ? "0" : "above 0");
        return -1;
    }
    return 0;
}

coll_status strategy_gather(struct strategy *s, float *x)
{
    const enum part before = breakdown_enter(s->time, s->part);
    const coll_status status = shard_gather(&s->shard, x);
    breakdown_enter(s->time, before);
    return status;
}

coll_status strategy_reduce(struct strategy *s, double *x, size_t count,
                            coll_op op)
{
    const enum part before = breakdown_enter(s->time, s->part);
    const coll_status status =
        coll_allreduce(x, x, count, COLL_F64, op, s->comm, NULL);
    breakdown_enter(s->time, before);
    return status;
}

coll_status strategy_reduce_start(struct strategy *s, double *x, size_t count)
{
    return coll_allreduce(x, x, count, COLL_F64, COLL_SUM, s->comm, &s->sums);
}

coll_status strategy_average_state(struct strategy *s)
{
    const enum part before = breakdown_enter(s->time, s->part);
    struct arena *state = &s->net->state;
    const bool all_work = s->nworkers == coll_comm_count(s->comm);
    if (coll_comm_user_rank(s->comm) >= s->nworkers && state->count)
        memset(state->x, 0, state->count * sizeof(float));
    const coll_status status =
        state->count
            ? coll_allreduce(state->x, state->x, state->count, COLL_F32,
                             all_work ? COLL_AVG : COLL_SUM, s->comm, NULL)
            : COLL_OK;
    for (size_t i = 0; !all_work && i < state->count; i++)
        state->x[i] /= (float)s->nworkers;
    breakdown_enter(s->time, before);
    return status;
}

static void swap(struct strategy *s)
{
    float *a = s->net->params.x, *b = s->centre.x;
    for (size_t i = 0; i < s->centre.count; i++) {
        const float kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

coll_status strategy_show(struct strategy *s)
{
    const coll_status status =
        s->ops->apart && s->ops->gather ? s->ops->gather(s) : COLL_OK;
    if (!status)
        swap(s);
    return status;
}

void strategy_hide(struct strategy *s)
{
    swap(s);
}
