/* SPDX-License-Identifier: MIT */
/* Servers and workers of processes, without a net: what they compute, in which
 * order, and what they wait for. Threads: server_threads.c; training:
 * training_servers.py. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "dist/servers.h"
#include "dist/strategy.h"
#include "random.h"
#include "ranks.h"
#include "server_jobs.h"

static const char *const over_shm[] = {"COLL_TRANSPORT=shm", NULL};
static const char *const over_ucx[] = {"COLL_TRANSPORT=ucx", NULL};

static struct server_job job; /* of the test, before it forks */

static struct server_job elastic(long steps)
{
    return (struct server_job){
        .way = &worker_elastic,
        .order = SERVER_IN_TURN,
        .rule = rule_elastic,
        .nservers = 1,
        .count = 100,
        .tau = 1,
        .steps = steps,
        .lr = 0.1,
        .alpha = 0.2,
    };
}

/* The first number that is wrong, or n. */
static size_t differs(const float *found, const double *right, size_t n)
{
    /* A step rounds a few numbers below 2, and earlier errors shrink. */
    const double tolerance = 4 * 2 * 6e-8 * (double)job.steps;
    size_t i = 0;
    while (i < n && fabs((double)found[i] - right[i]) < tolerance)
        i++;
    return i;
}

static int is_near(const float *found, const double *right, size_t n)
{
    const size_t i = differs(found, right, n);
    EXPECT(i == n, "number %zu: found %.9g, right is %.9g", i, (double)found[i],
           right[i]);
    return 0;
}

static int as_oracle(coll_comm *comm, int rank, int n)
{
    const int nworkers = n - job.nservers;
    double *centre = calloc(job.count, sizeof(*centre)),
           *weights = calloc((size_t)nworkers * job.count, sizeof(*weights));
    struct server_done done;
    if (job_run(comm, &job, &done))
        return 1;
    job_oracle(&job, nworkers, NULL, centre, weights);
    const int wrong =
        rank < nworkers ? is_near(done.weights,
                                  weights + (size_t)rank * job.count, job.count)
                        : is_near(done.weights + done.first,
                                  centre + done.first, done.count);
    free(centre);
    free(weights);
    job_free(&done);
    return wrong;
}

Test(servers, round_robin_does_what_the_equations_say)
{
    job = elastic(1000);
    cr_assert_eq(run_ranks(4, over_shm, as_oracle), 0, "(1), (2')");
    job.momentum = 0.9;
    job.lr = 0.02;
    cr_assert_eq(run_ranks(3, over_shm, as_oracle), 0, "(5), (6)");
    job.tau = 5;
    cr_assert_eq(run_ranks(3, over_ucx, as_oracle), 0, "tau 5");
    job.way = &worker_elastic_strict;
    cr_assert_eq(run_ranks(3, over_shm, as_oracle), 0, "strict");
    job.nservers = 2;
    cr_assert_eq(run_ranks(4, over_shm, as_oracle), 0, "2 servers");
}

Test(servers, one_worker_does_what_the_equations_say)
{
    static const enum server_order orders[] = {SERVER_FIRST_COME,
                                               SERVER_AT_ONCE};
    for (int i = 0; i < 2; i++) {
        job = elastic(1000);
        job.order = orders[i];
        job.rule = i ? rule_elastic_at_once : rule_elastic;
        cr_assert_eq(run_ranks(2, over_shm, as_oracle), 0, "elastic");
        job.way = &worker_gradient;
        job.rule = i ? rule_add_at_once : rule_add;
        cr_assert_eq(run_ranks(2, over_shm, as_oracle), 0, "SGD");
        job.tau = 4;
        cr_assert_eq(run_ranks(2, over_shm, as_oracle), 0, "SGD, tau 4");
    }
    job.tau = 1;
    job.order = SERVER_FIRST_COME;
    job.rule = rule_momentum;
    job.momentum = 0.9;
    job.lr = 0.02;
    cr_assert_eq(run_ranks(2, over_shm, as_oracle), 0, "MSGD");
    cr_assert_eq(run_ranks(2, over_ucx, as_oracle), 0, "over messages");
    job.tau = 4;
    cr_assert_eq(run_ranks(2, over_shm, as_oracle), 0, "MSGD, tau 4");
    job = elastic(1000);
    job.order = SERVER_FIRST_COME;
    job.rule = rule_add;
    job.way = &worker_pull_push;
    job.tau = 5;
    cr_assert_eq(run_ranks(2, over_shm, as_oracle), 0, "parameter server");
    job.rho = 0.3;
    cr_assert_eq(run_ranks(2, over_shm, as_oracle), 0, "with rho");
}

