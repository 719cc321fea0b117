/* SPDX-License-Identifier: MIT */
#include "comm/crowd.h"

#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "comm/here.h"

enum {
    SHORT = 64,
    LONG = 65536,
    PARTNERS = 4, /* at most */
    TURNS = 12,   /* rounds that are timed together */
    TRIES = 3,
};
/* Less than this is noise where bytes are moved by one pair and by all. */
static const double shares = 1.3;

/* The ranks that take part, in a circle. */
struct circle {
    coll_comm *comm;
    int n, me; /* me: -1: this rank only looks on */
    int *rank;
    char *buf;
};

/* Every member of the first n sends to the `partners` next ones at once. */
static coll_status plan_round(const struct circle *c, int n, int partners,
                              struct plan *p)
{
    plan_init(p, 1, partners);
    for (int i = 1; i <= partners; i++)
        plan_recv(p, c->rank[(c->me + n - i) % n], TMP(0, i - 1), PLAN_START);
    for (int i = 1; i <= partners; i++)
        plan_send(p, c->rank[(c->me + i) % n], IN(0), PLAN_START);
    return p->status;
}

static coll_status progress(void *exec)
{
    return exec_progress(exec);
}

static coll_status take_turns(const struct circle *c, struct exec *exec,
                              size_t bytes, int turns)
{
    coll_status status = COLL_OK;
    for (int i = 0; i < turns && status == COLL_OK; i++) {
        exec_start(exec, &(struct exec_call){.in = c->buf,
                                             .tmp = c->buf + LONG,
                                             .count = bytes,
                                             .elem_bytes = 1});
        status = comm_wait(c->comm, progress, exec, c->comm->join_seconds,
                           "a measurement at start");
    }
    if (status < 0)
        comm_cancel(c->comm);
    return status;
}

/* Seconds of a round, of the slowest member; the first round does not count. */
static coll_status time_round(const struct circle *c, int n, int partners,
                              size_t bytes, double *seconds)
{
    coll_comm *comm = c->comm;
    struct plan plan;
    struct exec exec;
    double mine = 0, *all = calloc((size_t)comm->nranks, sizeof(double));
    coll_status status = all ? COLL_OK : COLL_ERR_MEMORY;
    if (c->me >= 0 && c->me < n && status == COLL_OK) {
        status = plan_round(c, n, partners, &plan);
        if (status == COLL_OK)
            status = exec_init(&exec, &plan, comm->to);
        if (status == COLL_OK) {
            status = take_turns(c, &exec, bytes, 1);
            const double start = comm_clock();
            if (status == COLL_OK)
                status = take_turns(c, &exec, bytes, TURNS);
            mine = (comm_clock() - start) / TURNS;
            exec_free(&exec);
        }
        plan_free(&plan);
    }
    if (status == COLL_OK)
        status = bootstrap_allgather(comm->bootstrap, &mine, all, sizeof(mine));
    *seconds = 0;
    for (int r = 0; r < comm->nranks && status == COLL_OK; r++)
        *seconds = fmax(*seconds, all[r]);
    free(all);
    return status;
}

/* The least of a few, as other programs only add. */
static coll_status least_round(const struct circle *c, int n, int partners,
                               size_t bytes, double *seconds)
{
    coll_status status = COLL_OK;
    *seconds = INFINITY;
    for (int i = 0; i < TRIES && status == COLL_OK; i++) {
        double once = 0;
        status = time_round(c, n, partners, bytes, &once);
        *seconds = fmin(*seconds, once);
        if (once > 1e-3) /* a slow network, which says more than chance does */
            break;
    }
    return status;
}

/* Work at one end, and what else passes, of messages on the level of a circle
 * whose rounds took t1 and tk. */
static void split(double t1, double tk, double messages, int partners,
                  int nprocessors, struct sim_link *link)
{
    const double work =
        fmax((tk - t1) * nprocessors / (messages * (partners - 1)), 0);
    const double alone = link->alpha + 2 * link->overhead;
    link->overhead = work / 2;
    link->alpha = fmax(t1 - messages * work / nprocessors, 0);
    if (alone > t1) /* a longer way than the circle's */
        link->alpha = fmax(alone - work, 0);
}

