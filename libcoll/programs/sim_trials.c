/* SPDX-License-Identifier: MIT */
/* Simulations in a few threads. Each holds its plans, about a hundred bytes a
 * message, so only so many messages are under way at a time. */
#include "programs/sim_trials.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "coll/coll.h"
#include "comm/hosts.h"
#include "comm/lineup.h"
#include "comm/price.h"

/* Positions whose plans are looked at to know how many messages there are. */
enum { SAMPLES = 16 };

/* As in the library: segments of less are not worth their messages. */
enum { MIN_SEGMENT = 4096 };

/* Of all simulations under way at once. */
static const double most_messages = 3e7;

struct race {
    struct trial *trials;
    int ntrials, next, ended;
    const struct trials_limits *limits;
    double flying; /* messages */
    double fastest;
    bool failed;
    pthread_mutex_t lock;
    pthread_cond_t news;
};

/* Where a chunk begins in a vector that is cut as exec.c cuts it. */
static size_t chunk_start(size_t bytes, int nchunks, int chunk)
{
    const size_t n = (size_t)nchunks, c = (size_t)chunk, longer = bytes % n;
    return c * (bytes / n) + (c < longer ? c : longer);
}

int trial_positions(const struct trial *t)
{
    return price_positions(&t->world->layout, t->order);
}

bool trial_pipelines(const struct trial *t)
{
    return price_pipelines(&t->world->layout, t->algo, t->order);
}

/* How many times the plan is run. */
static int runs_of(const struct trial *t, int segments)
{
    return layout_by_hosts(t->order)
               ? hosts_segments(t->algo, trial_positions(t), segments)
               : 1;
}

static void write_plan(struct plan *p, const struct trial *t, int position,
                       int segments)
{
    const struct plan_shape shape = {
        .rank = position,
        .nranks = trial_positions(t),
        .segments = runs_of(t, segments) > 1 ? 1 : segments,
        .tree = &t->world->tree[t->order],
    };
    t->algo->plan(p, &shape);
}

/* Sends of one position; an empty one moves nothing. */
static double sends_of(const struct trial *t, int position, int segments)
{
    struct plan p;
    double sends = 0;
    const int runs = runs_of(t, segments);
    const size_t bytes = (t->bytes + (size_t)runs - 1) / (size_t)runs;
    write_plan(&p, t, position, segments);
    for (int i = 0; i < p.nsteps; i++) {
        const struct step *s = &p.steps[i];
        sends += s->kind == PLAN_SEND
                 && chunk_start(bytes, p.nchunks, s->chunk)
                        < chunk_start(bytes, p.nchunks, s->chunk + s->nchunks);
    }
    plan_free(&p);
    return sends * runs;
}

static int samples_of(const struct trial *t)
{
    const int n = trial_positions(t);
    return n < SAMPLES ? n : SAMPLES;
}

static int sample(const struct trial *t, int i)
{
    return (int)((double)i * trial_positions(t) / samples_of(t));
}

double trial_messages(const struct trial *t, int segments)
{
    double sends = 0;
    for (int i = 0; i < samples_of(t); i++)
        sends += sends_of(t, sample(t, i), segments);
    return sends / samples_of(t) * trial_positions(t);
}

/* How long one rank's plan takes to write, the best of some times. */
static double time_plan(const struct trial *t, int position, size_t *bytes)
{
    enum { TIMES = 3 };
    double best = INFINITY;
    for (int i = 0; i < TIMES; i++) {
        struct plan p;
        const double begin = clock_of_thread();
        write_plan(&p, t, position, t->segments);
        best = fmin(best, clock_of_thread() - begin);
        *bytes = (size_t)p.nsteps * sizeof(p.steps[0]);
        plan_free(&p);
    }
    return best;
}

static void measure_plan(struct trial *t)
{
    for (int i = 0; i < samples_of(t); i++) {
        size_t bytes;
        const double seconds = time_plan(t, sample(t, i), &bytes);
        if (bytes < t->plan_bytes)
            continue;
        t->plan_seconds =
            bytes > t->plan_bytes ? seconds : fmin(seconds, t->plan_seconds);
        t->plan_bytes = bytes;
    }
}

static void count(struct trial *t, const struct sim_traffic *traffic)
{
    t->messages = 0;
    t->bytes_sent = 0;
    memset(t->crossing, 0, sizeof(t->crossing));
    for (int r = 0; r < t->world->nranks; r++) {
        t->messages += (double)traffic[r].messages;
        t->bytes_sent += traffic[r].bytes;
        for (int l = 0; l <= SIM_LEVELS; l++)
            t->crossing[l] += traffic[r].crossing[l];
    }
}

/* Of times that are equal but for it, so that the first of twins is found. */
static const double rounding = 1e-9;

/* Whether one under way may soon show that there is no need for this one, which
 * takes more than twice as long. Locked. */
static bool should_wait(const struct race *r, const struct trial *t)
{
    for (int i = 0; i < r->next; i++)
        if (r->trials[i].under_way > 0
            && 2 * r->trials[i].under_way < t->under_way)
            return true;
    return false;
}

/* Whether what takes so long at least may be faster than it was so far, or than
 * another one in a race. */
static bool may_win(struct race *r, const struct trial *t, double least)
{
    pthread_mutex_lock(&r->lock);
    r->fastest = fmin(r->fastest, t->seconds);
    while (least <= r->fastest * (1 + rounding) && should_wait(r, t))
        pthread_cond_wait(&r->news, &r->lock);
    const bool may = least <= r->fastest * (1 + rounding);
    pthread_mutex_unlock(&r->lock);
    return may;
}

/* In a race *seconds is INFINITY if another one is faster by the bound of the
 * plans, which is found in a fraction of the time of a rehearsal. */
