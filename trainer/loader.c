/* SPDX-License-Identifier: MIT */
#include "loader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "random.h"

/* What chance does to an image depends on its step and place in the global
 * batch, so neither the number of ranks nor a restart changes it. */
static void read_batch(struct loader *l, long step, struct batch *b)
{
    const struct loader_settings *s = &l->settings;
    const struct dataset *d = s->data;
    const size_t pixels = shape_count(d->image);
    const struct share share =
        sampler_share(&l->sampler, step / s->epoch_steps, step % s->epoch_steps,
                      s->rank, s->nranks, s->batch);
    /* Mixed, so that the seeds are not those of dropout. */
    const uint64_t seed = random_u64(random_mix(~s->seed), (uint64_t)step);
    int failed = 0;
    b->error[0] = '\0';
    for (int i = 0; !failed && i < share.count; i++) {
        float *image = b->images + (size_t)i * pixels;
        failed = s->augment
                     ? d->ops->read_augmented(
                         d, share.images[i],
                         random_u64(seed, share.first + (size_t)i), image,
                         &b->labels[i], b->error, sizeof(b->error))
                     : d->ops->read(d, share.images[i], image, &b->labels[i],
                                    b->error, sizeof(b->error));
    }
    b->count = share.count;
    b->global_count = share.global_count;
    b->first = share.first;
}

static void *read_ahead(void *own)
{
    struct loader *l = own;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (l->done == l->asked && !l->over)
            pthread_cond_wait(&l->changed, &l->lock);
        if (l->over)
            break;
        const long step = l->asked;
        struct batch *to = &l->batches[1 - l->current];
        pthread_mutex_unlock(&l->lock);
        read_batch(l, step, to);
        pthread_mutex_lock(&l->lock);
        l->done = step;
        pthread_cond_signal(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* The lock is held, and the thread has nothing to do. */
static void ask(struct loader *l, long step)
{
    if (step >= l->settings.nsteps)
        return;
    l->asked = step;
    pthread_cond_signal(&l->changed);
}

static void take_ahead(struct loader *l, long step)
{
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (l->done != l->asked)
            pthread_cond_wait(&l->changed, &l->lock);
        if (l->done == step)
            break;
        ask(l, step);
    }
    l->current = 1 - l->current;
    ask(l, step + 1);
    pthread_mutex_unlock(&l->lock);
}

static size_t batch_bytes(const struct loader *l)
{
    return (size_t)l->settings.batch * shape_count(l->settings.data->image)
           * sizeof(float);
}

static int batch_open(struct loader *l, struct batch *b)
{
    const size_t n = (size_t)l->settings.batch;
    b->images = malloc(batch_bytes(l));
    b->labels = malloc(n * sizeof(*b->labels));
    return b->images && b->labels ? 0 : -1;
}

/* From step `next` on; without memory, all stays as it is. The caller touches
 * the memory first, so it is near those who train. */
static void go_ahead(struct loader *l, long next)
{
    if (!l->batches[1].images && batch_open(l, &l->batches[1]))
        return;
    memset(l->batches[1].images, 0, batch_bytes(l));
    l->ahead = true;
    pthread_mutex_lock(&l->lock);
    ask(l, next);
    pthread_mutex_unlock(&l->lock);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, LOADER_TRIALS, sizeof(*x), ascending);
    return 0.5 * (x[(LOADER_TRIALS - 1) / 2] + x[LOADER_TRIALS / 2]);
}

/* Where no core is to spare, only what a read waits for can be hidden. */
static bool pays(struct loader *l)
{
    struct loader_trial *t = &l->trial;
    const double hidden = median(l->spare ? t->read : t->idle);
    return hidden > 0.05 * median(t->step);
}

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Reads in place, and measures it from the second step of a run on. */
static void try(struct loader *l, long step)
{
    struct loader_trial *t = &l->trial;
    const double start = clock_now(), worked = processor_seconds();
    read_batch(l, step, &l->batches[0]);
    const double read = clock_now() - start;
    if (t->before > 0) {
        t->step[t->steps] = start - t->before;
        t->read[t->steps] = read;
        t->idle[t->steps] = read - (processor_seconds() - worked);
        t->steps++;
    }
    t->before = start;
    if (t->steps == LOADER_TRIALS && pays(l))
        go_ahead(l, step + 1);
}

const struct batch *loader_take(struct loader *l, long step)
{
    assert(step < l->settings.nsteps);
    if (l->settings.prefetch == PREFETCH_ON && !l->ahead)
        go_ahead(l, step);
    const enum part before =
        breakdown_enter(l->settings.time, l->ahead ? PART_DATA : PART_READ);
    if (l->ahead)
        take_ahead(l, step);
    else if (l->settings.prefetch == PREFETCH_AUTO && l->started
             && l->trial.steps < LOADER_TRIALS)
        try(l, step);
    else
        read_batch(l, step, &l->batches[0]);
    breakdown_enter(l->settings.time, before);
    return *loader_error(l) ? NULL : &l->batches[l->current];
}

const char *loader_error(const struct loader *l)
{
    return l->batches[l->current].error;
}

int loader_open(struct loader *l, const struct loader_settings *s)
{
    *l = (struct loader){.settings = *s, .asked = -1, .done = -1};
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    if (sampler_create(&l->sampler, s->data->count, s->seed, s->shuffle)
        || batch_open(l, &l->batches[0]))
        return -1;
    l->started = s->prefetch != PREFETCH_OFF
                 && !pthread_create(&l->thread, NULL, read_ahead, l);
    return s->prefetch == PREFETCH_ON
                   && (!l->started || batch_open(l, &l->batches[1]))
               ? -1
               : 0;
}

void loader_close(struct loader *l)
{
    if (!l->settings.data)
        return;
    if (l->started) {
        pthread_mutex_lock(&l->lock);
        l->over = true;
        pthread_cond_signal(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
    sampler_free(&l->sampler);
    for (int i = 0; i < 2; i++) {
        free(l->batches[i].images);
        free(l->batches[i].labels);
    }
    *l = (struct loader){0};
}
