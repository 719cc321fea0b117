/* SPDX-License-Identifier: MIT */
/* Ranks that make different calls. Whatever differs, and however the data move,
 * every rank is told within two seconds, in one sentence that names two ranks
 * and both calls; nobody waits for ever, and nothing that is wrong passes.
 *
 * Each rank makes the same few calls, but one rank a different one, or one
 * less. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "by_hosts.h"
#include "drawn.h"
#include "mismatched.h"

/* What every rank does, and what one of them does in the place of it. */
static struct mismatch {
    struct drawn before, call, other, after;
    int odd;       /* the rank that differs */
    int has_after; /* a call follows, in which all would meet */
    enum how { INSTEAD, LEFT_OUT, SWAPPED, HOWS } how;
    int by_request;
} m;

static struct drawn draw_either(int n)
{
    return drawn_below(4) ? drawn_uneven(n) : drawn_even(n);
}

/* draw_call: of that which differs. */
static void draw_with(struct drawn (*draw_call)(int n), int n)
{
    m.before = drawn_even(n);
    m.after = drawn_even(n);
    m.odd = (int)drawn_below((unsigned)n);
    m.has_after = (int)drawn_below(2);
    m.how = (enum how)drawn_below(HOWS);
    m.by_request = drawn_below(4) == 0;
    do {
        m.call = draw_call(n);
        m.other =
            m.how == SWAPPED ? draw_call(n) : drawn_change(m.call, m.odd, n);
    } while (drawn_same(&m.call, &m.other, m.odd, n));
}

static void draw_evens(int n)
{
    draw_with(drawn_even, n);
}

static void draw_unevens(int n)
{
    draw_with(draw_either, n);
}

static coll_status make(const struct drawn *c, coll_comm *comm, int by_request)
{
    coll_request *request = NULL;
    const coll_status status =
        drawn_make(c, comm, by_request ? &request : NULL);
    return by_request && status == COLL_OK ? coll_wait(&request) : status;
}

static coll_status run(int rank, coll_comm *comm)
{
    const int odd = rank == m.odd;
    coll_status status = make(&m.before, comm, 0);
    const struct drawn *first = &m.call, *second = NULL;
    if (odd && m.how == INSTEAD)
        first = &m.other;
    if (m.how == SWAPPED) {
        first = odd ? &m.other : &m.call;
        second = odd ? &m.call : &m.other;
    }
    if (status == COLL_OK && !(odd && m.how == LEFT_OUT))
        status = make(first, comm, m.by_request);
    if (status == COLL_OK && second)
        status = make(second, comm, m.by_request);
    if (status == COLL_OK && m.has_after)
        status = make(&m.after, comm, 0);
    return status;
}

static void print(int n)
{
    static const char *const hows[] = {"instead", "left out", "swapped"};
    fprintf(stderr, "%s; %s%s; rank %d %s: %s; then %s",
            drawn_print(&m.before, n), drawn_print(&m.call, n),
            m.by_request ? " (request)" : "", m.odd, hows[m.how],
            drawn_print(&m.other, n),
            m.has_after ? drawn_print(&m.after, n) : "destroy");
}

static const struct mismatches evens = {draw_evens, run, print, NULL, NULL};
static const struct mismatches unevens = {draw_unevens, run, print, NULL, NULL};

Test(mismatch, on_one_host_is_told_to_every_rank)
{
    mismatched(&evens, quick_shm, 1, 50, 3);
}

Test(mismatch, by_plans_is_told_to_every_rank)
{
    mismatched(&evens, quick_plans(), 4, 50, 3);
}

Test(mismatch, over_ucx_is_told_to_every_rank)
{
    mismatched(&evens, quick_ucx, 7, 30, 2);
}

/* Calls in shared memory on each host, with a plan between hosts. */
Test(mismatch, by_hosts_is_told_to_every_rank)
{
    static const char *const by_hosts[] = {"COLL_ALGO=" BY_HOSTS PARTS_BY_HOSTS,
                                           QUICK, NULL};
    hosts = "0011";
    mismatched_on(&evens, by_hosts, 4, 28, 40, 1);
}

Test(mismatch, of_lengths_on_one_host_is_told_to_every_rank)
{
    mismatched(&unevens, quick_shm, 10, 50, 2);
}

