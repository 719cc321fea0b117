/* SPDX-License-Identifier: MIT */
#include "train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "net/checkpoint.h"
#include "random.h"

/* What chance does to an image depends on its step and place in the global
 * batch, so neither the number of ranks nor a restart changes it. */
static void load_image(struct train *t, struct share share, int i)
{
    const struct dataset *d = &t->train;
    float *image = t->images + (size_t)i * shape_count(d->image);
    if (!t->settings.augment) {
        d->ops->read(d, share.images[i], image, &t->labels[i]);
        return;
    }
    /* Mixed, so that the seeds are not those of learn(). */
    const uint64_t seed =
        random_u64(random_mix(~t->settings.seed), (uint64_t)t->step);
    d->ops->read_augmented(d, share.images[i],
                           random_u64(seed, share.first + (size_t)i), image,
                           &t->labels[i]);
}

static struct share load_batch(struct train *t)
{
    profile_enter(t->profile, PROFILE_READ);
    const struct share share =
        sampler_share(&t->sampler, t->step / t->epoch_steps,
                      t->step % t->epoch_steps, t->rank, t->nranks, t->batch);
    for (int i = 0; i < share.count; i++)
        load_image(t, share, i);
    profile_enter(t->profile, PROFILE_REST);
    return share;
}

/* In the last pass of a step. */
static void grads_ready(void *context, size_t first, size_t count)
{
    struct train *t = context;
    for (size_t i = first; t->sum.x && i < first + count; i++)
        t->net.grads.x[i] += t->sum.x[i];
    if (t->strategy.overlaps)
        profile_enter(t->profile, PROFILE_COMMUNICATION);
    /* finish() returns its error */
    t->strategy.ops->grads_ready(&t->strategy, first, count);
    if (t->strategy.overlaps)
        profile_enter(t->profile, PROFILE_BACKWARD);
}

/* n of the share's images from number `first` on. Returns the summed loss. */
static double learn_pass(struct train *t, struct share share, int first, int n,
                         int *ncorrect)
{
    const bool last = first + n == share.count;
    const uint64_t seed = random_u64(~t->settings.seed, (uint64_t)t->step);
    const size_t at = (size_t)first;
    int correct;
    profile_enter(t->profile, PROFILE_FORWARD);
    const double loss =
        net_forward(&t->net, t->images + at * shape_count(t->train.image),
                    t->labels + at, n, true, seed, share.first + at, &correct);
    profile_enter(t->profile, PROFILE_BACKWARD);
    net_backward(&t->net, 1.0f / (float)share.global_count,
                 last ? grads_ready : NULL, t);
    for (size_t i = 0; !last && i < t->sum.count; i++)
        t->sum.x[i] += t->net.grads.x[i];
    profile_enter(t->profile, PROFILE_REST);
    *ncorrect += correct;
    return loss;
}

/* Fills the net's gradients with this rank's part of the mean over the global
 * batch. Returns the summed loss; a rank without images adds nothing. */
static double learn(struct train *t, struct share share, int *ncorrect)
{
    double loss = 0;
    *ncorrect = 0;
    if (t->sum.x)
        memset(t->sum.x, 0, t->sum.count * sizeof(float));
    if (!share.count) {
        memset(t->net.grads.x, 0, t->net.grads.count * sizeof(float));
        net_slices(&t->net, grads_ready, t);
    }
    for (int first = 0; first < share.count; first += t->pass) {
        const int left = share.count - first;
        loss += learn_pass(t, share, first, left < t->pass ? left : t->pass,
                           ncorrect);
    }
    return loss;
}

static int save_checkpoint(struct train *t)
{
    const struct train_settings *s = &t->settings;
    struct checkpoint c = {
        .state =
            {
                    .step = (uint64_t)t->step,
                    .epoch = (uint64_t)(t->step / t->epoch_steps),
                    .seed = s->seed,
                    .images = t->train.count,
                    .global_batch = (uint64_t)t->batch * (uint64_t)t->nranks,
                    .nranks = (uint64_t)t->nranks,
                    .every = (uint64_t)s->schedule.every,
                    .warmup = (uint64_t)s->schedule.warmup,
                    .total = (uint64_t)s->schedule.total,
                    .lr = s->schedule.lr,
                    .gamma = s->schedule.gamma,
                    .momentum = s->optim.numbers[OPTIM_MOMENTUM],
                    .weight_decay = s->optim.weight_decay,
                    .average = s->average,
                    },
        .text = t->net.text,
        .params = t->net.params.x,
        .optim = t->update.state.x,
        .kept = t->net.state.x,
        .nparams = t->net.params.count,
        .noptim = t->update.state.count,
        .nkept = t->net.state.count,
    };
    for (size_t i = 0; i < c.nparams; i++)
        if (!isfinite(c.params[i]))
            return train_fail(t, 1,
                              "step %ld: parameter %zu is %g; the checkpoint "
                              "%s is left as it was",
                              t->step, i, (double)c.params[i], s->checkpoint);
    snprintf(c.state.schedule, sizeof(c.state.schedule), "%s",
             s->schedule.name);
    snprintf(c.state.optimiser, sizeof(c.state.optimiser), "%s", s->optimiser);
    snprintf(c.state.strategy, sizeof(c.state.strategy), "%s", s->strategy);
    train_data_name(t, c.state.data, sizeof(c.state.data));
    return checkpoint_write(s->checkpoint, &c, t->error, sizeof(t->error)) ? 1
                                                                           : 0;
}

