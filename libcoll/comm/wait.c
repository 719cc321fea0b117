/* SPDX-License-Identifier: MIT */
/* Waiting: poll, then give the processor up at each empty poll.
 *
 * With a processor for each rank a short spin catches what comes within a
 * microsecond or so; with more ranks than processors a spin only keeps the
 * awaited rank from running, so the first empty poll yields.
 */
#include <sched.h>
#include <time.h>

#include "base/log.h"
#include "comm/comm.h"

enum { YIELDS_PER_CLOCK = 64 };

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
    char awaited[128];
    comm_awaited(c, awaited, sizeof(awaited));
    fail(COLL_ERR_TIMEOUT, "comm",
         "rank %d of %d: %s did not finish within %g s%s%s; no rank is known "
         "to have failed",
         c->rank, c->nranks, what, seconds,
         *awaited ? ": messages are awaited of rank" : "", awaited);
    return comm_fail(c, COLL_ERR_TIMEOUT, fail_sentence());
}

coll_status comm_wait(coll_comm *c, coll_status (*step)(void *context),
                      void *context, double seconds, const char *what)
{
    double deadline = 0; /* from the first look at the clock */
    unsigned empty = 0, yields = 0;
    uint32_t finished = c->finished;
    for (;;) {
        coll_status status = step(context);
        if (status != COLL_IN_PROGRESS)
            return status;
        if (comm_progress(c)) {
            empty = 0;
            continue;
        }
        if ((status = comm_check(c)) != COLL_OK)
            return status;
        if (++empty <= c->spins) {
            pause_briefly();
            continue;
        }
        if (yields++ % YIELDS_PER_CLOCK == 0 && seconds > 0) {
            const double now = comm_clock();
            if (deadline == 0 || finished != c->finished)
                deadline = now + seconds;
            finished = c->finished;
            if (now > deadline)
                return too_late(c, what, seconds);
        }
        sched_yield();
    }
}