Test(mismatch, of_lengths_by_plans_is_told_to_every_rank)
{
    mismatched(&unevens, quick_plans(), 13, 40, 1);
}

Test(mismatch, of_lengths_over_ucx_is_told_to_every_rank)
{
    mismatched(&unevens, quick_ucx, 16, 40, 1);
}

/* Rank 0 does one of many broadcasts otherwise: and runs ahead, or, where there
 * is nothing to send, all go on until they meet. */
enum { LONG_AGO = 5, CALLS = 200 };

static void draw_long_ago(int n)
{
    m.call = (struct drawn){.kind = BROADCAST, .dtype = COLL_I32};
    (void)n;
    m.has_after = (int)drawn_below(2);
    m.call.count = m.has_after ? 2 : 0;
    m.other = m.call;
    m.other.dtype = COLL_F32;
}

static coll_status run_long_ago(int rank, coll_comm *comm)
{
    coll_status status = COLL_OK;
    for (int i = 0; i < CALLS && status == COLL_OK; i++)
        status =
            drawn_make(!rank && i == LONG_AGO ? &m.other : &m.call, comm, NULL);
    return status == COLL_OK ? coll_barrier(comm, NULL) : status;
}

static void print_long_ago(int n)
{
    fprintf(stderr, "call %d of %d: %s; rank 0 instead: %s", LONG_AGO, CALLS,
            drawn_print(&m.call, n), drawn_print(&m.other, n));
}

static int is_told_of_the_first(int rank, coll_status status, const char *why)
{
    char it[40], other[40];
    (void)rank;
    snprintf(it, sizeof(it), " called broadcast of %zu i32,", m.call.count);
    snprintf(other, sizeof(other), " called broadcast of %zu f32,",
             m.call.count);
    return status == COLL_ERR_MISMATCH && strstr(why, it) && strstr(why, other)
           && !strstr(why, "at the latest");
}

Test(mismatch, is_traced_back_to_the_first_call_that_differs)
{
    static const struct mismatches long_ago = {draw_long_ago, run_long_ago,
                                               print_long_ago,
                                               is_told_of_the_first, NULL};
    mismatched(&long_ago, quick_ucx, 25, 10, 2);
}

/* A call in which every rank hears of all others. */
static struct drawn draw_meeting(int n)
{
    struct drawn c;
    do
        c = draw_either(n);
    while (c.kind == REDUCE || c.kind == BROADCAST || c.kind == GATHER
           || c.kind == SCATTER);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            c.counts[i][k] += 1;
    c.count += 1;
    return c;
}

static void draw_meetings(int n)
{
    m.odd = (int)drawn_below((unsigned)n);
    do {
        m.call = draw_meeting(n);
        m.other = draw_meeting(n);
    } while (drawn_same(&m.call, &m.other, m.odd, n));
}

/* Nobody calls the library while the request is under way. */
static coll_status compute(int rank, coll_comm *comm)
{
    static const struct timespec pause = {0, 1000000};
    coll_request *request = NULL;
    const double until = now() + 3;
    const coll_status status =
        drawn_make(rank == m.odd ? &m.other : &m.call, comm, &request);
    if (status < 0)
        return status;
    while (coll_comm_get_async_error(comm) == COLL_OK && now() < until)
        nanosleep(&pause, NULL);
    return coll_wait(&request);
}

static void print_meetings(int n)
{
    fprintf(stderr, "%s; rank %d instead: %s", drawn_print(&m.call, n), m.odd,
            drawn_print(&m.other, n));
}

Test(mismatch, is_told_where_the_thread_makes_progress)
{
    static const struct mismatches meetings = {draw_meetings, compute,
                                               print_meetings, NULL, NULL};
    static const char *const shm[] = {"COLL_TRANSPORT=shm",
                                      "COLL_PROGRESS=thread", QUICK, NULL};
    static const char *const ucx[] = {"COLL_TRANSPORT=ucx",
                                      "COLL_PROGRESS=thread", QUICK, NULL};
    mismatched(&meetings, shm, 19, 20, 1);
    mismatched(&meetings, ucx, 22, 20, 1);
}
