/* SPDX-License-Identifier: MIT */
/* Layers follow each other closely, so whoever waits looks for a while before
 * it sleeps; not where threads are more than processors. A thread that is not
 * bound starts on its parent's processor, and may stay there for a long time,
 * as one of the two always sleeps. */
#include "crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { LOOKS = 20000 };

struct member {
    struct crew *crew;
    pthread_t thread;
    int number, cpu; /* cpu -1: any */
};

struct crew {
    int nthreads, nstarted, looks;
    void (*part)(void *context, int i, int n);
    void *context;
    atomic_uint call; /* counts crew_run(); 0 parts left ends one */
    atomic_int left;  /* threads but the caller that are not done */
    bool over;
    pthread_mutex_t lock; /* of sleeping only */
    pthread_cond_t called, done;
    struct member member[];
};

/* That this process may use. */
static int processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
}

/* A set of any size: machines may have more processors than a cpu_set_t. */
void crew_bind(int cpu)
{
    cpu_set_t *set = CPU_ALLOC((size_t)cpu + 1);
    const size_t bytes = CPU_ALLOC_SIZE((size_t)cpu + 1);
    if (!set)
        return;
    CPU_ZERO_S(bytes, set);
    CPU_SET_S((size_t)cpu, bytes, set);
    sched_setaffinity(0, bytes, set);
    CPU_FREE(set);
}

static void pause_a_little(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Returns the number of a call that is not `last`. */
static unsigned wait_for_call(struct crew *c, unsigned last)
{
    unsigned call;
    for (int i = 0; i < c->looks; i++) {
        call = atomic_load(&c->call);
        if (call != last)
            return call;
        pause_a_little();
    }
    pthread_mutex_lock(&c->lock);
    while ((call = atomic_load(&c->call)) == last)
        pthread_cond_wait(&c->called, &c->lock);
    pthread_mutex_unlock(&c->lock);
    return call;
}

static void *work(void *own)
{
    struct member *m = own;
    struct crew *c = m->crew;
    if (m->cpu >= 0)
        crew_bind(m->cpu);
    for (unsigned call = 0;;) {
        call = wait_for_call(c, call);
        if (c->over)
            return NULL;
        c->part(c->context, m->number, c->nthreads);
        if (atomic_fetch_sub(&c->left, 1) > 1)
            continue;
        pthread_mutex_lock(&c->lock);
        pthread_cond_signal(&c->done);
        pthread_mutex_unlock(&c->lock);
    }
}

/* Lets the others go on, which then read what the caller has written before. */
static void call_all(struct crew *c)
{
    pthread_mutex_lock(&c->lock);
    atomic_fetch_add(&c->call, 1);
    pthread_cond_broadcast(&c->called);
    pthread_mutex_unlock(&c->lock);
}

struct crew *crew_create(int nthreads, const int *cpus)
{
    struct crew *c =
        calloc(1, sizeof(*c) + (size_t)nthreads * sizeof(c->member[0]));
    if (!c)
        return NULL;
    c->nthreads = nthreads;
    c->looks = cpus || nthreads <= processors() ? LOOKS : 0;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->called, NULL);
    pthread_cond_init(&c->done, NULL);
    for (c->nstarted = 1; c->nstarted < nthreads; c->nstarted++) {
        struct member *m = &c->member[c->nstarted];
        *m = (struct member){c, 0, c->nstarted, cpus ? cpus[c->nstarted] : -1};
        if (pthread_create(&m->thread, NULL, work, m)) {
            crew_free(c);
            return NULL;
        }
    }
    return c;
}

void crew_free(struct crew *c)
{
    if (!c)
        return;
    c->over = true;
    call_all(c);
    for (int i = 1; i < c->nstarted; i++)
        pthread_join(c->member[i].thread, NULL);
    pthread_cond_destroy(&c->done);
    pthread_cond_destroy(&c->called);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

int crew_size(const struct crew *c)
{
    return c ? c->nthreads : 1;
}

void crew_run(struct crew *c, void (*part)(void *context, int i, int n),
              void *context)
{
    if (crew_size(c) == 1) {
        part(context, 0, 1);
        return;
    }
    c->part = part;
    c->context = context;
    atomic_store(&c->left, c->nthreads - 1);
    call_all(c);
    part(context, 0, c->nthreads);
    for (int i = 0; i < c->looks && atomic_load(&c->left); i++)
        pause_a_little();
    pthread_mutex_lock(&c->lock);
    while (atomic_load(&c->left))
        pthread_cond_wait(&c->done, &c->lock);
    pthread_mutex_unlock(&c->lock);
}
