/* SPDX-License-Identifier: MIT */
/* The start of training: everything that can be wrong is found here. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "kernel_choice.h"
#include "kernels/gemm.h"
#include "net/checkpoint.h"
#include "train.h"

int train_fail(struct train *t, int exit_status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(t->error, sizeof(t->error), format, args);
    va_end(args);
    return exit_status;
}

int train_comm_failed(struct train *t, coll_status status)
{
    const char *why = coll_last_error(t->comm);
    return train_fail(t, 1, "rank %d, step %ld: %s", t->rank, t->step,
                      *why ? why : coll_status_string(status));
}

void train_data_name(const struct train *t, char *name, size_t bytes)
{
    snprintf(name, bytes, "%s%s", t->train.ops->name,
             t->settings.augment ? " --augment" : "");
}

static int refuse_augment(struct train *t)
{
    char list[256] = "";
    for (int i = 0; i < ndatasets; i++) {
        const size_t used = strlen(list);
        if (datasets[i]->read_augmented)
            snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "",
                     datasets[i]->name);
    }
    return train_fail(t, 2,
                      "--augment: the images of %s are never changed, valid "
                      "is --data with one of: %s",
                      t->train.ops->name, list);
}

int train_open_data(struct train *t, const struct train_settings *settings)
{
    *t = (struct train){.settings = *settings};
    char text[512];
    t->strategy.ops = strategy_find(settings->strategy, text, sizeof(text));
    if (!t->strategy.ops)
        return train_fail(t, 2, "--strategy: %s", text);
    t->strategy.exchange = settings->exchange;
    t->strategy.bucket_bytes = settings->bucket_bytes;
    t->update = (struct update){
        .optim = optim_find(settings->optimiser, text, sizeof(text)),
        .settings = settings->optim,
        .clip_norm = settings->clip_norm,
        .average = settings->average,
    };
    if (!t->update.optim)
        return train_fail(t, 2, "--optimizer: %s", text);
    if (optim_complete(t->update.optim, &t->update.settings, text,
                       sizeof(text)))
        return train_fail(t, 2, "%s", text);
    t->settings.optim = t->update.settings;
    if (dataset_open(&t->train, settings->data, DATASET_TRAIN, text,
                     sizeof(text))
        || dataset_open(&t->test, settings->data, DATASET_TEST, text,
                        sizeof(text)))
        return train_fail(t, 2, "--data: %s", text);
    return settings->augment && !t->train.ops->read_augmented
               ? refuse_augment(t)
               : 0;
}

/* Sets batch, epoch_steps, nsteps and what the schedule needs of them. */
static int count_steps(struct train *t)
{
    struct train_settings *s = &t->settings;
    const long passes = s->accumulate ? s->accumulate : 1;
    const long global =
        s->global_batch ? s->global_batch : s->batch * passes * t->nranks;
    if (global % t->nranks)
        return train_fail(t, 2,
                          "--global-batch: found %ld, valid is a multiple of "
                          "the %d ranks",
                          global, t->nranks);
    if (global > INT_MAX)
        return train_fail(t, 2,
                          "--batch: %ld images in a step of %d ranks, valid is "
                          "at most %d",
                          global, t->nranks, INT_MAX);
    t->batch = (int)(global / t->nranks);
    t->pass = (int)((t->batch + passes - 1) / passes);
    t->epoch_steps = sampler_steps(t->train.count, global);
    t->nsteps = s->steps ? s->steps : s->epochs * t->epoch_steps;
    s->schedule.total = t->nsteps;
    if (!s->schedule.every)
        s->schedule.every = t->epoch_steps;
    const char *wrong = schedule_check(&s->schedule);
    return wrong ? train_fail(t, 2, "--schedule: %s", wrong) : 0;
}

static int no_memory(struct train *t)
{
    return train_fail(t, 1, "rank %d: no memory for a batch of %d", t->rank,
                      t->pass);
}

static double digest(const void *from, size_t bytes)
{
    return (double)crc32_z(0, from, bytes);
}

enum { MOST_CLAIMS = 24 };

struct claim {
    const char *about;
    double value;
};

/* All ranks must start from the same; another file system, an old checkpoint
 * or another option on one host would otherwise train nonsense. */
