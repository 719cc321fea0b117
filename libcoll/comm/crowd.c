/* SPDX-License-Identifier: MIT */
#include "comm/crowd.h"

#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "comm/here.h"

enum {
    SHORT = 64,
    LONG = 65536,
    TURNS = 8, /* rounds that are timed together, at most */
    TRIES = 3,
};
/* Less than this is noise where bytes are moved by one pair and by all. */
static const double shares = 1.3;
/* Of all rounds of a kind; where one takes that long, a few are enough. */
static const double budget_seconds = 2e-3, long_seconds = 1e-3;
/* Of a message alone, where turns are much of a round. On longer ways ranks and
 * who passes messages on have time for them, and noise is more than they are.
 */
static const double near_seconds = 50e-6;
/* Seconds per byte that no machine needs to move one. */
static const double slowest_machine = 2e-9;

/* The ranks that take part, in a circle. */
struct circle {
    coll_comm *comm;
    int n, me; /* me: -1: this rank only looks on */
    int *rank;
    char *buf;
};

/* Every member of the first n sends to the next one. */
static coll_status plan_round(const struct circle *c, int n, struct plan *p)
{
    plan_init(p, 1, 1);
    plan_recv(p, c->rank[(c->me + n - 1) % n], TMP(0, 0), PLAN_START);
    plan_send(p, c->rank[(c->me + 1) % n], IN(0), PLAN_START);
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

/* Rounds that are alike: of the first n members, 0: none. */
struct kind {
    int n;
    size_t bytes;
    double expected; /* seconds of one */
};

static int tries_of(const struct kind *k)
{
    return k->expected > long_seconds ? 1 : TRIES;
}

static int turns_of(const struct kind *k)
{
    const double turns = budget_seconds / (tries_of(k) * k->expected);
    return turns < 2 ? 2 : turns > TURNS ? TURNS : (int)turns;
}

/* Seconds of a round, try by try; the first round does not count. */
static coll_status time_rounds(const struct circle *c, const struct kind *k,
                               double *took)
{
    struct plan plan;
    struct exec exec;
    coll_status status = plan_round(c, k->n, &plan);
    if (status == COLL_OK)
        status = exec_init(&exec, &plan, c->comm->to);
    if (status == COLL_OK) {
        status = take_turns(c, &exec, k->bytes, 1);
        for (int i = 0; i < tries_of(k) && status == COLL_OK; i++) {
            const double start = comm_clock();
            status = take_turns(c, &exec, k->bytes, turns_of(k));
            took[i] = (comm_clock() - start) / turns_of(k);
        }
        exec_free(&exec);
    }
    plan_free(&plan);
    return status;
}

/* In this order: those of a pair come last, when the others have ended. */
enum { ONE, ALL, PAIR, KINDS };

/* Of each kind the slowest member's time, and of its tries the least, as other
 * programs only add. All rounds, then all tell all. */
static coll_status time_kinds(const struct circle *c, const struct kind *kinds,
                              struct probe_cost *cost, double *seconds)
{
    coll_comm *comm = c->comm;
    double mine[KINDS][TRIES] = {{0}};
    double(*all)[KINDS][TRIES] = calloc((size_t)comm->nranks, sizeof(*all));
    coll_status status = all ? COLL_OK : COLL_ERR_MEMORY;
    phases_begin(cost, PHASE_CROWD);
    for (int k = 0; k < KINDS && status == COLL_OK; k++)
        if (c->me >= 0 && c->me < kinds[k].n) {
            const int rounds = 1 + tries_of(&kinds[k]) * turns_of(&kinds[k]);
            phases_sent(cost, (unsigned)rounds, kinds[k].bytes);
            phases_waited(cost, (unsigned)rounds);
            status = time_rounds(c, &kinds[k], mine[k]);
        }
    cost->gathers++;
    phases_begin(cost, PHASE_GATHER);
    phases_waited(cost, 1);
    if (status == COLL_OK)
        status = bootstrap_allgather(comm->bootstrap, mine, all, sizeof(mine));
    phases_begin(cost, PHASES);
    for (int k = 0; k < KINDS && status == COLL_OK; k++) {
        seconds[k] = INFINITY;
        for (int i = 0; i < tries_of(&kinds[k]); i++) {
            double slowest = 0;
            for (int r = 0; r < comm->nranks; r++)
                slowest = fmax(slowest, all[r][k][i]);
            seconds[k] = fmin(seconds[k], slowest);
        }
    }
    free(all);
    return status;
}

static double alone(const struct sim_link *link)
{
    return link->alpha + 2 * link->overhead;
}

static double without(double alpha, double work)
{
    return fmax(alpha - work, 0);
}

/* With `share` ranks for each processor a round takes share w + alpha where one
 * message alone takes w + alpha; of w all but 2 o is the turn. Pairs are timed
 * several at once, so the one that had a processor to itself tells what alone
 * is; the middle one may have waited for its turn. */
static void find_turn(double round, double share, struct probe_groups *g,
                      struct crowd *crowd)
{
    struct sim_link *way = g->ngroups > 1 ? &g->across : &g->inside;
    double alpha = way->alpha;
    if (share > 1 && g->soonest > 0)
        alpha = without(share * g->soonest, round) / (share - 1);
    alpha = fmin(alpha, way->alpha);
    crowd->turn = without((round - alpha) / share, 2 * way->overhead);
    const double work = way->alpha - alpha; /* taken for a way before */
    g->inside.alpha = without(g->inside.alpha, work);
    g->across.alpha = without(g->across.alpha, work);
}

/* What rounds can tell something: turns, where a way is not so long that they
 * do not count and a circle has more than a pair; and whether a machine keeps
 * up with its hosts' ports, if those are not too slow to ask. */
static void choose_kinds(const struct circle *c, const struct probe_groups *g,
                         double messages, struct kind *kinds)
{
    const int n = c->n;
    const struct sim_link *way = g->ngroups > 1 ? &g->across : &g->inside;
    const double once = alone(way);
    const double full = once + LONG * g->inside.beta;
    const bool turns = n > 2 && once < long_seconds;
    const bool machine = turns && g->ngroups == 1 && messages > 2
                         && slowest_machine * messages > shares * way->beta;
    kinds[ONE] = (struct kind){turns ? n : 0, SHORT, once};
    kinds[ALL] = (struct kind){machine ? n : 0, LONG, full};
    kinds[PAIR] = (struct kind){machine ? 2 : 0, LONG, full};
}

/* Rounds of all hosts. Members of a machine of several hosts move bytes through
 * the same processors and memory. */
static coll_status measure(const struct circle *c, struct probe_groups *g,
                           struct crowd *crowd)
{
    const double messages = (double)c->n / crowd->nmachines;
    struct kind kinds[KINDS];
    double took[KINDS];
    choose_kinds(c, g, messages, kinds);
    if (!kinds[ONE].n)
        return COLL_OK;
    const coll_status status = time_kinds(c, kinds, &g->cost, took);
    if (status < 0)
        return status;
    const double one = took[ONE];
    if (g->soonest < near_seconds)
        find_turn(one, fmax(messages / crowd->nprocessors, 1), g, crowd);
    const double pair = (took[PAIR] - one) / LONG;
    const double together = (took[ALL] - one) / LONG;
    if (kinds[ALL].n && pair > 0 && together > shares * pair) {
        g->inside.beta = pair;
        crowd->machine = together / messages;
    }
    if (c->comm->rank == 0)
        log_line(COLL_LOG_INFO, "probe",
                 "crowded: %d machines with %d processors; a round %.1f us, 64 "
                 "KiB of a pair %.1f us, of all %.1f us: work %.2f us at each "
                 "end, alpha %.2f us, turn %.2f us, a machine moves %.3g GB/s",
                 crowd->nmachines, crowd->nprocessors, 1e6 * one,
                 1e6 * took[PAIR], 1e6 * took[ALL], 1e6 * g->inside.overhead,
                 1e6 * g->inside.alpha, 1e6 * crowd->turn,
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
        .buf = calloc(2, LONG),
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
