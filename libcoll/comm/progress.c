/* SPDX-License-Identifier: MIT */
/* The helper: looks at all communicators in turn, stays awake for a moment
 * while something moves, and then sleeps: for ever if nothing is outstanding;
 * until a message comes where these tell; else for naps that are short beside
 * what it has waited. It never holds a communicator while it sleeps.
 */
#include "comm/progress.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "comm/calls.h"
#include "comm/owner.h"
#include "comm/request.h"

enum { MAX_FDS = 64, MESSAGE_SLEEP_NS = 10000000, SLICE_NS = 100000 };
static const double awake_seconds = 50e-6; /* with a processor for each rank */
static const double step_seconds = 10e-6;  /* who took as long did something */
static const double nap_min = 50e-6, nap_max = 1e-3, nap_share = 1. / 8;

static struct {
    pthread_once_t made; /* the first communicator, by a thread that may run */
    cpu_set_t cpus;      /* there; none: unknown */
    pthread_once_t once;
    pthread_mutex_t life; /* held while the thread is started or ended */
    pthread_t thread;
    bool runs, over; /* over: the process exits */
    _Atomic bool stop;

    pthread_mutex_t list; /* taken after life; for the list and the bell */
    coll_comm *first;
    int bell; /* eventfd, wakes the helper */

    _Atomic unsigned told; /* communicators left to it so far; wraps */
    _Atomic bool asleep;
} helper = {
    .made = PTHREAD_ONCE_INIT,
    .once = PTHREAD_ONCE_INIT,
    .life = PTHREAD_MUTEX_INITIALIZER,
    .list = PTHREAD_MUTEX_INITIALIZER,
};

static _Thread_local bool is_helper;

bool progress_is_here(void)
{
    return is_helper;
}

static void note_cpus(void)
{
    if (sched_getaffinity(0, sizeof(helper.cpus), &helper.cpus))
        CPU_ZERO(&helper.cpus); /* they are more than fit */
}

void progress_prepare(void)
{
    pthread_once(&helper.made, note_cpus);
}

/* Whoever wants in goes first. */
static bool enter(coll_comm *c)
{
    int seen = OWNER_NONE;
    return atomic_load_explicit(&c->outstanding, memory_order_relaxed)
           && !atomic_load_explicit(&c->callers, memory_order_relaxed)
           && atomic_compare_exchange_strong_explicit(
               &c->owner, &seen, OWNER_HELPER, memory_order_acquire,
               memory_order_relaxed);
}

static void leave(coll_comm *c)
{
    if (!comm_has_work(c))
        atomic_store_explicit(&c->outstanding, false, memory_order_relaxed);
    atomic_store_explicit(&c->owner, OWNER_NONE, memory_order_release);
}

/* What is done in shared memory is not counted as moved, but takes its time. */
static bool serve(coll_comm *c)
{
    const uint32_t finished = comm_finished(c);
    const double before = comm_clock();
    const bool moved = comm_progress(c);
    comm_serve(c);
    const double now = comm_clock();
    if (comm_has_work(c))
        calls_doubt(c, now);
    return moved || comm_finished(c) != finished || now - before > step_seconds;
}

struct found {
    bool moved, outstanding;
    bool hurries; /* there is a processor for it to stay awake on */
};

static struct found look(void)
{
    struct found f = {false, false, false};
    pthread_mutex_lock(&helper.list);
    for (coll_comm *c = helper.first; c; c = c->next_helped) {
        if (!enter(c))
            continue;
        f.moved |= serve(c);
        f.outstanding |= comm_has_work(c);
        f.hurries |= c->spins > 0;
        leave(c);
    }
    pthread_mutex_unlock(&helper.list);
    return f;
}

/* Descriptors of all that is outstanding, behind fds[0], and for how long it
 * may sleep on them; 0: not at all, negative: for ever. */
static long watch(struct pollfd *fds, int *n, double waited)
{
    const double nap = waited * nap_share;
    long limit = -1;
    pthread_mutex_lock(&helper.list);
    for (coll_comm *c = helper.first; c && limit; c = c->next_helped) {
        if (!enter(c))
            continue;
        const int more = comm_watch(c, fds + *n, MAX_FDS - *n);
        if (more == COMM_WATCH_READY)
            limit = 0;
        else if (more == COMM_WATCH_CANNOT)
            limit = (long)(1e9
                           * (nap < nap_min   ? nap_min
                              : nap > nap_max ? nap_max
                                              : nap));
        else if (limit < 0)
            limit = MESSAGE_SLEEP_NS;
        *n += more > 0 ? more : 0;
        leave(c);
    }
    pthread_mutex_unlock(&helper.list);
    return limit;
}

/* Who leaves something to it counts up `told` and then looks whether it sleeps:
 * so either the news is seen here or the bell rings. */