static coll_status rehearse_if(struct race *r, const struct trial *t,
                               struct performance *what, double *seconds)
{
    struct lineup u;
    struct cast cast = {0};
    double least = 0;
    coll_status status = lineup_open(&u, &t->world->layout, t->order);
    if (status == COLL_OK)
        status = lineup_cast(&u, what, &cast);
    what->cast = &cast;
    if (status == COLL_OK && r->limits->race)
        status = lineup_bound(&u, what, &least);
    *seconds = INFINITY;
    if (status == COLL_OK && (!r->limits->race || may_win(r, t, least)))
        status = lineup_rehearse(&u, what, seconds);
    cast_free(&cast);
    lineup_close(&u);
    return status;
}

/* Simulates with so many segments, if that may be the fastest; keeps what is
 * better than what is there. Returns whether more may be better still: not
 * where these were simulated and were not. */
static bool try_segments(struct race *r, struct trial *t, int segments)
{
    double seconds = 0;
    const int n = t->world->nranks;
    struct sim_traffic *traffic = calloc((size_t)n, sizeof(*traffic));
    struct performance what = {.algo = t->algo,
                               .segments = segments,
                               .bytes = t->bytes,
                               .instant = r->limits->instant,
                               .traffic = traffic};
    const double begin = clock_of_thread();
    const coll_status status =
        traffic ? rehearse_if(r, t, &what, &seconds)
                : fail(COLL_ERR_MEMORY, "sim", "no memory for %d ranks", n);
    const bool better = status == COLL_OK && seconds < t->seconds;
    const bool left_out = status == COLL_OK && isinf(seconds);
    t->bounded |= left_out;
    if (status < 0) {
        t->state = TRIAL_FAILED;
        snprintf(t->error, sizeof(t->error), "%s of %zu bytes: %s",
                 t->algo->full_name, t->bytes,
                 *fail_sentence() ? fail_sentence()
                                  : coll_status_string(status));
    }
    if (better) {
        t->state = TRIAL_DONE;
        t->seconds = seconds;
        t->segments = segments;
        t->rehearse_seconds = clock_of_thread() - begin;
        count(t, traffic);
    }
    free(traffic);
    return better || left_out;
}

/* Twice the segments as long as they help, or may. */
static void simulate(struct race *r, struct trial *t)
{
    const int given = t->segments;
    const int most = given || !trial_pipelines(t) ? 1 : PLAN_SEGMENTS_MAX;
    if (given) {
        try_segments(r, t, given);
        return;
    }
    for (int s = 1; s <= most; s *= 2)
        if ((s > 1 && t->bytes / (size_t)s < MIN_SEGMENT)
            || (s > 1 && trial_messages(t, s) > r->limits->max_messages)
            || !try_segments(r, t, s))
            break;
    if (t->state == TRIAL_WAITS)
        t->state = TRIAL_BEATEN;
}

static void say_progress(const struct race *r, bool over)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, over ? "\r%*s\r" : "\r%*ssimulated %d of %d ",
                over ? 40 : 0, "", r->ended, r->ntrials);
}

/* The next trial that may begin, taken; NULL: none is left. Locked. */
static struct trial *take(struct race *r)
{
    while (r->next < r->ntrials && !r->failed) {
        struct trial *t = &r->trials[r->next];
        if (t->state == TRIAL_LARGE) {
            r->next++;
            r->ended++;
        } else if (r->limits->race && t->at_least > r->fastest) {
            t->state = TRIAL_BEATEN;
            r->next++;
            r->ended++;
        } else if (r->flying == 0 || r->flying + t->messages <= most_messages) {
            r->flying += t->messages;
            r->next++;
            t->seconds = INFINITY;
            t->under_way = t->messages;
            return t;
        } else {
            pthread_cond_wait(&r->news, &r->lock);
        }
    }
    return NULL;
}

static void *work(void *context)
{
    struct race *r = context;
    pthread_mutex_lock(&r->lock);
    for (struct trial *t; (t = take(r));) {
        const double messages = t->messages;
        pthread_mutex_unlock(&r->lock);
        simulate(r, t);
        if (t->state == TRIAL_DONE)
            measure_plan(t);
        pthread_mutex_lock(&r->lock);
        r->flying -= messages;
        t->under_way = 0;
        r->ended++;
        r->failed |= t->state == TRIAL_FAILED;
        if (t->state == TRIAL_DONE)
            r->fastest = fmin(r->fastest, t->seconds);
        say_progress(r, false);
        pthread_cond_broadcast(&r->news);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

void trials_run(struct trial *trials, int ntrials,
                const struct trials_limits *limits)
{
    enum { MOST_THREADS = 64 };
    struct race r = {
        .trials = trials,
        .ntrials = ntrials,
        .limits = limits,
        .fastest = INFINITY,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .news = PTHREAD_COND_INITIALIZER,
    };
    pthread_t threads[MOST_THREADS];
    int nthreads = 0;
    for (int i = 0; i < ntrials; i++) {
        struct trial *t = &trials[i];
        t->messages = trial_messages(t, t->segments ? t->segments : 1);
        if (t->messages <= limits->max_messages)
            continue;
        t->state = TRIAL_LARGE;
        t->segments = t->segments ? t->segments : 1;
        t->seconds = INFINITY;
        measure_plan(t);
    }
    while (nthreads < limits->threads - 1 && nthreads < MOST_THREADS
           && nthreads < ntrials - 1
           && pthread_create(&threads[nthreads], NULL, work, &r) == 0)
        nthreads++;
    work(&r);
    while (nthreads > 0)
        pthread_join(threads[--nthreads], NULL);
    say_progress(&r, true);
}