/* Rounds of all hosts. Members of a machine of several hosts move bytes through
 * the same processors and memory. */
static coll_status measure(const struct circle *c, struct probe_groups *g,
                           struct crowd *crowd)
{
    const int n = c->n, partners = n - 1 < PARTNERS ? n - 1 : PARTNERS;
    double one = 0, few = 0, pair = 0, all = 0;
    coll_status status = least_round(c, n, 1, SHORT, &one);
    if (status == COLL_OK)
        status = least_round(c, n, partners, SHORT, &few);
    if (status == COLL_OK)
        status = least_round(c, 2, 1, LONG, &pair);
    if (status == COLL_OK)
        status = least_round(c, n, 1, LONG, &all);
    if (status < 0)
        return status;
    const double messages = (double)n / crowd->nmachines;
    if (partners > 1) {
        split(one, few, messages, partners, crowd->nprocessors, &g->inside);
        split(one, few, messages, partners, crowd->nprocessors, &g->across);
    }
    const double alone = (pair - one) / LONG, together = (all - one) / LONG;
    if (g->ngroups == 1 && messages > 2 && alone > 0
        && together > shares * alone) {
        g->inside.beta = alone;
        crowd->machine = together / messages;
    }
    if (c->comm->rank == 0)
        log_line(COLL_LOG_INFO, "probe",
                 "crowded: %d machines with %d processors; a round %.1f us, of "
                 "%d messages each %.1f us; 64 KiB of a pair %.1f us, of all "
                 "%.1f us: work %.2f us at each end, alpha %.2f us, a machine "
                 "moves %.3g GB/s",
                 crowd->nmachines, crowd->nprocessors, 1e6 * one, partners,
                 1e6 * few, 1e6 * pair, 1e6 * all, 1e6 * g->inside.overhead,
                 1e6 * g->inside.alpha,
                 crowd->machine > 0 ? 1e-9 / crowd->machine : 0);
    return COLL_OK;
}

static coll_status find_machines(const coll_comm *c, struct crowd *crowd)
{
    const size_t n = (size_t)c->nranks;
    uint64_t *machines = malloc(n * sizeof(uint64_t));
    crowd->machine_of = malloc(n * sizeof(int));
    if (!machines || !crowd->machine_of) {
        free(machines);
        return COLL_ERR_MEMORY;
    }
    for (size_t r = 0; r < n; r++)
        machines[r] = c->ranks[r].machine;
    crowd->nmachines =
        layout_number_hosts(c->nranks, machines, crowd->machine_of);
    crowd->nprocessors = here_fewest_processors(c);
    free(machines);
    return COLL_OK;
}

coll_status crowd_measure(coll_comm *c, const int *host, int nhosts,
                          struct probe_groups *g, struct crowd *crowd)
{
    *crowd = (struct crowd){0};
    if (!c->crowded)
        return COLL_OK;
    struct circle circle = {
        .comm = c,
        .n = nhosts,
        .me = -1,
        .rank = malloc((size_t)nhosts * sizeof(int)),
        .buf = calloc(1 + PARTNERS, LONG),
    };
    coll_status status =
        circle.rank && circle.buf ? find_machines(c, crowd) : COLL_ERR_MEMORY;
    if (status == COLL_OK) {
        for (int r = c->nranks - 1; r >= 0; r--)
            circle.rank[host[r]] = r;
        if (circle.rank[host[c->rank]] == c->rank)
            circle.me = host[c->rank];
        status = measure(&circle, g, crowd);
    }
    if (status == COLL_ERR_MEMORY)
        fail(status, "probe", "no memory for %d hosts", nhosts);
    free(circle.rank);
    free(circle.buf);
    if (status < 0)
        crowd_free(crowd);
    return status;
}

void crowd_free(struct crowd *crowd)
{
    free(crowd->machine_of);
    *crowd = (struct crowd){0};
}