static void sleep_once(unsigned told, double waited)
{
    struct pollfd fds[MAX_FDS] = {
        {.fd = helper.bell, .events = POLLIN}
    };
    int n = 1;
    uint64_t rings;
    atomic_store(&helper.asleep, true);
    const long ns = watch(fds, &n, waited);
    if (ns && atomic_load(&helper.told) == told && !atomic_load(&helper.stop)) {
        const struct timespec limit = {.tv_nsec = ns};
        ppoll(fds, (nfds_t)n, ns < 0 ? NULL : &limit, NULL);
    }
    atomic_store(&helper.asleep, false);
    if (read(helper.bell, &rings, sizeof(rings)) < 0)
        return; /* nobody rang */
}

/* Where programs compute on all processors a message shall not wait until one's
 * time is over: who asks for little time runs at once (Linux 6.12 and later,
 * anyone may; before that it changes nothing). Old glibc has no such call. */
static void run_at_once(void)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } a = {.size = sizeof(a)};
    if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0)
        || a.policy != SCHED_OTHER)
        return;
    a.runtime = SLICE_NS;
    syscall(SYS_sched_setattr, 0, &a, 0);
}

static void *help(void *unused)
{
    double since = 0; /* nothing has moved; 0: something has */
    unsigned last = 0;
    is_helper = true;
    run_at_once();
    while (!atomic_load(&helper.stop)) {
        const unsigned told = atomic_load(&helper.told);
        const struct found f = look();
        const double now = comm_clock();
        if (f.moved || told != last || since == 0)
            since = now;
        last = told;
        if (f.moved)
            continue;
        if (f.outstanding && f.hurries && now - since < awake_seconds)
            sched_yield();
        else
            sleep_once(told, now - since);
    }
    return unused;
}

static void ring(void)
{
    const uint64_t one = 1;
    if (write(helper.bell, &one, sizeof(one)) < 0)
        log_line(COLL_LOG_WARN, "comm", "the helper's bell: %s",
                 strerror(errno));
}

/* life is held, by this and the next one. */
static void start(void)
{
    sigset_t all, before;
    const int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell < 0) {
        log_line(COLL_LOG_WARN, "comm", "no helper thread: eventfd: %s",
                 strerror(errno));
        return;
    }
    helper.bell = bell;
    atomic_store(&helper.stop, false);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&helper.thread, NULL, help, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    helper.runs = error == 0;
    if (error) {
        log_line(COLL_LOG_WARN, "comm", "no helper thread: %s",
                 strerror(error));
        close(bell);
        return;
    }
    pthread_setname_np(helper.thread, "coll progress");
    if (CPU_COUNT(&helper.cpus))
        pthread_setaffinity_np(helper.thread, sizeof(helper.cpus),
                               &helper.cpus);
}

static void stop(void)
{
    if (!helper.runs)
        return;
    atomic_store(&helper.stop, true);
    ring();
    pthread_join(helper.thread, NULL);
    pthread_mutex_lock(&helper.list);
    close(helper.bell);
    helper.runs = false;
    pthread_mutex_unlock(&helper.list);
}

static void before_fork(void)
{
    pthread_mutex_lock(&helper.life);
    pthread_mutex_lock(&helper.list);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&helper.list);
    pthread_mutex_unlock(&helper.life);
}

/* The child has neither the thread nor any use for the communicators. */
static void in_child(void)
{
    if (helper.runs)
        close(helper.bell);
    helper.runs = false;
    helper.first = NULL;
    after_fork();
}

/* Before the libraries that it is in are torn down. */
static void at_exit(void)
{
    if (is_helper)
        return;
    pthread_mutex_lock(&helper.life);
    helper.over = true;
    stop();
    pthread_mutex_unlock(&helper.life);
}

static void set_up(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
    atexit(at_exit);
}

static void join(coll_comm *c)
{
    pthread_once(&helper.once, set_up);
    pthread_mutex_lock(&helper.life);
    if (!helper.runs && !helper.over)
        start();
    c->helped = helper.runs;
    if (c->helped) {
        pthread_mutex_lock(&helper.list);
        c->next_helped = helper.first;
        helper.first = c;
        pthread_mutex_unlock(&helper.list);
        c->listed = true;
    }
    pthread_mutex_unlock(&helper.life);
}

void progress_leave(coll_comm *c)
{
    if (!c->listed)
        join(c);
    const bool helped = c->helped;
    atomic_store_explicit(&c->outstanding, helped, memory_order_relaxed);
    /* Another thread may destroy it from here on. */
    atomic_store_explicit(&c->owner, OWNER_NONE, memory_order_release);
    if (!helped)
        return;
    atomic_fetch_add(&helper.told, 1);
    if (!atomic_load(&helper.asleep))
        return;
    pthread_mutex_lock(&helper.list);
    if (helper.runs)
        ring();
    pthread_mutex_unlock(&helper.list);
}

void progress_part(coll_comm *c)
{
    if (!c->listed)
        return;
    pthread_mutex_lock(&helper.life);
    pthread_mutex_lock(&helper.list);
    coll_comm **at = &helper.first;
    while (*at && *at != c)
        at = &(*at)->next_helped;
    if (*at)
        *at = c->next_helped;
    const bool last = !helper.first;
    pthread_mutex_unlock(&helper.list);
    if (last)
        stop();
    pthread_mutex_unlock(&helper.life);
    c->listed = false;
}
