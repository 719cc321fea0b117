/* SPDX-License-Identifier: MIT */
#include "train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "late.h"
#include "random.h"

/* In the last pass of a step. */
static void grads_ready(void *context, size_t first, size_t count)
{
    struct train *t = context;
    for (size_t i = first; t->sum.x && i < first + count; i++)
        t->net.grads.x[i] += t->sum.x[i];
    if (t->strategy.overlaps)
        breakdown_enter(&t->time, t->strategy.part);
    if (t->strategy.ops->grads_ready) /* finish() returns its error */
        t->strategy.ops->grads_ready(&t->strategy, first, count);
    if (t->strategy.overlaps)
        breakdown_enter(&t->time, PART_BACKWARD);
}

/* n of the batch's images from number `first` on. Returns the summed loss. */
static double learn_pass(struct train *t, const struct batch *b, int first,
                         int n, int *ncorrect)
{
    const bool last = first + n == b->count;
    const uint64_t seed = random_u64(~t->settings.seed, (uint64_t)t->step);
    const size_t at = (size_t)first;
    int correct;
    breakdown_enter(&t->time, PART_FORWARD);
    const double loss =
        net_forward(&t->net, b->images + at * shape_count(t->train.image),
                    b->labels + at, n, true, seed, b->first + at, &correct);
    breakdown_enter(&t->time, PART_BACKWARD);
    const int mean_of = t->strategy.ops->apart ? b->count : b->global_count;
    late_catch_up(t); /* finish() returns its error */
    net_backward(&t->net, 1.0f / (float)mean_of, last ? grads_ready : NULL, t);
    for (size_t i = 0; !last && i < t->sum.count; i++)
        t->sum.x[i] += t->net.grads.x[i];
    breakdown_enter(&t->time, PART_REST);
    *ncorrect += correct;
    return loss;
}

static void delay(struct train *t)
{
    const double seconds = t->settings.delay_seconds;
    if (seconds <= 0 || t->settings.delay_rank != t->rank)
        return;
    const struct timespec pause = {
        .tv_sec = (time_t)seconds,
        .tv_nsec = (long)(1e9 * (seconds - floor(seconds)))};
    breakdown_enter(&t->time, PART_FORWARD);
    nanosleep(&pause, NULL);
}

/* Fills the net's gradients with this rank's part of the mean over the global
 * batch, or, where ranks learn apart, with the mean over its own. Returns the
 * summed loss; a rank without images adds nothing. */
double train_learn(struct train *t, const struct batch *b, int *ncorrect)
{
    double loss = 0;
    delay(t);
    *ncorrect = 0;
    if (t->sum.x)
        memset(t->sum.x, 0, t->sum.count * sizeof(float));
    if (!b->count) {
        late_catch_up(t);
        net_clear_gradients(&t->net);
        net_slices(&t->net, grads_ready, t);
    }
    for (int first = 0; first < b->count; first += t->pass) {
        const int left = b->count - first;
        loss +=
            learn_pass(t, b, first, left < t->pass ? left : t->pass, ncorrect);
    }
    return loss;
}

bool train_saves(const struct train *t, bool stopped)
{
    const long every = t->settings.checkpoint_every;
    return t->settings.checkpoint
           && (stopped || t->step == t->nsteps || t->step % t->epoch_steps == 0
               || (every && t->step % every == 0));
}

bool train_tests(const struct train *t, long step)
{
    const long every = t->settings.test_every;
    return step % t->epoch_steps == 0 || (every && step % every == 0);
}

static int stop_signal(const struct train *t)
{
    return t->settings.stop ? *t->settings.stop : 0;
}

/* All ranks are here at once, in the moment that the breakdown saw last. */
static void meet(struct train *t)
{
    t->met = t->time.entered;
    t->exchanged = t->time.seconds[PART_INSIDE] + t->time.seconds[PART_OUTSIDE];
}

/* Seconds from there to the moment that the breakdown saw last, without those
 * that wait for others. */
static double worked(const struct train *t)
{
    return t->time.entered - t->met
           - (t->time.seconds[PART_INSIDE] + t->time.seconds[PART_OUTSIDE]
              - t->exchanged);
}

static void fill_sums(struct train *t, double loss, int ncorrect, double work)
{
    double *sums = t->sums;
    memset(sums, 0, (SUMS + (size_t)t->nranks) * sizeof(*sums));
    sums[SUM_LOSS] = loss;
    sums[SUM_CORRECT] = ncorrect;
    sums[SUM_STOP] = stop_signal(t) != 0;
    sums[SUM_VOTE] = t->rank ? 0 : t->strategy.vote;
    sums[SUMS + t->rank] = work;
}

bool train_meanwhile(void *context)
{
    struct train *t = context;
    const double lr = schedule_lr(&t->settings.schedule, t->step);
    const enum part before = breakdown_enter(&t->time, PART_UPDATE);
    const bool more = update_some(&t->update, &t->net, lr, t->step + 1);
    breakdown_enter(&t->time, before);
    return more;
}

