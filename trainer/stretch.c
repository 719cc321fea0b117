/* SPDX-License-Identifier: MIT */
/* Training where workers run by themselves between meetings: at the end of an
 * epoch, where a checkpoint is due, and at the end all ranks come together, and
 * do what ranks in step do after a step. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "clock.h"
#include "dist/worker.h"
#include "train.h"

struct stretch {
    struct train *t;
    struct report *report; /* of rank 0; or NULL */
    long base;             /* the job's steps before */
    double loss, correct;  /* of this rank's images */
    int images;            /* of the step at work; 0: none is */
    double start, talked;  /* clock_now(), and communication until then */
    /* What rank 0 has yet to report of its own: since `told` steps of the job
     * were done, which took seconds[PARTS] until then. */
    struct {
        double loss, correct, images, seconds[PARTS];
        long told;
    } news;
};

/* Of an epoch, for one worker at a time: whose is which is not known before. */
static long shares_of(const struct train *t)
{
    return sampler_steps(t->train.count, t->batch);
}

/* That the job has learnt in its first steps, so many. */
static double images_before(const struct train *t, long step)
{
    return (double)(step / t->epoch_steps) * (double)t->train.count
           + (double)(step % t->epoch_steps) * t->nworkers * t->batch;
}

static void start_news(struct stretch *s)
{
    breakdown_enter(&s->t->time, PART_REST);
    memset(&s->news, 0, sizeof(s->news));
    memcpy(s->news.seconds, s->t->time.seconds, sizeof(s->news.seconds));
    s->news.told = s->t->step;
}

/* Up to t->step; images per second are the whole job's. */
static struct report_point point_of(struct stretch *s, double parts[PARTS])
{
    struct train *t = s->t;
    double seconds = 0;
    breakdown_enter(&t->time, PART_REST);
    for (int i = 0; i < PARTS; i++)
        seconds += parts[i] = t->time.seconds[i] - s->news.seconds[i];
    const double steps = (double)(t->step - s->news.told),
                 images = s->news.images,
                 share = breakdown_communication(parts) / seconds;
    for (int i = 0; i < PARTS; i++)
        parts[i] /= steps;
    const struct report_point p = {
        .step = t->step,
        .epoch = (t->step - 1) / t->epoch_steps + 1,
        .loss = s->news.loss / images,
        .accuracy = s->news.correct / images,
        .lr = schedule_lr(&t->settings.schedule, t->step - 1),
        .images_per_s =
            (images_before(t, t->step) - images_before(t, s->news.told))
            / seconds,
        .comm_share = share,
        .step_ms = seconds * 1e3 / steps,
        .parts = parts,
        .slowest = -1,
        .test_loss = NAN,
        .test_accuracy = NAN,
    };
    start_news(s);
    return p;
}

/* This rank begins its part of step t->step. */
static void begin(struct stretch *s)
{
    struct train *t = s->t;
    double parts[PARTS];
    if (s->images)
        profile_end(t->profile, s->images);
    if (s->report && s->news.images > 0 && t->step > s->news.told) {
        const struct report_point p = point_of(s, parts);
        report_step(s->report, &p);
    }
    profile_begin(t->profile, t->step + 1);
}

static coll_status gradient(void *context, long number)
{
    struct stretch *s = context;
    struct train *t = s->t;
    int ncorrect;
    t->step = s->base + number / t->nworkers;
    begin(s);
    const long slot = number % t->nworkers,
               place = t->step % t->epoch_steps * t->nworkers + slot;
    const struct batch *taken = loader_take(
        &t->loader, t->step / t->epoch_steps * shares_of(t) + place);
    if (!taken) {
        train_unread(t);
        return COLL_ERR_ABORTED;
    }
    struct batch b = *taken;
    b.first = (size_t)slot * (size_t)t->batch;
    const double loss = train_learn(t, &b, &ncorrect);
    s->images = b.count;
    s->loss += loss;
    s->correct += ncorrect;
    s->news.loss += loss;
    s->news.correct += ncorrect;
    s->news.images += b.count;
    if (isfinite(loss))
        return COLL_OK;
    train_not_finite(t, loss);
    coll_comm_abort_because(t->comm, t->error);
    return COLL_ERR_ABORTED;
}

