/* SPDX-License-Identifier: MIT */
/* Waiting: poll, then give the processor up at each empty poll, then sleep.
 *
 * With a processor for each rank a short spin catches what comes within a
 * microsecond or so; with more ranks than processors a spin only keeps the
 * awaited rank from running, so the first empty poll yields. Whoever has waited
 * for a while is not in a hurry, and may be in the way of those it waits for,
 * the kernel's network threads too: it sleeps until a message comes from
 * another host or a peer of its own rings. Nobody can wait for both, so with
 * peers it looks at messages now and then. Nor for the bells of two
 * communicators: a wait for several sleeps on the messages of all, and where
 * one needs its peers it only naps.
 */
#include <poll.h>
#include <sched.h>
#include <time.h>

#include "base/log.h"
#include "comm/calls.h"
#include "comm/p2p.h"
#include "comm/request.h"

enum { YIELDS_PER_CLOCK = 64, POLLS_PER_PROGRESS = 64 };

enum { remote_sleep_ns = 100000, MESSAGE_SLEEP_MS = 10, MAX_SLEEP_FDS = 64 };
/* In a round of the control plane others may still want messages. */
static const double meeting_sleep_seconds = 1e-3;
/* Before the first sleep: with a processor for each rank, and without. */
static const double awake_seconds = 1e-3, awake_crowded_seconds = 1e-4;

double comm_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool comm_progress(coll_comm *c)
{
    bool moved = false;
    for (int i = 0; i < c->nopen; i++)
        moved |= c->open[i]->ops->progress(c->open[i]);
    if (c->p2p) {
        const coll_status status = p2p_advance(c, &moved);
        if (status < 0)
            request_fail_p2p(c, status);
    }
    return moved;
}

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static coll_status too_late(coll_comm *c, const char *what, double seconds)
{
    char awaited[128], waiting[128];
    comm_awaited(c, awaited, sizeof(awaited));
    p2p_tell_waiting(c, waiting, sizeof(waiting));
    fail(COLL_ERR_TIMEOUT, "comm",
         "rank %d of %d: %s did not finish within %g s%s%s%s; no rank is known "
         "to have failed",
         c->rank, c->nranks, what, seconds,
         *awaited ? ": messages are awaited of rank" : "", awaited, waiting);
    return comm_fail(c, COLL_ERR_TIMEOUT, fail_sentence());
}

struct wait {
    coll_comm *const *comms; /* the first one, and on by `also` */
    coll_status (*step)(void *context);
    void *context;
    coll_status status; /* what the last step said */
    unsigned empty;     /* polls since something moved */
    unsigned yields;
    double awake_until; /* 0: from the next look at the clock */
    bool sleepy;
};

/* Whether the wait is over, or something moved. An operation on shared memory
 * needs no messages, so they are then looked for only now and then. */
static bool look(void *context)
{
    struct wait *w = context;
    bool moved = false;
    w->status = w->step(w->context);
    if (w->status != COLL_IN_PROGRESS)
        return true;
    for (coll_comm *c = *w->comms; c; c = c->also) {
        const coll_status status = comm_check(c);
        if (status < 0) {
            w->status = status;
            return true;
        }
        if (!comm_on_node(c) || p2p_is_busy(c)
            || w->empty % POLLS_PER_PROGRESS == 0)
            moved |= comm_progress(c);
    }
    return moved;
}