/* Where gradients go on travelling the sums go before what is left of them. */
static coll_status exchange(struct train *t, double loss, int ncorrect,
                            long until)
{
    struct strategy *s = &t->strategy;
    const size_t n = SUMS + (size_t)t->nranks;
    breakdown_enter(&t->time, s->part);
    s->late = late_may(t, until);
    fill_sums(t, loss, ncorrect, worked(t));
    coll_status status =
        s->late ? strategy_reduce_start(s, t->sums, n) : COLL_OK;
    if (!status)
        status = s->ops->finish(s);
    return status || s->late ? status
                             : strategy_reduce(s, t->sums, n, COLL_SUM);
}

int train_stopped(struct train *t)
{
    double most = stop_signal(t);
    const coll_status status =
        strategy_reduce(&t->strategy, &most, 1, COLL_MAX);
    const int number = !status && most > 0 ? (int)most : SIGTERM;
    return train_fail(t, 128 + number,
                      "stopped by signal %d after step %ld of %ld", number,
                      t->step, t->nsteps);
}

int train_not_finite(struct train *t, double mine)
{
    if (isfinite(mine))
        return train_fail(t, 1,
                          "rank %d, step %ld: the loss of another rank is not "
                          "finite",
                          t->rank, t->step);
    return train_fail(t, 1,
                      "rank %d, step %ld: the loss is %s; a lower --lr or "
                      "some --warmup may help",
                      t->rank, t->step,
                      isnan(mine) ? "not a number" : "infinite");
}

int train_unread(struct train *t)
{
    return train_fail(t, 1, "rank %d, step %ld: %s", t->rank, t->step,
                      loader_error(&t->loader));
}

/* Shows and hides. Without error where the library has the sentence. */
static coll_status score_shown(struct train *t, char *error, size_t error_bytes)
{
    coll_status status = strategy_show(&t->strategy);
    if (status)
        return status;
    status = update_swap(&t->update, &t->net);
    if (!status)
        status = evaluate(&t->net, &t->test, &t->strategy, NULL, &t->score,
                          error, error_bytes);
    if (!status)
        status = update_swap(&t->update, &t->net);
    strategy_hide(&t->strategy);
    return status;
}

int train_evaluate(struct train *t)
{
    char error[512] = "";
    t->score = (struct score){NAN, NAN};
    const coll_status status =
        t->test.ops ? score_shown(t, error, sizeof(error)) : COLL_OK;
    if (*error)
        return train_fail(t, 1, "rank %d, step %ld: %s", t->rank, t->step,
                          error);
    if (status)
        return train_comm_failed(t, status);
    if (t->test.count && !isfinite(t->score.loss)) /* on all ranks: it is a sum */
        return train_fail(t, 1, "step %ld: the test loss is not finite",
                          t->step);
    return 0;
}

/* Each rank normalises by its own images; what is evaluated and stored is the
 * mean. A rank goes on with its own, or where it was stored would show. */
static coll_status average_state(struct train *t)
{
    const struct arena *state = &t->net.state;
    t->averaged = t->own_state.count > 0;
    if (t->averaged)
        memcpy(t->own_state.x, state->x, state->count * sizeof(float));
    return strategy_average_state(&t->strategy);
}

void train_take_back(struct train *t)
{
    const struct arena *own = &t->own_state;
    if (t->averaged)
        memcpy(t->net.state.x, own->x, own->count * sizeof(float));
    t->averaged = false;
}

int train_score(struct train *t, bool stopped, struct report_point *p)
{
    const bool last = t->step == t->nsteps, ends = train_tests(t, t->step);
    if (!last && !ends && !train_saves(t, stopped))
        return 0;
    breakdown_enter(&t->time, PART_TEST);
    const coll_status status = average_state(t);
    const bool tests = ends || (last && !stopped);
    if (status)
        return train_comm_failed(t, status);
    if (tests && train_evaluate(t))
        return 1;
    if (!tests || !t->test.ops)
        return 0;
    p->test_loss = t->score.loss;
    p->test_accuracy = t->score.accuracy;
    return 0;
}

/* Of the step before; counts its images and time. */
static struct report_point point_of(struct train *t, const struct batch *b,
                                    const double parts[PARTS])
{
    double seconds = 0;
    for (int i = 0; i < PARTS; i++)
        seconds += parts[i];
    const double comm = breakdown_communication(parts);
    struct report_point p = {
        .step = t->step,
        .epoch = (t->step - 1) / t->epoch_steps + 1,
        .loss = t->sums[SUM_LOSS] / b->global_count,
        .accuracy = t->sums[SUM_CORRECT] / b->global_count,
        .lr = schedule_lr(&t->settings.schedule, t->step - 1),
        .images_per_s = b->global_count / seconds,
        .comm_share = comm / seconds,
        .step_ms = seconds * 1e3,
        .parts = parts,
        .slowest = -1,
        .test_loss = NAN,
        .test_accuracy = NAN,
    };
    if (t->nranks > 1)
        p.slowest = stragglers_step(&t->stragglers, t->sums + SUMS, &p.late);
    t->seconds += seconds;
    t->comm_seconds += comm;
    t->images_done += b->global_count;
    return p;
}