static double rate(const struct train *t)
{
    return schedule_lr(&t->settings.schedule, t->step);
}

static void update(void *context, long number)
{
    struct train *t = ((struct stretch *)context)->t;
    (void)number; /* gradient() has set t->step */
    breakdown_enter(&t->time, PART_UPDATE);
    update_step(&t->update, &t->net, rate(t), t->step + 1);
}

static void step(void *context, long number)
{
    struct train *t = ((struct stretch *)context)->t;
    (void)number;
    breakdown_enter(&t->time, PART_UPDATE);
    update_make_step(&t->update, &t->net, rate(t));
}

static long least(long a, long b)
{
    return a < b ? a : b;
}

/* The next multiple; of 0 there is none. */
static long next(long step, long every)
{
    return every ? (step / every + 1) * every : LONG_MAX;
}

/* The step before which all meet next. */
static long next_meeting(const struct train *t, long until)
{
    const long save = t->settings.checkpoint ? t->settings.checkpoint_every : 0,
               end = least(least(until, next(t->step, t->epoch_steps)),
                           least(next(t->step, save),
                                 next(t->step, t->settings.test_every)));
    return t->nsteps < end ? t->nsteps : end;
}

/* Steps of workers until then: the last one of an epoch may have fewer. */
static long shares_until(const struct train *t, long end)
{
    const long first = t->step % t->epoch_steps * t->nworkers,
               last = first + (end - t->step) * t->nworkers, all = shares_of(t);
    return (last < all ? last : all) - first;
}

/* Sums over the ranks: a server's steps; who was told to stop; the workers'
 * losses. */
struct sums {
    double done, stop, loss, correct;
};

static int meet(struct stretch *s, long end, struct sums sums, bool *stopped)
{
    struct train *t = s->t;
    const long n = shares_until(t, end), done = (long)sums.done;
    const double before = images_before(t, t->step);
    double parts[PARTS];
    t->step = done == n ? end : t->step + done / t->nworkers;
    const double images = images_before(t, t->step) - before;
    t->images_done += images;
    breakdown_enter(&t->time, PART_REST);
    t->seconds += clock_now() - s->start;
    t->comm_seconds += breakdown_communication(t->time.seconds) - s->talked;
    *stopped = sums.stop > 0;
    if (s->news.images <= 0) { /* others were faster */
        s->news.loss = sums.loss;
        s->news.correct = sums.correct;
        s->news.images = images;
    }
    struct report_point p = point_of(s, parts);
    if (train_score(t, *stopped, &p))
        return 1;
    if (s->report)
        report_step(s->report, &p);
    return train_saves(t, *stopped) && train_save(t);
}

static int run_until(struct stretch *s, long end, bool *stopped)
{
    const struct worker_job job = {s, gradient, update, step};
    struct train *t = s->t;
    long done;
    s->base = t->step;
    s->loss = s->correct = 0;
    s->images = 0;
    train_take_back(t);
    start_news(s);
    s->start = clock_now();
    s->talked = breakdown_communication(t->time.seconds);
    coll_status status = t->strategy.ops->stretch(
        &t->strategy, &job, t->settings.stop, shares_until(t, end), &done);
    if (s->images)
        profile_end(t->profile, s->images);
    if (status)
        return *t->error ? 1 : train_comm_failed(t, status);
    t->step = s->base;
    breakdown_enter(&t->time, PART_OUTSIDE);
    struct sums sums = {(double)done, t->settings.stop && *t->settings.stop,
                        s->loss, s->correct};
    status = strategy_reduce(&t->strategy, &sums.done, 4, COLL_SUM);
    return status ? train_comm_failed(t, status) : meet(s, end, sums, stopped);
}

int train_run_apart(struct train *t, long until, struct report *report)
{
    struct stretch s = {.t = t, .report = report};
    bool stopped = false;
    while (t->step < until && t->step < t->nsteps && !stopped)
        if (run_until(&s, next_meeting(t, until), &stopped))
            return 1;
    return stopped ? train_stopped(t) : 0;
}
