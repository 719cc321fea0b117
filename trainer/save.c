/* SPDX-License-Identifier: MIT */
/* A checkpoint of a run, of all ranks in one file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dist/collect.h"
#include "net/checkpoint.h"
#include "train.h"

void train_data_name(const struct train *t, char *name, size_t bytes)
{
    static const char *const shuffles[] = {
        [SHUFFLE_ALL] = "",
        [SHUFFLE_STRIPES] = " --shuffle stripes",
        [SHUFFLE_DRAW] = " --shuffle draw",
    };
    snprintf(name, bytes, "%s%s%s", t->train.ops->name,
             t->settings.augment ? " --augment" : "",
             shuffles[t->settings.shuffle]);
}

/* Who serves has other floats of its own than who works. */
void train_strategy_name(const struct train *t, char *name, size_t bytes)
{
    const long servers = t->strategy.settings.servers;
    if (servers)
        snprintf(name, bytes, "%s --servers %ld", t->settings.strategy,
                 servers);
    else
        snprintf(name, bytes, "%s", t->settings.strategy);
}

static struct checkpoint_state state_of(const struct train *t)
{
    const struct train_settings *s = &t->settings;
    struct checkpoint_state c = {
        .step = (uint64_t)t->step,
        .epoch = (uint64_t)(t->step / t->epoch_steps),
        .seed = s->seed,
        .images = t->train.count,
        .global_batch = (uint64_t)t->batch * (uint64_t)t->nworkers,
        .nranks = (uint64_t)t->nranks,
        .every = (uint64_t)s->schedule.every,
        .warmup = (uint64_t)s->schedule.warmup,
        .total = (uint64_t)s->schedule.total,
        .lr = s->schedule.lr,
        .gamma = s->schedule.gamma,
        .momentum = s->optim.numbers[OPTIM_MOMENTUM],
        .weight_decay = s->optim.weight_decay,
        .average = s->average,
    };
    snprintf(c.schedule, sizeof(c.schedule), "%s", s->schedule.name);
    snprintf(c.optimiser, sizeof(c.optimiser), "%s", s->optimiser);
    train_strategy_name(t, c.strategy, sizeof(c.strategy));
    train_data_name(t, c.data, sizeof(c.data));
    return c;
}

static int check_finite(struct train *t, const float *x, const char *whose)
{
    for (size_t i = 0; i < t->net.params.count; i++)
        if (!isfinite(x[i]))
            return train_fail(t, 1,
                              "rank %d, step %ld: parameter %zu%s is %g; the "
                              "checkpoint %s is left as it was",
                              t->rank, t->step, i, whose, (double)x[i],
                              t->settings.checkpoint);
    return 0;
}

bool train_has_own(const struct train *t)
{
    return t->strategy.ops->apart || t->strategy.state.count
           || t->own_state.count;
}

struct floats train_own_floats(const struct train *t)
{
    const struct arena *weights = &t->strategy.centre, /* as it is shown */
        *optim = &t->update.state, *rest = &t->strategy.state,
                       *state = &t->own_state;
    if (!t->strategy.ops->apart)
        return (struct floats){
            .n = 2,
            .spans = {{rest->x, rest->count}, {state->x, state->count}}
        };
    return (struct floats){
        .n = 4,
        .spans = {{weights->x, weights->count},
                  {optim->x, optim->count},
                  {rest->x, rest->count},
                  {state->x, state->count}}
    };
}

static void add(void *file, int rank, const float *x, size_t count)
{
    checkpoint_add(file, rank, x, count);
}

/* optim: of all ranks. Rank 0; the others send what they have of their own. */
static int write_file(struct train *t, float *optim, const uint64_t *counts)
{
    const bool apart = t->strategy.ops->apart, owns = train_has_own(t);
    const struct floats own = train_own_floats(t);
    const struct checkpoint c = {
        .state = state_of(t),
        .text = t->net.text,
        .params = t->net.params.x,
        .optim = optim,
        .kept = t->net.state.x,
        .nparams = t->net.params.count,
        .noptim = apart ? 0 : update_floats(&t->update, &t->net),
        .nkept = t->net.state.count,
        .nranks = owns ? (uint32_t)t->nranks : 0,
    };
    struct checkpoint_file file;
    if (checkpoint_begin(&file, t->settings.checkpoint, &c, counts, t->error,
                         sizeof(t->error)))
        return 1;
    const coll_status status =
        owns ? collect(t->comm, &own, counts, add, &file) : COLL_OK;
    if (status) {
        checkpoint_drop(&file);
        return train_comm_failed(t, status);
    }
    return checkpoint_commit(&file, t->error, sizeof(t->error)) ? 1 : 0;
}

static int save_all(struct train *t, float *optim)
{
    const struct floats own = train_own_floats(t);
    uint64_t *counts = malloc((size_t)t->nranks * sizeof(*counts));
    coll_status status =
        counts ? collect_counts(t->comm, &own, counts) : COLL_ERR_MEMORY;
    int failed = status ? train_comm_failed(t, status) : 0;
    if (!failed && t->rank == 0)
        failed = write_file(t, optim, counts);
    else if (!failed && (status = collect(t->comm, &own, NULL, NULL, NULL)))
        failed = train_comm_failed(t, status);
    free(counts);
    return failed;
}

static int save_together(struct train *t, float *optim)
{
    const bool owns = train_has_own(t);
    if (!owns && t->rank)
        return 0;
    if (check_finite(t, t->net.params.x, ""))
        return 1;
    return owns ? save_all(t, optim) : write_file(t, optim, NULL);
}

/* Rank 0 has all of the optimiser's state while it writes. */
static int save_shards(struct train *t)
{
    struct arena all = {0};
    if (!t->rank && arena_alloc(&all, update_floats(&t->update, &t->net)))
        return train_comm_failed(t, COLL_ERR_MEMORY);
    const coll_status status = update_collect(&t->update, &t->net, all.x);
    const int failed =
        status ? train_comm_failed(t, status) : save_together(t, all.x);
    arena_free(&all);
    return failed;
}

int train_save(struct train *t)
{
    if (t->update.sharing)
        return save_shards(t);
    if (!t->strategy.ops->apart)
        return save_together(t, t->update.state.x);
    const coll_status status = strategy_show(&t->strategy);
    if (status)
        return train_comm_failed(t, status);
    const int failed = check_finite(t, t->net.params.x, " of the centre")
                       || check_finite(t, t->strategy.centre.x, " of its own")
                       || save_all(t, NULL);
    strategy_hide(&t->strategy);
    return failed;
}
