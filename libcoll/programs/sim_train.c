/* SPDX-License-Identifier: MIT */
/* coll_sim train: what communication makes of a training step.
 *
 * Weak scaling: every rank computes its own batch in --step-ms, the forward
 * pass in a third of that and the backward pass in two thirds. During the
 * backward pass gradients become ready uniformly, in buckets, which are summed
 * one after another; what ends after the backward pass is exposed. Elastic
 * averaging instead exchanges all weights at once at every tau-th step, beside
 * the computing of one step at most. All times of the network are simulated.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "programs/sim_train.h"

/* As coll_train has them (trainer/nets). */
static const struct {
    const char *name;
    double parameters;
} nets[] = {
    {"alexnet",           60965224 },
    {"alexnet_ungrouped", 62378344 },
    {"alexnet_bn",        62396104 },
    {"alexnet_cifar",     3044170  },
    {"vgg16",             138357544},
    {"vgg19",             143667240},
    {"resnet18",          11689512 },
    {"resnet20",          272474   },
    {"resnet50",          25557032 },
    {"googlenet",         6998552  },
    {"lenet",             431080   },
    {"lenet5",            61706    },
};
enum { NNETS = sizeof(nets) / sizeof(nets[0]) };

/* Of the first, gradients; of the others, elastic averaging, where coll_train
 * asks for sums of equal bits. */
/* clang-format off */
static const struct sim_strategy strategies[] = {
    {"sync",                {ALLREDUCE},         1, ANY_ORDER, true,  true,  NULL},
    {"sync-easgd1",         {BROADCAST, REDUCE}, 2, IN_PAIRS,  false, false, NULL},
    {"sync-easgd2",         {ALLREDUCE},         1, IN_PAIRS,  false, false, NULL},
    {"sync-easgd3",         {ALLREDUCE},         1, IN_PAIRS,  false, true,  NULL},
    {"decentralized-easgd", {ALLREDUCE},         1, IN_PAIRS,  false, true,
                                                 "allreduce:^binomial_tree"},
};
/* clang-format on */

static const struct sim_strategy *strategy_of(const char *name)
{
    int i = 0;
    while (name && strcmp(strategies[i].name, name))
        i++; /* the option has one of them */
    return &strategies[i];
}

static bool overlaps(const struct sim_job *job, const struct sim_strategy *s)
{
    const char *asked = job->options.overlap;
    if (!asked)
        return s->overlaps;
    if (!strcmp(asked, "on") && !s->overlaps)
        options_die(job->program,
                    "--overlap: found on, valid with the strategy %s is off",
                    s->name);
    return !strcmp(asked, "on");
}

static void read_training(struct training *t, struct sim_job *job)
{
    const struct sim_options *o = &job->options;
    const struct sim_strategy *strategy = strategy_of(o->strategy);
    *t = (struct training){
        .job = job,
        .strategy = strategy,
        .overlaps = overlaps(job, strategy),
        .compute = o->step_ms * 1e-3,
        .bytes = o->gradient_bytes,
    };
    for (int i = 0; i < NNETS && !t->bytes; i++)
        if (o->net && !strcmp(o->net, nets[i].name))
            t->bytes = (size_t)(4 * nets[i].parameters);
    if (!t->bytes)
        options_die(job->program, "--net: missing, valid is --net NET, or "
                                  "--bytes BYTES of gradients");
    if (o->step_ms <= 0)
        options_die(job->program, "--step-ms: missing, valid is --step-ms MS, "
                                  "what one rank computes in a step");
    t->ntaus =
        sim_parse_numbers(job->program, "--tau", o->tau, 1 << 20, &t->taus);
    if (strategy->gradients && t->taus[t->ntaus - 1] > 1)
        options_die(job->program,
                    "--tau: found %s, valid with the strategy "
                    "sync is 1",
                    o->tau);
    /* Weights are exchanged in one call. */
    t->bucket =
        !strategy->gradients || o->bucket > t->bytes ? t->bytes : o->bucket;
    t->rows = calloc((size_t)(job->nnranks * t->ntaus), sizeof(*t->rows));
    if (!t->rows)
        sim_fail("no memory for the results");
}

/* --- the network ------------------------------------------------------------
 */

static const struct algo *forced(const struct sim_job *job, enum coll_kind kind)
{
    const char *name = job->options.algo;
    if (!name || !strcmp(name, "all"))
        return NULL;
    const struct algo *algo = algo_find(kind, name);
    if (!algo || algo->way != BY_PLAN)
        sim_unknown_algo(job, kind, name);
    return algo;
}

/* Where all may send to all, rates are found anew at each thousandth of the
 * time, which is 20 times as fast and within 1e-5 for 256 ranks of taihulight.
 */
static struct trials_limits limits_of(const struct sim_job *job,
                                      const struct world *w, bool all_to_all)
{
    enum { MANY = 128 };
    struct trials_limits limits = job->limits;
    if (all_to_all && w->nranks > MANY)
        limits.instant = 1e-3;
    return limits;
}