static bool checkpoint_due(const struct train *t, bool last)
{
    const long every = t->settings.checkpoint_every;
    return t->settings.checkpoint
           && (last || t->step % t->epoch_steps == 0
               || (every && t->step % every == 0));
}

/* Sums over the ranks: loss, right answers, ranks asked to stop; rank 0's vote.
 */
struct sums {
    double loss, correct, stop, vote;
};

static int stop_signal(const struct train *t)
{
    return t->settings.stop ? *t->settings.stop : 0;
}

static int not_finite(struct train *t, double mine)
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

/* Evaluates where it is due, then tells the report about the step. */
static int tell(struct train *t, struct report *report, struct share share,
                struct sums sums, double seconds, double comm, bool last)
{
    struct report_point p = {
        .step = t->step,
        .epoch = (t->step - 1) / t->epoch_steps + 1,
        .loss = sums.loss / share.global_count,
        .accuracy = sums.correct / share.global_count,
        .lr = schedule_lr(&t->settings.schedule, t->step - 1),
        .images_per_s = share.global_count / seconds,
        .comm_share = comm / seconds,
        .step_ms = seconds * 1e3,
        .test_loss = NAN,
        .test_accuracy = NAN,
    };
    t->seconds += seconds;
    t->comm_seconds += comm;
    t->images_done += share.global_count;
    if (last || t->step % t->epoch_steps == 0) {
        update_swap(&t->update, &t->net);
        const coll_status status =
            evaluate(&t->net, &t->test, &t->strategy, &t->score);
        update_swap(&t->update, &t->net);
        if (status)
            return train_comm_failed(t, status);
        if (!isfinite(t->score.loss)) /* the same on all ranks: it is a sum */
            return train_fail(t, 1, "step %ld: the test loss is not finite",
                              (long)t->step);
        p.test_loss = t->score.loss;
        p.test_accuracy = t->score.accuracy;
    }
    if (report)
        report_step(report, &p);
    return 0;
}

int train_run(struct train *t, long until, struct report *report)
{
    bool stopped = false;
    while (t->step < until && t->step < t->nsteps && !stopped) {
        const double start = clock_now(), talked = t->strategy.seconds;
        profile_begin(t->profile, t->step + 1);
        const struct share share = load_batch(t);
        int ncorrect;
        const double loss = learn(t, share, &ncorrect);
        profile_enter(t->profile, PROFILE_COMMUNICATION);
        coll_status status = strategy_finish(&t->strategy);
        if (status)
            return train_comm_failed(t, status);
        struct sums sums = {loss, ncorrect, stop_signal(t) != 0,
                            t->rank ? 0 : t->strategy.vote};
        status = strategy_reduce(&t->strategy, &sums.loss, 4, COLL_SUM);
        if (status)
            return train_comm_failed(t, status);
        if (!isfinite(sums.loss))
            return not_finite(t, loss);
        profile_enter(t->profile, PROFILE_UPDATE);
        update_step(&t->update, &t->net,
                    schedule_lr(&t->settings.schedule, t->step), t->step + 1);
        profile_end(t->profile, share.count);
        t->step++;
        stopped = sums.stop > 0;
        t->strategy.ops->follow(&t->strategy, (int)sums.vote);
        const double seconds = clock_now() - start,
                     comm = t->strategy.seconds - talked;
        const bool last = t->step == t->nsteps;
        const bool saves = checkpoint_due(t, last || stopped);
        /* Each rank normalises by its own images; what is evaluated and stored
         * is the mean. */
        if (saves || last || t->step % t->epoch_steps == 0)
            status = strategy_average_state(&t->strategy);
        if (status)
            return train_comm_failed(t, status);
        if (tell(t, report, share, sums, seconds, comm, last && !stopped))
            return 1;
        if (saves && t->rank == 0 && save_checkpoint(t))
            return 1;
    }
    if (!stopped)
        return 0;
    const int number = stop_signal(t) ? stop_signal(t) : SIGTERM;
    return train_fail(t, 128 + number,
                      "stopped by signal %d after step %ld of %ld", number,
                      t->step, t->nsteps);
}