/* --- First come ----------------------------------------------------------- */

/* The order in which 3 workers were served, but for the last time of each: a
 * reply names the worker's next step, and what is served first gets the next
 * one that there is. The last three come behind, in any order. */
static int find_order(coll_comm *comm, int rank, const struct server_done *done,
                      struct service *order)
{
    const size_t n = (size_t)job.steps;
    long *place = calloc(2 * n, sizeof(*place)), *whose = place + n, last = 3;
    for (long k = 0; rank < 3 && k < done->n; k++) {
        place[done->numbers[k]] = k + 1 < done->n ? done->numbers[k + 1] : 0;
        whose[done->numbers[k]] = rank;
    }
    const coll_status status =
        coll_allreduce(place, place, 2 * n, COLL_I64, COLL_SUM, comm, NULL);
    for (long k = 0; !status && k < job.steps; k++)
        order[(place[k] ? place[k] : job.steps + --last) - 3] =
            (struct service){(int)whose[k], k};
    free(place);
    return status || last != 0;
}

static int replays(coll_comm *comm, int rank, int n)
{
    static const int orders[6][3] = {
        {0, 1, 2},
        {0, 2, 1},
        {1, 0, 2},
        {1, 2, 0},
        {2, 0, 1},
        {2, 1, 0}
    };
    const size_t count = job.count, steps = (size_t)job.steps;
    double *right =
        calloc((size_t)n * count, sizeof(*right)); /* of all ranks */
    struct service *order = calloc(steps, sizeof(*order)), last[3];
    struct server_done done;
    size_t found = 0;
    if (job_run(comm, &job, &done) || find_order(comm, rank, &done, order))
        return 1;
    memcpy(last, order + steps - 3, sizeof(last));
    for (int i = 0; i < 6 && found < count; i++) {
        for (size_t k = 0; k < 3; k++)
            order[steps - 3 + k] = last[orders[i][k]];
        job_oracle(&job, n - 1, order, right + 3 * count, right);
        found = differs(done.weights, right + (size_t)rank * count, count);
    }
    EXPECT(found == count, "number %zu: found %.9g", found,
           (double)done.weights[found]);
    free(order);
    free(right);
    job_free(&done);
    return 0;
}

static const struct strategy_ops *row(const char *name)
{
    char error[256];
    const struct strategy_ops *ops = strategy_find(name, error, sizeof(error));
    cr_assert(ops, "%s", error);
    return ops;
}

static void run_row(const char *name, double lr, double momentum)
{
    const struct server_way *way = row(name)->way;
    job = elastic(300);
    job.way = way->worker;
    job.order = way->order;
    job.rule = way->rule;
    job.lr = lr;
    job.momentum = momentum;
    job.step_us = 100;
    job.slow_worker = 1;
    job.slow_us = 250;
    cr_assert_eq(run_ranks(4, over_shm, replays), 0, "%s", name);
}

Test(servers, first_come_does_what_the_equations_say_in_the_order_it_took)
{
    run_row("async-easgd", 0.1, 0);
    run_row("async-measgd", 0.02, 0.9);
    run_row("async-sgd", 0.1, 0);
    run_row("async-msgd", 0.02, 0.5);
}

/* --- Stability ------------------------------------------------------------ */

/* Whether all weights stay small, or all grow without bound: by the radius. */
static int stays_or_not(coll_comm *comm, int rank, int n)
{
    const bool stays = job_radius(&job, n - 1) < 1;
    struct server_done done;
    if (job_run(comm, &job, &done))
        return 1;
    for (size_t i = 0; i < job.count; i++) {
        const double x = fabs((double)done.weights[i]);
        EXPECT(stays ? x < 1e3 : !(x < 1e6),
               "rank %d of %d: %g; lr %g, alpha %g, momentum %g, rho %g, tau "
               "%ld: radius %g",
               rank, n, x, job.lr, job.alpha, job.momentum, job.rho, job.tau,
               job_radius(&job, n - 1));
    }
    job_free(&done);
    return 0;
}