static coll_status begin(struct train *t)
{
    if (!t->strategy.ops->begin)
        return COLL_OK;
    breakdown_enter(&t->time, t->strategy.part);
    return t->strategy.ops->begin(&t->strategy, t->step + 1);
}

static coll_status move(struct train *t)
{
    const struct strategy_ops *ops = t->strategy.ops;
    if (ops->prepare) {
        breakdown_enter(&t->time, PART_CENTRE);
        ops->prepare(&t->strategy);
    }
    const double lr = schedule_lr(&t->settings.schedule, t->step);
    coll_status status = COLL_OK;
    if (t->strategy.late) {
        late_leave(t, lr, t->step + 1);
    } else {
        breakdown_enter(&t->time, PART_UPDATE);
        status = update_step(&t->update, &t->net, lr, t->step + 1);
    }
    if (ops->settle)
        ops->settle(&t->strategy);
    return status;
}

/* What rank 0 has voted for; if a signal ends the run, all weights move. */
static coll_status conclude(struct train *t, bool stopped)
{
    const struct strategy_ops *ops = t->strategy.ops;
    const coll_status status =
        ops->follow ? ops->follow(&t->strategy, (int)t->sums[SUM_VOTE])
                    : COLL_OK;
    return status || !stopped ? status : late_catch_up(t);
}

int train_run(struct train *t, long until, struct report *report)
{
    bool stopped = false;
    if (t->strategy.ops->stretch)
        return train_run_apart(t, until, report);
    breakdown_enter(&t->time, PART_REST);
    meet(t);
    while (t->step < until && t->step < t->nsteps && !stopped) {
        double parts[PARTS];
        breakdown_enter(&t->time, PART_REST);
        train_take_back(t);
        memcpy(parts, t->time.seconds, sizeof(parts));
        profile_begin(t->profile, t->step + 1);
        coll_status status = begin(t);
        if (status)
            return train_comm_failed(t, status);
        const struct batch *batch = loader_take(&t->loader, t->step);
        if (!batch)
            return train_unread(t);
        int ncorrect;
        const double loss = train_learn(t, batch, &ncorrect);
        status = exchange(t, loss, ncorrect, until);
        if (status)
            return train_comm_failed(t, status);
        if (!isfinite(t->sums[SUM_LOSS]))
            return train_not_finite(t, loss);
        breakdown_enter(&t->time, PART_REST);
        meet(t);
        stopped = t->sums[SUM_STOP] > 0;
        status = move(t);
        if (t->update.joined) /* near ranks have met again */
            meet(t);
        if (!status)
            status = conclude(t, stopped);
        if (status)
            return train_comm_failed(t, status);
        breakdown_enter(&t->time, PART_REST);
        profile_end(t->profile, batch->count);
        for (int i = 0; i < PARTS; i++)
            parts[i] = t->time.seconds[i] - parts[i];
        t->step++;
        struct report_point p = point_of(t, batch, parts);
        if (train_score(t, stopped, &p))
            return 1;
        if (report)
            report_step(report, &p);
        if (isfinite(p.test_loss)) { /* they evaluated */
            breakdown_enter(&t->time, PART_TEST);
            meet(t);
        }
        if (train_saves(t, stopped) && train_save(t))
            return 1;
        breakdown_enter(&t->time, PART_REST);
    }
    return stopped ? train_stopped(t) : 0;
}

int train_breakdown(struct train *t, struct breakdown_sums *sums)
{
    double *const of[] = {sums->mean, sums->least, sums->most};
    const coll_op ops[] = {COLL_AVG, COLL_MIN, COLL_MAX};
    breakdown_enter(&t->time, PART_REST);
    sums->nranks = t->nranks;
    for (int i = 0; i < 3; i++) {
        memcpy(of[i], t->time.seconds, sizeof(sums->mean));
        of[i][PART_FORWARD] += of[i][PART_BACKWARD];
        of[i][PART_BACKWARD] = 0;
    }
    for (int i = 0; i < 3; i++) { /* which takes time as well */
        const coll_status status =
            strategy_reduce(&t->strategy, of[i], PARTS, ops[i]);
        if (status)
            return train_comm_failed(t, status);
    }
    return 0;
}

int train_staleness(struct train *t, bool *has, uint64_t *counts)
{
    const struct strategy_ops *ops = t->strategy.ops;
    *has = ops->staleness != NULL;
    const coll_status status =
        *has ? ops->staleness(&t->strategy, counts) : COLL_OK;
    return status ? train_comm_failed(t, status) : 0;
}