static int agree_on(struct train *t, const struct claim *claims, size_t n)
{
    double bounds[2 * MOST_CLAIMS];
    for (size_t i = 0; i < n; i++) {
        bounds[2 * i] = claims[i].value;
        bounds[2 * i + 1] = -claims[i].value;
    }
    const coll_status status =
        strategy_reduce(&t->strategy, bounds, 2 * n, COLL_MAX);
    if (status)
        return train_comm_failed(t, status);
    for (size_t i = 0; i < n; i++)
        if (bounds[2 * i] != -bounds[2 * i + 1])
            return train_fail(t, 2,
                              "rank %d: the ranks disagree about %s; all need "
                              "the same options and files",
                              t->rank, claims[i].about);
    return 0;
}

static int build(struct train *t)
{
    char text[512];
    /* What kernel_agree() sends depends on it. */
    const char *kernel = t->settings.kernel ? t->settings.kernel : "";
    const struct claim ways[] = {
        {"--kernel", digest(kernel, strlen(kernel))},
        {"--precision", t->settings.bf16},
    };
    const int differ = agree_on(t, ways, 2);
    if (differ)
        return differ;
    coll_status status = kernel_agree(t->comm, false);
    if (status)
        return train_comm_failed(t, status);
    if (net_create(&t->net, t->settings.net_text, t->pass, text, sizeof(text)))
        return train_fail(t, 2, "--net: %s", text);
    status = kernel_agree(t->comm, true);
    if (status)
        return train_comm_failed(t, status);
    if (net_fits(&t->net, &t->train, text, sizeof(text)))
        return train_fail(t, 2, "--net: %s", text);
    const int nthreads = t->settings.threads ? (int)t->settings.threads : 1;
    if (net_use_threads(&t->net, nthreads, t->cpus, text, sizeof(text)))
        return train_fail(t, 1, "--threads: %s", text);
    net_init(&t->net, t->settings.seed);
    t->strategy.net = &t->net;
    const size_t batch = (size_t)t->batch;
    t->images = malloc(batch * shape_count(t->train.image) * sizeof(float));
    t->labels = malloc(batch * sizeof(*t->labels));
    if (!t->images || !t->labels
        || sampler_create(&t->sampler, t->train.count, t->settings.seed)
        || (t->pass < t->batch
            && arena_alloc(&t->sum, t->net.params.count))
        || update_open(&t->update, &t->net))
        return no_memory(t);
    status = t->strategy.ops->open(&t->strategy);
    return status ? train_comm_failed(t, status) : 0;
}

/* What makes the stream of images and the state of the optimiser must be as it
 * was; everything else may change. */
static const char *differs(const struct train *t, const struct checkpoint *c,
                           char *text, size_t bytes)
{
    char data[sizeof(c->state.data)];
    const struct checkpoint_state *s = &c->state;
    const uint64_t global = (uint64_t)t->batch * (uint64_t)t->nranks;
    train_data_name(t, data, sizeof(data));
    if (strcmp(c->text, t->net.text))
        return "it has another net than --net";
    if (strcmp(s->data, data) || s->images != t->train.count)
        snprintf(text, bytes,
                 "it was trained on %llu images of %s, found %zu of %s",
                 (unsigned long long)s->images, s->data, t->train.count, data);
    else if (s->seed != t->settings.seed)
        snprintf(text, bytes, "--seed was %llu, found %llu",
                 (unsigned long long)s->seed,
                 (unsigned long long)t->settings.seed);
    else if (s->global_batch != global)
        snprintf(text, bytes,
                 "the batch of all ranks was %llu (%llu ranks), "
                 "found %llu (%d ranks); --global-batch %llu keeps it",
                 (unsigned long long)s->global_batch,
                 (unsigned long long)s->nranks, (unsigned long long)global,
                 t->nranks, (unsigned long long)s->global_batch);
    else if ((s->average > 0) != (t->settings.average > 0))
        snprintf(text, bytes,
                 "it %s a moving average of the weights, found --ema %g",
                 s->average > 0 ? "has" : "has not", t->settings.average);
    else if (strcmp(s->optimiser, t->settings.optimiser)
             || c->nparams != t->net.params.count
             || c->noptim != t->update.state.count
             || c->nkept != t->net.state.count)
        snprintf(text, bytes,
                 "its %zu parameters with %zu kept numbers and %zu of %s do "
                 "not fit %zu with %zu and %zu of %s",
                 c->nparams, c->nkept, c->noptim, s->optimiser,
                 t->net.params.count, t->net.state.count, t->update.state.count,
                 t->settings.optimiser);
    else
        return NULL;
    return text;
}

