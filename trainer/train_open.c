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
#include "late.h"
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
    const struct strategy *s = &t->strategy;
    const char *why = s->own && s->ops->sentence
                          ? s->ops->sentence(s)
                          : strategy_why(t->comm, status);
    return train_fail(t, 1, "rank %d, step %ld: %s", t->rank, t->step,
                      *why ? why : coll_status_string(status));
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

static int refuse_stripes(struct train *t)
{
    if (!t->train.nstripes)
        return train_fail(t, 2,
                          "--shuffle: found stripes with --data %s, which does "
                          "not lie in files of many images, valid is shards",
                          t->train.ops->name);
    return train_fail(t, 2,
                      "--shuffle: found stripes with --strategy %s, whose "
                      "workers take what comes, valid are all and draw",
                      t->settings.strategy);
}

static int bad_net(struct train *t, const char *why)
{
    const char *name = t->settings.net_name;
    return train_fail(t, 2, "--net%s%s: %s", name ? " " : "", name ? name : "",
                      why);
}

/* Training goes without test images, if that part is missing as a whole. */
static int open_images(struct train *t)
{
    const struct train_settings *s = &t->settings;
    char text[512];
    struct shape wanted;
    if (net_takes(s->net_text, &wanted, text, sizeof(text)))
        return bad_net(t, text);
    if (dataset_open(&t->train, s->data, DATASET_TRAIN, wanted, text,
                     sizeof(text))
        || dataset_open(&t->test, s->data, DATASET_TEST, wanted, text,
                        sizeof(text))
               < 0)
        return train_fail(t, 2, "--data: %s", text);
    if (s->augment && !t->train.ops->read_augmented)
        return refuse_augment(t);
    if (s->shuffle == SHUFFLE_STRIPES
        && (!t->train.nstripes || t->strategy.ops->stretch))
        return refuse_stripes(t);
    return 0;
}

/* Sets the option with which a gradient has to be in memory, if there is one. */
static int check_factors(struct train *t)
{
    struct strategy_settings *s = &t->strategy.settings;
    s->needs_gradients = t->settings.clip_norm > 0    ? "--clip-norm"
                         : t->settings.accumulate > 1 ? "--accumulate"
                         : t->update.optim->measure   ? "--optimizer"
                                                      : NULL;
    const char *barred =
        s->factors == FACTORS_ON ? factors_barred(s) : NULL;
    const char *optimiser =
        barred && !strcmp(barred, "--optimizer") ? t->settings.optimiser : "";
    if (!barred)
        return 0;
    return train_fail(t, 2,
                      "--factors: found on with %s%s%s, which needs gradients "
                      "in memory; valid are auto and off",
                      barred, *optimiser ? " " : "", optimiser);
}

int train_open_data(struct train *t, const struct train_settings *settings)
{
    *t = (struct train){.settings = *settings};
    breakdown_start(&t->time, settings->began);
    t->strategy.time = &t->time;
    t->strategy.part = PART_INITIALISE;
    char text[512];
    t->settings.strategy_settings.together = settings->clip_norm > 0;
    t->strategy.ops = strategy_find(settings->strategy, text, sizeof(text));
    if (!t->strategy.ops)
        return train_fail(t, 2, "--strategy: %s", text);
    if (strategy_complete(t->strategy.ops, &t->settings.strategy_settings, text,
                          sizeof(text)))
        return train_fail(t, 2, "%s", text);
    t->strategy.settings = t->settings.strategy_settings;
    if (t->strategy.ops->stretch && settings->prefetch == PREFETCH_ON)
        return train_fail(t, 2,
                          "--prefetch: found on with --strategy %s, where no "
                          "worker knows its next images; valid are auto and "
                          "off",
                          settings->strategy);
    if (t->strategy.ops->apart && settings->average > 0)
        return train_fail(t, 2,
                          "--ema: found --strategy %s, which evaluates the "
                          "centre of all ranks; valid is --strategy sync",
                          settings->strategy);
    t->update = (struct update){
        .optim = optim_find(settings->optimiser, text, sizeof(text)),
        .settings = settings->optim,
        .clip_norm = settings->clip_norm,
        .average = settings->average,
    };
    if (!t->update.optim)
        return train_fail(t, 2, "--optimizer: %s", text);
    if (strategy_descends(t->strategy.ops, settings->optimiser,
                          &t->update.settings.numbers[OPTIM_MOMENTUM], text,
                          sizeof(text)))
        return train_fail(t, 2, "%s", text);
    if (optim_complete(t->update.optim, &t->update.settings, text,
                       sizeof(text)))
        return train_fail(t, 2, "%s", text);
    t->settings.optim = t->update.settings;
    t->strategy.momentum = t->update.settings.numbers[OPTIM_MOMENTUM];
    const int wrong = check_factors(t);
    return wrong ? wrong : open_images(t);
}