int comm_watch(coll_comm *c, struct pollfd *fds, int max)
{
    int n = 0;
    if (c->local_ranks > 1
        && (p2p_is_busy(c) || staged_needs(c) != STAGED_NEEDS_MESSAGES))
        return COMM_WATCH_CANNOT;
    for (int i = 0; i < c->nopen; i++) {
        const struct transport_ops *ops = c->open[i]->ops;
        if (!ops->awaken)
            continue;
        const int fd = n < max ? ops->awaken(c->open[i]) : -1;
        if (fd < 0)
            return n < max ? COMM_WATCH_READY : COMM_WATCH_CANNOT;
        fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    return n ? n : COMM_WATCH_CANNOT;
}

/* Sleeps until a message comes, or a while; false: it cannot. */
static bool sleep_on_messages(const struct wait *w)
{
    struct pollfd fds[MAX_SLEEP_FDS];
    int n = 0;
    for (coll_comm *c = *w->comms; c; c = c->also) {
        const int more = comm_watch(c, fds + n, MAX_SLEEP_FDS - n);
        if (more < 0)
            return more == COMM_WATCH_READY;
        n += more;
    }
    poll(fds, (nfds_t)n, MESSAGE_SLEEP_MS);
    return true;
}

static bool needs_messages(const coll_comm *c)
{
    return c->remote
           && (p2p_is_busy(c) || staged_needs(c) != STAGED_NEEDS_NODE);
}

/* Others may send what this rank will receive later, and wait for it to listen
 * before they come to where it waits for them. No memory is no harm yet. */
static void listen_to_all(coll_comm *first)
{
    for (coll_comm *c = first; c; c = c->also)
        if (p2p_open(c) == COLL_OK)
            c->p2p->turn = 0; /* at the next look */
}

/* Sleeps once. A peer of this host wakes it; what else is awaited, and whether
 * the job still lives, it looks up in time. */
static void doze(struct wait *w)
{
    static const struct timespec nap = {.tv_nsec = remote_sleep_ns};
    coll_comm *c = *w->comms;
    w->empty = 0; /* look at the messages too */
    listen_to_all(c);
    if (c->meets)
        bootstrap_allgather_nap(c->bootstrap, meeting_sleep_seconds);
    else if (sleep_on_messages(w))
        look(w);
    else if (c->node && !c->also)
        node_sleep(c->node, needs_messages(c) ? remote_sleep_ns : 0, look, w);
    else if (!look(w))
        nanosleep(&nap, NULL);
}

/* The deadline is that of one operation: it starts anew when one finishes. */
static bool is_late(coll_comm *c, double now, double seconds)
{
    struct patience *p = &c->patience;
    if (p->deadline == 0 || p->finished != comm_finished(c))
        p->deadline = now + seconds;
    p->finished = comm_finished(c);
    return seconds > 0 && now > p->deadline;
}

static coll_status look_at_clock(struct wait *w, double seconds,
                                 const char *what)
{
    const double now = comm_clock();
    for (coll_comm *c = *w->comms; c; c = c->also) {
        calls_doubt(c, now);
        if (is_late(c, now, seconds))
            return too_late(c, what, seconds);
    }
    if (w->awake_until == 0)
        w->awake_until =
            now + ((*w->comms)->spins ? awake_seconds : awake_crowded_seconds);
    w->sleepy = now > w->awake_until;
    if (w->sleepy)
        doze(w);
    return w->status;
}

coll_status comm_asked(coll_comm *c, const char *what)
{
    struct asked *a = &c->asked;
    const double now = comm_clock(), most = c->op_seconds / 10;
    const double pause = now - a->last;
    if (a->last == 0 || a->finished != comm_finished(c))
        *a = (struct asked){.finished = comm_finished(c)};
    else
        a->seconds += pause < most ? pause : most;
    a->last = now;
    calls_doubt(c, now);
    return c->op_seconds > 0 && a->seconds > c->op_seconds
               ? too_late(c, what, c->op_seconds)
               : COLL_IN_PROGRESS;
}

coll_status comm_wait(coll_comm *c, coll_status (*step)(void *context),
                      void *context, double seconds, const char *what)
{
    return comm_wait_several(&c, step, context, seconds, what);
}

coll_status comm_wait_several(coll_comm *const *comms,
                              coll_status (*step)(void *context), void *context,
                              double seconds, const char *what)
{
    const unsigned spins = (*comms)->spins;
    struct wait w = {.comms = comms, .step = step, .context = context};
    for (coll_comm *c = *comms; c; c = c->also)
        c->patience.deadline = 0;
    for (;;) {
        if (look(&w)) {
            if (w.status != COLL_IN_PROGRESS)
                return w.status;
            w.empty = 0;
            w.awake_until = 0;
            w.sleepy = false;
            continue;
        }
        if (++w.empty <= spins && !w.sleepy) {
            pause_briefly();
            continue;
        }
        if (w.sleepy || w.yields++ % YIELDS_PER_CLOCK == 0) {
            const coll_status status = look_at_clock(&w, seconds, what);
            if (status != COLL_IN_PROGRESS)
                return status;
        }
        if (!w.sleepy)
            sched_yield();
    }
}