/* The faster of its orders. */
static struct trial run_forced(const struct sim_job *job, const struct world *w,
                               const struct algo *algo, size_t bytes)
{
    const struct trials_limits limits = limits_of(job, w, algo_in_order(algo));
    struct trial best = {.state = TRIAL_LARGE};
    for (int order = 0; order < NLINEUPS; order++) {
        struct trial t = {.world = w,
                          .algo = algo,
                          .order = (enum layout_order)order,
                          .bytes = bytes,
                          .segments = (int)job->options.segments};
        if (!choices_considers(w, algo, t.order))
            continue;
        trials_run(&t, 1, &limits);
        if (t.state == TRIAL_FAILED)
            return t;
        if (t.state == TRIAL_DONE
            && (best.state != TRIAL_DONE || t.seconds < best.seconds))
            best = t;
    }
    return best;
}

/* What a whole bucket and the last one take of one collective on a world. */
static void simulate_buckets(const struct training *t, const struct world *w,
                             enum coll_kind kind, struct trial *whole,
                             double *last_seconds)
{
    const struct algo *algo = forced(t->job, kind);
    const size_t last = t->bytes % t->bucket;
    const size_t sizes[2] = {last, t->bucket};
    struct trial runs[2] = {{.state = TRIAL_LARGE}};
    const struct trials_limits limits = limits_of(
        t->job, w, t->strategy->asked == IN_PAIRS && kind_reduces(kind));
    struct choices choices = {.world = w};
    coll_status status = COLL_OK;
    if (!algo)
        status = choices_open(&choices, w, t->strategy->asked);
    if (!algo && status == COLL_OK && t->strategy->rules)
        status = select_rules(&choices.select, t->strategy->rules,
                              t->strategy->name);
    if (!algo && status == COLL_OK)
        status = choices_run(&choices, kind, last ? sizes : sizes + 1,
                             last ? 2 : 1, &limits, last ? runs : runs + 1);
    for (int i = last ? 0 : 1; algo && i < 2; i++)
        runs[i] = run_forced(t->job, w, algo, sizes[i]);
    choices_close(&choices);
    if (status < 0)
        sim_fail(fail_sentence());
    for (int i = last ? 0 : 1; i < 2; i++)
        if (runs[i].state != TRIAL_DONE)
            sim_fail(runs[i].state == TRIAL_FAILED
                         ? runs[i].error
                         : "what the library would choose sends more messages "
                           "than --max-messages");
    *whole = runs[1];
    whole->world = NULL; /* which ends before */
    *last_seconds = last ? runs[0].seconds : 0;
}

/* --- the step ---------------------------------------------------------------
 */

static void compose_sync(const struct training *t, struct scaling *s,
                         double last_seconds)
{
    const double forward = t->compute / 3, backward = t->compute - forward;
    const double bytes = (double)t->bytes, bucket = (double)t->bucket;
    double end = 0;
    s->nbuckets = ceil(bytes / bucket);
    for (double b = 0; b < s->nbuckets; b++) {
        const double to = fmin((b + 1) * bucket, bytes);
        const double seconds =
            to - b * bucket < bucket ? last_seconds : s->bucket;
        const double ready =
            t->overlaps ? forward + backward * to / bytes : t->compute;
        end = fmax(end, ready) + seconds;
        s->communication += seconds;
    }
    s->exposed = fmax(end - t->compute, 0);
    s->step = t->compute + s->exposed;
}

static void compose_easgd(const struct training *t, struct scaling *s)
{
    const double hidden = t->overlaps ? t->compute : 0;
    s->nbuckets = 1;
    s->communication = s->bucket;
    s->exposed = fmax(s->communication - hidden, 0) / s->tau;
    s->step = t->compute + s->exposed;
}

static void scale(struct training *t, int i)
{
    struct world w;
    struct scaling one = {.nranks = t->job->nranks[i]};
    double last_seconds = 0;
    sim_open_world(t->job, i, &w);
    for (int k = 0; k < t->strategy->nkinds && w.nranks > 1; k++) {
        double last;
        simulate_buckets(t, &w, t->strategy->kinds[k], &one.buckets[k], &last);
        one.bucket += one.buckets[k].seconds;
        last_seconds += last;
    }
    world_free(&w);
    for (int k = 0; k < t->ntaus; k++) {
        struct scaling *s = &t->rows[t->nrows++];
        *s = one;
        s->tau = t->taus[k];
        if (t->strategy->gradients)
            compose_sync(t, s, last_seconds);
        else
            compose_easgd(t, s);
    }
}

void sim_train(struct sim_job *job)
{
    struct training t;
    read_training(&t, job);
    for (int k = 0; k < t.strategy->nkinds; k++)
        forced(job, t.strategy->kinds[k]);
    for (int i = 0; i < job->nnranks; i++)
        scale(&t, i);
    sim_train_report(&t);
    free(t.rows);
    free(t.taus);
}