static struct server_job random_job(const struct strategy_ops *ops,
                                    uint64_t seed, int *nworkers)
{
    const struct server_way *way = ops->way;
    const bool has_momentum =
                   ops->descent != DESCENT_PLAIN || way->rule == rule_momentum;
    struct server_job j = elastic(0);
    j.way = way->worker;
    j.order = way->order;
    j.rule = way->rule;
    j.count = 16;
    /* Whom a server takes first would change the round. */
    *nworkers =
        j.order == SERVER_IN_TURN ? 1 + (int)random_below(seed, 0, 4) : 1;
    j.momentum = has_momentum ? 0.9 * (double)random_unit(seed, 1) : 0;
    j.tau = 1 + (long)random_below(seed, 2, 3);
    j.lr = 8 * (1 + j.momentum) * (double)random_unit(seed, 3);
    j.alpha = 1.5 * (double)random_unit(seed, 4);
    j.rho = way->worker == &worker_pull_push ? (double)random_unit(seed, 5) : 0;
    j.steps = 500L * *nworkers * j.tau;
    return j;
}

/* A sign, a step of the centre's that is forgotten, or a value of after the
 * step in place of one before would move the border. */
Test(servers, each_strategy_converges_where_the_spectral_radius_says)
{
    enum { EACH = 6 };
    for (int i = 0; i < nstrategies; i++) {
        int stable = 0, unstable = 0;
        for (uint64_t seed = 1; strategies[i]->way && seed < 1000
                                && (stable < EACH || unstable < EACH);
             seed++) {
            int nworkers;
            job = random_job(strategies[i], seed, &nworkers);
            const double radius = job_radius(&job, nworkers);
            if (fabs(radius - 1) < 0.05   /* 500 rounds do not tell */
                || fabs(radius - 1) > 0.2 /* faults move the border less */
                || (radius < 1 ? stable : unstable) == EACH)
                continue;
            cr_assert_eq(run_ranks(nworkers + 1, over_shm, stays_or_not), 0,
                         "%s", strategies[i]->name);
            stable += radius < 1;
            unstable += radius > 1;
        }
        cr_assert(!strategies[i]->way || (stable == EACH && unstable == EACH),
                  "%s", strategies[i]->name);
    }
}

/* As the names say: B1 to B7 of You, Buluc and Demmel, and swFLOW's. */
Test(servers, each_name_has_its_order_and_rule)
{
    static const struct {
        const char *name;
        struct server_way way;
        enum descent descent;
    } rows[] = {
        {"easgd-round-robin",
         {SERVER_IN_TURN, rule_elastic, &worker_elastic},
         DESCENT_PLAIN   },
        {"async-sgd",
         {SERVER_FIRST_COME, rule_add, &worker_gradient},
         DESCENT_PLAIN   },
        {"async-msgd",
         {SERVER_FIRST_COME, rule_momentum, &worker_gradient},
         DESCENT_MOMENTUM},
        {"hogwild-sgd",
         {SERVER_AT_ONCE, rule_add_at_once, &worker_gradient},
         DESCENT_PLAIN   },
        {"async-easgd",
         {SERVER_FIRST_COME, rule_elastic, &worker_elastic},
         DESCENT_PLAIN   },
        {"async-measgd",
         {SERVER_FIRST_COME, rule_elastic, &worker_elastic},
         DESCENT_MOMENTUM},
        {"hogwild-easgd",
         {SERVER_AT_ONCE, rule_elastic_at_once, &worker_elastic},
         DESCENT_PLAIN   },
        {"parameter-server",
         {SERVER_FIRST_COME, rule_add, &worker_pull_push},
         DESCENT_ANY     },
    };
    int served = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct strategy_ops *ops = row(rows[i].name);
        const struct server_way *way = ops->way, *right = &rows[i].way;
        cr_assert(way->order == right->order && way->rule == right->rule
                      && way->worker == right->worker
                      && ops->descent == rows[i].descent
                      && ops->any_order == (right->order != SERVER_IN_TURN),
                  "%s", ops->name);
    }
    for (int i = 0; i < nstrategies; i++)
        served += strategies[i]->way != NULL;
    cr_assert_eq(served, (int)(sizeof(rows) / sizeof(rows[0])));
}

/* --- In turn -------------------------------------------------------------- */