/* Sets who works; the others serve. */
static int share_out(struct train *t)
{
    const long servers = t->strategy.settings.servers;
    if (servers >= t->nranks)
        return train_fail(t, 2,
                          "--servers: found %ld of %d rank%s with --strategy "
                          "%s, valid is at least one less than ranks",
                          servers, t->nranks, t->nranks == 1 ? "" : "s",
                          t->settings.strategy);
    t->nworkers = t->strategy.nworkers = t->nranks - (int)servers;
    if (t->settings.delay_seconds > 0 && t->settings.delay_rank >= t->nworkers)
        return train_fail(t, 2,
                          "--delay: found rank %d, valid is one that works, "
                          "from 0 to %d",
                          t->settings.delay_rank, t->nworkers - 1);
    return 0;
}

/* Sets batch, epoch_steps, nsteps and what the schedule needs of them. */
static int count_steps(struct train *t)
{
    struct train_settings *s = &t->settings;
    const long passes = s->accumulate ? s->accumulate : 1;
    const long global =
        s->global_batch ? s->global_batch : s->batch * passes * t->nworkers;
    if (global % t->nworkers)
        return train_fail(t, 2,
                          "--global-batch: found %ld, valid is a multiple of "
                          "the %d ranks that work",
                          global, t->nworkers);
    if (global > INT_MAX)
        return train_fail(t, 2,
                          "--batch: %ld images in a step of %d ranks, valid is "
                          "at most %d",
                          global, t->nworkers, INT_MAX);
    t->batch = (int)(global / t->nworkers);
    t->pass = (int)((t->batch + passes - 1) / passes);
    t->epoch_steps = sampler_steps(t->train.count, global);
    t->nsteps = s->steps ? s->steps : s->epochs * t->epoch_steps;
    s->schedule.total = t->nsteps;
    if (!s->schedule.every)
        s->schedule.every = t->epoch_steps;
    const long tau = s->strategy_settings.tau;
    if (t->strategy.ops->apart && !t->strategy.ops->stretch && tau > t->nsteps)
        return train_fail(t, 2,
                          "--tau: found %ld, valid is at most the %ld steps of "
                          "the run: ranks would never meet",
                          tau, t->nsteps);
    const char *wrong = schedule_check(&s->schedule);
    return wrong ? train_fail(t, 2, "--schedule: %s", wrong) : 0;
}