static int resume(struct train *t)
{
    const char *path = t->settings.resume;
    struct checkpoint c;
    struct stat status;
    char text[512];
    if (!path
        || (t->settings.resume_optional && stat(path, &status)
            && errno == ENOENT))
        return 0;
    if (checkpoint_read(&c, path, text, sizeof(text)))
        return train_fail(t, 2, "--resume: %s", text);
    const char *wrong = differs(t, &c, text, sizeof(text));
    if (!wrong) {
        memcpy(t->net.params.x, c.params, c.nparams * sizeof(float));
        if (c.noptim)
            memcpy(t->update.state.x, c.optim, c.noptim * sizeof(float));
        if (c.nkept)
            memcpy(t->net.state.x, c.kept, c.nkept * sizeof(float));
        t->step = (long)c.state.step;
    }
    checkpoint_free(&c);
    return wrong ? train_fail(t, 2, "--resume: %s: %s", path, wrong) : 0;
}

static int agree(struct train *t)
{
    const struct train_settings *s = &t->settings;
    const double numbers[] = {s->optim.numbers[OPTIM_MOMENTUM],
                              s->optim.numbers[OPTIM_BETA1],
                              s->optim.numbers[OPTIM_BETA2],
                              s->optim.numbers[OPTIM_EPSILON],
                              s->optim.numbers[OPTIM_TRUST],
                              s->optim.weight_decay,
                              s->clip_norm,
                              s->average,
                              s->schedule.lr,
                              s->schedule.gamma,
                              s->schedule.power,
                              (double)s->schedule.every,
                              (double)s->schedule.warmup};
    const size_t milestones =
        (size_t)s->schedule.nmilestones * sizeof(s->schedule.milestones[0]);
    const struct claim claims[] = {
        {"the step to start from", (double)t->step},
        {"the number of steps", (double)t->nsteps},
        {"the batch", t->batch},
        {"the images", (double)t->train.count},
        {"--augment", s->augment},
        {"the seed", digest(&s->seed, sizeof(s->seed))},
        {"the net", digest(t->net.text, strlen(t->net.text))},
        {"the learning rate and its kin",
         digest(numbers, sizeof(numbers))
             + digest(s->schedule.name, strlen(s->schedule.name))
             + digest(s->schedule.milestones, milestones)},
        {"--exchange", (double)s->exchange},
        {"--bucket", (double)s->bucket_bytes},
        {"--optimizer", digest(s->optimiser, strlen(s->optimiser))},
        {"--accumulate", t->pass},
        {"the weights",
         digest(t->net.params.x, t->net.params.count * sizeof(float))
             + digest(t->net.state.x, t->net.state.count * sizeof(float))},
    };
    return agree_on(t, claims, sizeof(claims) / sizeof(claims[0]));
}

int train_open(struct train *t, coll_comm *comm)
{
    t->comm = comm;
    t->rank = coll_comm_user_rank(comm);
    t->nranks = coll_comm_count(comm);
    t->strategy.comm = comm;
    int status = count_steps(t);
    if (!status)
        status = train_place(t);
    if (!status)
        status = build(t);
    if (!status)
        status = resume(t);
    if (!status)
        status = agree(t);
    return status;
}

void train_close(struct train *t)
{
    if (t->strategy.net && t->strategy.ops)
        t->strategy.ops->close(&t->strategy);
    if (t->net.layers)
        net_free(&t->net);
    sampler_free(&t->sampler);
    update_close(&t->update);
    arena_free(&t->sum);
    free(t->cpus);
    free(t->images);
    free(t->labels);
    dataset_close(&t->train);
    dataset_close(&t->test);
    *t = (struct train){0};
}
