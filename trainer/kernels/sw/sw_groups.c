/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_groups.h"

#include <pthread.h>
#include <stdlib.h>

#include "kernels/conv_size.h"
#include "kernels/sw/sw_elements.h"

enum { LINE = 64 }; /* bytes to which a machine is aligned */

struct sw_groups {
    struct sw_machine *machine[SW_GROUPS];
    void *memory[SW_GROUPS];
    pthread_mutex_t lock;
    pthread_cond_t all_came;
    int came;      /* of the present turn */
    unsigned turn; /* counts up each time that all have come */
    const char *(*task)(struct sw_groups *, int, void *);
    void *argument;
};

struct sw_groups *sw_groups_create(void)
{
    const size_t bytes = (sw_machine_bytes() + LINE - 1) / LINE * LINE;
    struct sw_groups *g = calloc(1, sizeof(*g));
    if (!g)
        return NULL;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->all_came, NULL);
    for (int i = 0; i < SW_GROUPS; i++) {
        g->memory[i] = aligned_alloc(LINE, bytes);
        if (!g->memory[i]) {
            sw_groups_free(g);
            return NULL;
        }
        g->machine[i] = sw_machine_create(g->memory[i]);
    }
    return g;
}

void sw_groups_free(struct sw_groups *g)
{
    if (!g)
        return;
    for (int i = 0; i < SW_GROUPS; i++) {
        if (g->machine[i])
            sw_machine_free(g->machine[i]);
        free(g->memory[i]);
    }
    pthread_cond_destroy(&g->all_came);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

struct sw_machine *sw_groups_machine(struct sw_groups *g, int group)
{
    return g->machine[group];
}

/* --- threads ------------------------------------------------------------ */

/* A turn ends when the last one comes, and whoever waits waits for that turn's
 * end: one that comes again at once is of the next. */
void sw_groups_sync(struct sw_groups *g)
{
    pthread_mutex_lock(&g->lock);
    const unsigned turn = g->turn;
    if (++g->came == SW_GROUPS) {
        g->came = 0;
        g->turn++;
        pthread_cond_broadcast(&g->all_came);
    }
    while (g->turn == turn)
        pthread_cond_wait(&g->all_came, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

struct member {
    struct sw_groups *groups;
    int group;
    bool *go; /* set, under the lock, when all threads are there or not */
    bool *all;
    const char *error;
    pthread_t thread;
};

static void *work(void *argument)
{
    struct member *m = argument;
    struct sw_groups *g = m->groups;
    pthread_mutex_lock(&g->lock);
    while (!*m->go)
        pthread_cond_wait(&g->all_came, &g->lock);
    const bool all = *m->all;
    pthread_mutex_unlock(&g->lock);
    if (all)
        m->error = g->task(g, m->group, g->argument);
    return NULL;
}

static void start_all(struct sw_groups *g, bool *go, bool *all, int started)
{
    pthread_mutex_lock(&g->lock);
    *all = started == SW_GROUPS;
    *go = true;
    pthread_cond_broadcast(&g->all_came);
    pthread_mutex_unlock(&g->lock);
}

const char *sw_groups_run(struct sw_groups *g,
                          const char *(*task)(struct sw_groups *, int, void *),
                          void *argument)
{
    struct member member[SW_GROUPS];
    bool go = false, all = false;
    const char *error = NULL;
    int started = 1; /* group 0 is this thread's */
    g->task = task;
    g->argument = argument;
    for (int i = 0; i < SW_GROUPS; i++)
        member[i] =
            (struct member){.groups = g, .group = i, .go = &go, .all = &all};
    while (started < SW_GROUPS
           && !pthread_create(&member[started].thread, NULL, work,
                              &member[started]))
        started++;
    start_all(g, &go, &all, started);
    work(&member[0]);
    for (int i = 1; i < started; i++)
        pthread_join(member[i].thread, NULL);
    for (int i = SW_GROUPS - 1; i >= 0; i--)
        error = member[i].error ? member[i].error : error;
    return all ? error : "no thread for a core group";
}

/* --- convolution -------------------------------------------------------- */

const char *sw_gradient_sum(struct sw_machine *m, float *to,
                            const float *const *others, int nothers,
                            size_t count)
{
    const char *error = NULL;
    for (int i = 0; i < nothers && !error; i++) {
        const struct sw_elements sum = {SW_ADD, to, others[i], to, 0, count};
        if (count >= SW_SUM_ON_MESH)
            error = sw_elements(m, &sum);
        for (size_t k = 0; count < SW_SUM_ON_MESH && k < count; k++)
            to[k] += others[i][k];
    }
    return error;
}

struct shared {
    const struct sw_conv *job;
    float *scratch;
    struct sw_conv_counts *counts;
    struct sw_conv part[SW_GROUPS];
    const char *error[SW_GROUPS];
};

/* A quarter of the images. */
static struct sw_conv part_of(const struct sw_conv *job)
{
    struct sw_conv part = *job;
    part.conv.n /= SW_GROUPS;
    return part;
}

/* The quarter of one group; dw is its own where that is not the result. */
static struct sw_conv part_at(const struct sw_conv *job, int group, float *dw)
{
    struct sw_conv part = part_of(job);
    const size_t at = (size_t)group;
    const size_t x = at * conv_inputs(&part.conv),
                 y = at * conv_outputs(&part.conv);
    if (job->pass == CONV_BACKWARD_WEIGHTS) {
        part.in += x;
        part.by += y;
        part.out = group ? dw + (at - 1) * conv_weights(&job->conv) : part.out;
        return part;
    }
    part.in += job->pass == CONV_FORWARD ? x : y;
    part.out += job->pass == CONV_FORWARD ? y : x;
    return part;
}

const char *sw_groups_conv_cannot(const struct sw_conv *job)
{
    const struct sw_conv part = part_of(job);
    return job->conv.n % SW_GROUPS ? "four groups cannot share the images"
                                   : sw_conv_cannot(&part);
}

static size_t own_gradients(const struct sw_conv *job)
{
    return job->pass == CONV_BACKWARD_WEIGHTS
               ? (SW_GROUPS - 1) * conv_weights(&job->conv)
               : 0;
}

size_t sw_groups_conv_scratch(const struct sw_conv *job)
{
    const struct sw_conv part = part_of(job);
    return own_gradients(job) + SW_GROUPS * sw_conv_scratch(&part);
}

/* Group 0 adds the others' gradients to its own. */
static const char *sum(struct sw_groups *g, struct shared *s)
{
    const float *others[SW_GROUPS - 1];
    for (int i = 1; i < SW_GROUPS; i++) {
        if (s->error[i])
            return NULL; /* that group tells of it */
        others[i - 1] = s->part[i].out;
    }
    return sw_gradient_sum(g->machine[0], s->job->out, others, SW_GROUPS - 1,
                           conv_weights(&s->job->conv));
}

static const char *conv_of_group(struct sw_groups *g, int group, void *argument)
{
    struct shared *s = argument;
    const size_t each = sw_conv_scratch(&s->part[group]);
    float *scratch = s->scratch + own_gradients(s->job) + (size_t)group * each;
    s->error[group] = sw_conv(g->machine[group], &s->part[group], scratch,
                              s->counts ? &s->counts[group] : NULL);
    sw_groups_sync(g);
    if (group || s->job->pass != CONV_BACKWARD_WEIGHTS || s->error[0])
        return s->error[group];
    return sum(g, s);
}

const char *sw_groups_conv(struct sw_groups *g, const struct sw_conv *job,
                           float *scratch, struct sw_conv_counts *counts)
{
    struct shared s = {.job = job, .scratch = scratch, .counts = counts};
    for (int i = 0; i < SW_GROUPS; i++)
        s.part[i] = part_at(job, i, scratch);
    return sw_groups_run(g, conv_of_group, &s);
}