/* What is served first gets the next step, so steps tell the order. */
static int in_turn(coll_comm *comm, int rank, int n)
{
    const int nworkers = n - job.nservers,
              others = job.way == &worker_elastic_strict ? 0 : nworkers - 1;
    struct server_done done;
    if (job_run(comm, &job, &done))
        return 1;
    for (long k = 0; rank < nworkers && k < done.n; k++)
        EXPECT(done.numbers[k] == rank + k * nworkers, "step %ld is %ld", k,
               done.numbers[k]);
    if (rank < nworkers)
        EXPECT(done.n == (job.steps + nworkers - 1 - rank) / nworkers,
               "%ld steps", done.n);
    else
        EXPECT(done.exchanges == (uint64_t)job.steps
                   && done.staleness[others] + (uint64_t)nworkers
                          >= (uint64_t)job.steps,
               "%llu with %d others between",
               (unsigned long long)done.staleness[others], others);
    job_free(&done);
    return 0;
}

Test(servers, round_robin_serves_in_rank_order)
{
    job = elastic(301);
    job.step_us = 100;
    job.slow_worker = 1;
    job.slow_us = 2000;
    cr_assert_eq(run_ranks(4, over_shm, in_turn), 0);
    job.way = &worker_elastic_strict;
    cr_assert_eq(run_ranks(4, over_shm, in_turn), 0, "strict");
    job.steps = 2; /* fewer than workers */
    cr_assert_eq(run_ranks(4, over_shm, in_turn), 0, "few");
}

/* Rank 0 gets all shards, and compares them with those of one server. */
static float *first_centre;

static int same_centre(coll_comm *comm, int rank, int n)
{
    struct server_done done;
    float *all = calloc(job.count, sizeof(*all));
    if (job_run(comm, &job, &done))
        return 1;
    if (rank >= n - job.nservers) {
        const uint64_t nworkers = (uint64_t)(n - job.nservers),
                       rounds = (uint64_t)job.steps / nworkers;
        EXPECT(done.bytes == 2 * nworkers * rounds * done.count * sizeof(float),
               "%llu bytes", (unsigned long long)done.bytes);
        EXPECT(done.count == job.count / (size_t)job.nservers, "%zu floats",
               done.count);
        memcpy(all + done.first, done.weights + done.first,
               done.count * sizeof(*all));
    }
    EXPECT(!coll_allreduce(all, all, job.count, COLL_F32, COLL_SUM, comm, NULL),
           "sum");
    if (rank == 0 && job.nservers == 1)
        memcpy(first_centre, all, job.count * sizeof(*all));
    if (rank == 0)
        EXPECT(!memcmp(first_centre, all, job.count * sizeof(*all)),
               "other bits");
    free(all);
    job_free(&done);
    return 0;
}

Test(servers, shards_make_no_difference)
{
    static const struct worker_way *const ways[] = {
        &worker_elastic, &worker_elastic_strict, &worker_gradient,
        &worker_pull_push};
    static server_rule *const rules[] = {rule_elastic, rule_elastic,
                                         rule_momentum, rule_add};
    first_centre = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int way = 0; way < 4; way++)
        for (int nservers = 1; nservers <= 4; nservers *= 2) {
            const int nworkers = way < 2 ? 3 : 1; /* else it is no order */
            job = elastic(99);
            job.count = 6400;
            job.nservers = nservers;
            job.way = ways[way];
            job.rule = rules[way];
            job.momentum = 0.5;
            job.order = way < 2 ? SERVER_IN_TURN : SERVER_FIRST_COME;
            cr_assert_eq(run_ranks(nworkers + nservers, over_shm, same_centre),
                         0, "way %d, %d servers", way, nservers);
        }
    munmap(first_centre, 1 << 20);
}

/* Steps a second of those that are not slow, the mean. */
static double *speed;

static int quick(coll_comm *comm, int rank, int n)
{
    struct server_done done;
    if (job_run(comm, &job, &done))
        return 1;
    double sum = rank && rank < n - 1 ? (double)done.n / done.seconds : 0;
    EXPECT(!coll_allreduce(&sum, &sum, 1, COLL_F64, COLL_SUM, comm, NULL),
           "sum");
    *speed = sum / (n - 2);
    job_free(&done);
    return 0;
}

static double speed_of_others(enum server_order order, int slow_us)
{
    job = elastic(order == SERVER_IN_TURN && slow_us ? 30 : 150);
    job.order = order;
    job.rule = order == SERVER_AT_ONCE ? rule_elastic_at_once : rule_elastic;
    job.step_us = 3000;
    job.slow_us = slow_us;
    cr_assert_eq(run_ranks(4, over_shm, quick), 0);
    return *speed;
}

/* The part of their speed that a ten times slower worker leaves the others; of
 * some tries the best, or in turn the least, as other programs may run. */