static int no_memory(struct train *t)
{
    return train_fail(t, 1, "rank %d: no memory for a batch of %d", t->rank,
                      t->batch);
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

static int open_loader(struct train *t)
{
    const bool apart = t->strategy.ops->stretch != NULL;
    struct loader_settings s = {
        .data = &t->train,
        .seed = t->settings.seed,
        .augment = t->settings.augment,
        .shuffle = t->settings.shuffle,
        .rank = t->rank,
        .nranks = t->nranks,
        .batch = t->batch,
        .epoch_steps = t->epoch_steps,
        .nsteps = t->nsteps,
        .prefetch = t->settings.prefetch,
        .time = &t->time,
    };
    if (apart) { /* stretch.c: by shares, of which nobody knows the next */
        s.rank = 0;
        s.nranks = 1;
        s.epoch_steps = sampler_steps(t->train.count, t->batch);
        s.nsteps = (t->nsteps / t->epoch_steps + 1) * s.epoch_steps;
        s.prefetch = PREFETCH_OFF;
    }
    return loader_open(&t->loader, &s) ? no_memory(t) : 0;
}

static int build(struct train *t)
{
    char text[512];
    /* What kernel_agree() and strategies send depends on it. */
    const char *kernel = t->settings.kernel ? t->settings.kernel : "";
    const char *strategy = t->settings.strategy;
    const struct strategy_settings *s = &t->strategy.settings;
    const char *text_of = t->settings.net_text;
    const struct claim ways[] = {
        {"the net", digest(text_of, strlen(text_of))},
        {"--kernel", digest(kernel, strlen(kernel))},
        {"--precision", t->settings.bf16},
        {"--partition", t->settings.partition},
        {"--strategy", digest(strategy, strlen(strategy))},
        {"--tau", (double)s->tau},
        {"--alpha", s->alpha},
        {"--rho", s->rho},
        {"--centre", s->centre},
        {"--deterministic", s->deterministic}, /* implies --wire-always */
        {"--wire", s->wire.kind},
        {"--top", s->wire.top},
        {"--wire-always", s->wire.always},
        {"--servers", (double)s->servers},
        {"--original-strict", s->strict},
        {"--shard-optimizer", s->shard},
        {"--factors", s->factors},
    };
    const int differ = agree_on(t, ways, sizeof(ways) / sizeof(ways[0]));
    if (differ)
        return differ;
    coll_status status = kernel_agree(t->comm, false);
    if (status)
        return train_comm_failed(t, status);
    if (net_create(&t->net, t->settings.net_text, t->pass, text, sizeof(text)))
        return bad_net(t, text);
    status = kernel_agree(t->comm, true);
    if (status)
        return train_comm_failed(t, status);
    if (net_fits(&t->net, &t->train, text, sizeof(text))
        || (t->test.ops
            && net_fits(&t->net, &t->test, text, sizeof(text))))
        return bad_net(t, text);
    if (s->deterministic && net_fix_sums(&t->net, text, sizeof(text)))
        return train_fail(t, 1, "--deterministic: %s", text);
    const int nthreads = t->settings.threads ? (int)t->settings.threads : 1;
    if (net_use_threads(&t->net, nthreads, t->cpus, text, sizeof(text)))
        return train_fail(t, 1, "--threads: %s", text);
    net_init(&t->net, t->settings.seed);
    t->strategy.net = &t->net;
    if (!(t->sums = calloc(SUMS + (size_t)t->nranks, sizeof(*t->sums)))
        || stragglers_open(&t->stragglers, t->nranks)
        || (t->pass < t->batch && arena_alloc(&t->sum, t->net.params.count))
        || (t->nranks > 1 && t->net.state.count
            && arena_alloc(&t->own_state, t->net.state.count)))
        return no_memory(t);
    t->strategy.part = strategy_part(&t->strategy);
    status = t->strategy.ops->open(&t->strategy);
    late_open(t);
    if (status == COLL_ERR_INVALID && t->strategy.note[0])
        return train_fail(t, 2, "%s", t->strategy.note);
    if (status)
        return train_comm_failed(t, status);
    return update_open(&t->update, &t->net, &t->strategy) ? no_memory(t) : 0;
}

/* What makes the stream of images and the state of the optimiser must be as it
 * was; everything else may change. */
static const char *differs(const struct train *t, const struct checkpoint *c,
                           char *text, size_t bytes)
{
    char data[sizeof(c->state.data)], strategy[sizeof(c->state.strategy)];
    const struct floats own = train_own_floats(t);
    const bool apart = t->strategy.ops->apart;
    const size_t floats = update_floats(&t->update, &t->net);
    const struct checkpoint_state *s = &c->state;
    const uint64_t global = (uint64_t)t->batch * (uint64_t)t->nworkers;
    train_data_name(t, data, sizeof(data));
    train_strategy_name(t, strategy, sizeof(strategy));
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
    else if (t->settings.shuffle == SHUFFLE_STRIPES
             && s->nranks != (uint64_t)t->nranks)
        snprintf(text, bytes,
                 "it was trained by %llu ranks with --shuffle stripes, which "
                 "gives each its part of the files, found %d",
                 (unsigned long long)s->nranks, t->nranks);
    else if (strcmp(s->strategy, strategy))
        snprintf(text, bytes, "--strategy was %s, found %s", s->strategy,
                 strategy);
    else if (apart && c->nranks != (uint32_t)t->nranks)
        snprintf(text, bytes,
                 "it has the weights of %u ranks, found %d",
                 c->nranks, t->nranks);
    else if ((s->average > 0) != (t->settings.average > 0))
        snprintf(text, bytes,
                 "it %s a moving average of the weights, found --ema %g",
                 s->average > 0 ? "has" : "has not", t->settings.average);
    else if (strcmp(s->optimiser, t->settings.optimiser)
             || c->nparams != t->net.params.count
             || c->noptim != (apart ? 0 : floats)
             || (apart && c->nown != floats_count(&own)
                 && c->nown != floats_count(&own) - t->own_state.count)
             || c->nkept != t->net.state.count)
        snprintf(text, bytes,
                 "its %zu parameters with %zu kept numbers and %zu of %s do "
                 "not fit %zu with %zu and %zu of %s",
                 c->nparams, c->nkept, c->noptim, s->optimiser,
                 t->net.params.count, t->net.state.count, floats,
                 t->settings.optimiser);
    else
        return NULL;
    return text;
}

static void copy(struct arena *to, const float *from)
{
    if (to->count)
        memcpy(to->x, from, to->count * sizeof(float));
}

/* The last of its own floats; older checkpoints have the mean only. */
static bool has_own_state(const struct train *t, const struct checkpoint *c)
{
    const struct floats own = train_own_floats(t);
    return t->own_state.count && c->nranks == (uint32_t)t->nranks
           && c->nown == floats_count(&own);
}

static void take(struct train *t, const struct checkpoint *c)
{
    copy(&t->net.state, c->kept);
    t->averaged = has_own_state(t, c);
    if (t->averaged)
        copy(&t->own_state, c->own + (c->nown - t->own_state.count));
    t->step = (long)c->state.step;
    const float *own = c->own; /* as of train_own_floats() */
    if (!t->strategy.ops->apart) {
        copy(&t->net.params, c->params);
        update_take(&t->update, &t->net, c->optim);
        /* Another number of ranks, or --wire, begins with nothing kept. */
        if (c->nranks == (uint32_t)t->nranks
            && (t->averaged || c->nown == t->strategy.state.count))
            copy(&t->strategy.state, own);
        return;
    }
    copy(&t->strategy.centre, c->params);
    copy(&t->net.params, own);
    own += t->net.params.count;
    copy(&t->update.state, own);
    own += t->update.state.count;
    copy(&t->strategy.state, own);
    if (t->strategy.ops->adopt)
        t->strategy.ops->adopt(&t->strategy);
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
    if (checkpoint_read(&c, path, t->rank, text, sizeof(text)))
        return train_fail(t, 2, "--resume: %s", text);
    const char *wrong = differs(t, &c, text, sizeof(text));
    if (!wrong)
        take(t, &c);
    checkpoint_free(&c);
    return wrong ? train_fail(t, 2, "--resume: %s: %s", path, wrong) : 0;
}

static int agree(struct train *t)
{
    const struct train_settings *s = &t->settings;
    const struct arena *weights =
        t->strategy.ops->apart ? &t->strategy.centre : &t->net.params;
    const double numbers[] = {s->optim.numbers[OPTIM_MOMENTUM],
                              s->optim.numbers[OPTIM_BETA1],
                              s->optim.numbers[OPTIM_BETA2],
                              s->optim.numbers[OPTIM_EPSILON],
                              s->optim.numbers[OPTIM_TRUST],
                              s->optim.weight_decay,
                              s->clip_norm,
                              s->average,
                              s->schedule.lr,
                              s->schedule.from,
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
        {"the data set",
         digest(t->train.ops->name, strlen(t->train.ops->name))},
        {"the classes", t->train.nclasses},
        {"--augment", s->augment},
        {"--shuffle", s->shuffle},
        {"the seed", digest(&s->seed, sizeof(s->seed))},
        {"the learning rate and its kin",
         digest(numbers, sizeof(numbers))
             + digest(s->schedule.name, strlen(s->schedule.name))
             + digest(s->schedule.milestones, milestones)},
        {"--exchange", (double)s->strategy_settings.exchange},
        {"--bucket", (double)s->strategy_settings.bucket_bytes},
        {"--optimizer", digest(s->optimiser, strlen(s->optimiser))},
        {"--accumulate", t->pass},
        {"--test-every", (double)s->test_every},
        {"--checkpoint and --checkpoint-every",
         s->checkpoint ? 1 + (double)s->checkpoint_every : 0},
        {"the weights",
         digest(weights->x, weights->count * sizeof(float))
             + digest(t->net.state.x, t->net.state.count * sizeof(float))},
    };
    return agree_on(t, claims, sizeof(claims) / sizeof(claims[0]));
}

/* Partitions have copies of their own, also where two are near each other. */
static int join_weights(struct train *t)
{
    const coll_status status =
        t->settings.partition
            ? COLL_OK
            : update_join(&t->update, &t->net, &t->strategy);
    if (status)
        return train_comm_failed(t, status);
    if (t->update.joined && t->net.factors.x) {
        t->strategy.meanwhile = train_meanwhile;
        t->strategy.context = t;
    }
    return 0;
}

int train_open(struct train *t, coll_comm *comm)
{
    t->comm = comm;
    t->rank = coll_comm_user_rank(comm);
    t->nranks = coll_comm_count(comm);
    t->strategy.comm = comm;
    int status = share_out(t);
    if (!status)
        status = count_steps(t);
    if (!status)
        status = open_loader(t);
    if (!status)
        status = train_place(t);
    if (!status)
        status = train_partition(t);
    if (!status)
        status = build(t);
    if (!status)
        status = train_partition_fits(t);
    if (!status)
        status = resume(t);
    if (!status)
        status = agree(t);
    if (!status)
        status = join_weights(t);
    return status;
}

void train_close(struct train *t)
{
    update_part(&t->update);
    if (t->strategy.net && t->strategy.ops)
        t->strategy.ops->close(&t->strategy);
    if (t->net.layers)
        net_free(&t->net);
    loader_close(&t->loader);
    update_close(&t->update);
    arena_free(&t->sum);
    arena_free(&t->own_state);
    arena_free(&t->strategy.centre);
    arena_free(&t->strategy.state);
    free(t->cpus);
    stragglers_close(&t->stragglers);
    free(t->sums);
    dataset_close(&t->train);
    dataset_close(&t->test);
    *t = (struct train){0};
}