static double left_beside_slow(enum server_order order)
{
    const bool waits = order == SERVER_IN_TURN;
    double best = waits ? 1 : 0;
    for (int i = 0; i < 4 && (waits ? best >= 0.3 : best < 0.9); i++) {
        const double usual = speed_of_others(order, 0),
                     left = speed_of_others(order, 30000) / usual;
        best = (left > best) != waits ? left : best;
    }
    return best;
}

Test(servers, a_slow_worker_slows_others_in_turn_only)
{
    speed = mmap(NULL, sizeof(*speed), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const double first_come = left_beside_slow(SERVER_FIRST_COME),
                 at_once = left_beside_slow(SERVER_AT_ONCE),
                 in_turn = left_beside_slow(SERVER_IN_TURN);
    cr_assert(first_come >= 0.9, "first come: %g", first_come);
    cr_assert(at_once >= 0.9, "at once: %g", at_once);
    cr_assert(in_turn < 0.3, "in turn: %g", in_turn);
    munmap(speed, sizeof(*speed));
}

/* Every step is done once, also where a slow worker does few. */
static int each_once(coll_comm *comm, int rank, int n)
{
    struct server_done done;
    int *times = calloc((size_t)job.steps, sizeof(*times));
    long mine[2] = {0, 0};
    if (job_run(comm, &job, &done))
        return 1;
    for (long k = 0; k < done.n; k++)
        times[done.numbers[k]]++;
    mine[0] = done.n;
    mine[1] = rank == n - job.nservers ? done.done : 0;
    EXPECT(
        !coll_allreduce(times, times, (size_t)job.steps, COLL_I32, COLL_SUM,
                        comm, NULL)
            && !coll_allreduce(mine, mine, 2, COLL_I64, COLL_SUM, comm, NULL),
        "sum");
    EXPECT(mine[0] == mine[1], "%ld steps, said are %ld", mine[0], mine[1]);
    if (job.stop_after || job.told_server)
        EXPECT(mine[0] < job.steps
                   && mine[0] % ((n - job.nservers) * job.tau) == 0,
               "stopped after %ld", mine[0]);
    else
        EXPECT(mine[0] == job.steps, "%ld steps", mine[0]);
    for (long k = 0; k < job.steps; k++)
        EXPECT(times[k] == (k < mine[0]), "step %ld: %d times", k, times[k]);
    free(times);
    job_free(&done);
    return 0;
}

static int two_each(coll_comm *comm, int rank, int n)
{
    struct server_done done;
    if (job_run(comm, &job, &done))
        return 1;
    if (rank < n - job.nservers)
        EXPECT(done.n == 2 && done.numbers[0] == 2 * rank, "%ld steps", done.n);
    job_free(&done);
    return 0;
}

Test(servers, a_stretch_shorter_than_tau_is_for_all_workers)
{
    job = elastic(6);
    job.tau = 5;
    cr_assert_eq(run_ranks(4, over_shm, two_each), 0);
}

Test(servers, every_step_is_done_once)
{
    static const struct worker_way *const ways[] = {
        &worker_elastic,  &worker_elastic,  &worker_elastic_strict,
        &worker_gradient, &worker_gradient, &worker_pull_push};
    static const enum server_order orders[] = {
        SERVER_FIRST_COME, SERVER_AT_ONCE, SERVER_IN_TURN,
        SERVER_FIRST_COME, SERVER_AT_ONCE, SERVER_FIRST_COME};
    static server_rule *const rules[] = {rule_elastic,     rule_elastic_at_once,
                                         rule_elastic,     rule_momentum,
                                         rule_add_at_once, rule_add};
    for (int way = 0; way < 6; way++)
        for (int stops = 0; stops < 3; stops++) {
            /* So many that the one who stops has a share of them. */
            job = elastic(stops ? 5000 : 211);
            job.way = ways[way];
            job.order = orders[way];
            job.rule = rules[way];
            job.tau = way == 3 || way == 4 ? 1 : 4;
            job.step_us = 100;
            job.slow_worker = 2;
            job.slow_us = 1000;
            job.stop_after = stops == 1 ? 20 : 0;
            job.told_server = stops == 2 ? 1 : 0;
            job.nservers = stops == 2 ? 2 : 1 + way % 2;
            cr_assert_eq(run_ranks(3 + job.nservers, over_shm, each_once), 0,
                         "way %d, stops %d", way, stops);
        }
}
