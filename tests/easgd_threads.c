/* SPDX-License-Identifier: MIT */
/* The strategies of elastic averaging in lockstep, with threads for ranks and
 * losses that are known: each number of a net's weights has one of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/collect.h"
#include "dist/easgd.h"
#include "easgd_oracle.h"
#include "random.h"
#include "rank_threads.h"
#include "thorough.h"
#include "update.h"

enum { MAX_RANKS = 4, MOST_RANKS = 8 };

/* 20 * 7 weights and 20 biases, which 3 ranks cannot share equally. */
static const char narrow[] = "input 1x1x7\ndense 20\nsoftmax_loss\n";
static const char wide[] = "input 1x1x99\ndense 400\nsoftmax_loss\n";
enum { COUNT = 160 }; /* parameters of the narrow net, fewer than of the wide */

static const struct way {
    const char *strategy;
    enum centre centre;
} ways[] = {
    {"sync-easgd1",         CENTRE_UNSAID      },
    {"sync-easgd2",         CENTRE_UNSAID      },
    {"sync-easgd3",         CENTRE_UNSAID      },
    {"decentralized-easgd", CENTRE_REPLICATED  },
    {"decentralized-easgd", CENTRE_SHARDED     },
    {"decentralized-easgd", CENTRE_HIERARCHICAL},
};
enum { NWAYS = sizeof(ways) / sizeof(ways[0]) };

/* What the ranks are to do. */
static struct {
    const struct way *way;
    long tau, steps;
    double alpha, eta, momentum;
    int threads;
    bool wide;
    const char *rules; /* of the strategy's communicator; NULL: none */
} job;

/* A rank's weights in the end, and the centre. */
struct result {
    float w[MOST_RANKS][COUNT], c[MOST_RANKS][COUNT];
};
static struct result result;
static coll_statistics stats[MOST_RANKS];
static uint64_t reduce_messages[MOST_RANKS];

struct worker {
    struct net net;
    struct update update;
    struct strategy strategy;
};

static double unit(uint64_t what, size_t i)
{
    return (double)random_unit(what, i);
}

static double curve(size_t i)
{
    return 0.5 + unit(99, i);
}

static double target(int rank, size_t i)
{
    return 2 * unit(100 + (uint64_t)rank, i) - 1;
}

static int open_worker(struct worker *k, coll_comm *comm)
{
    char error[256];
    *k = (struct worker){
        .strategy = {.ops =
                         strategy_find(job.way->strategy, error, sizeof(error)),
                     .settings = {.tau = job.tau,
                                  .alpha = job.alpha,
                                  .centre = job.way->centre},
                     .comm = comm,
                     .net = &k->net},
        .update = {.optim = optim_find("sgd",                                           error,                                                sizeof(error)),
                     .settings = {.numbers = {NAN, NAN, NAN, NAN, NAN}}}
    };
    k->update.settings.numbers[OPTIM_MOMENTUM] = job.momentum;
    if (!k->strategy.ops
        || strategy_complete(k->strategy.ops, &k->strategy.settings, error,
                             sizeof(error))
        || net_create(&k->net, job.wide ? wide : narrow, 1, error,
                      sizeof(error))
        || net_use_threads(&k->net, job.threads ? job.threads : 1, NULL, error,
                           sizeof(error))
        || optim_complete(k->update.optim, &k->update.settings, error,
                          sizeof(error))) {
        printf("# %s\n", error);
        return 1;
    }
    net_init(&k->net, 7);
    return (k->net.params.count == COUNT) == job.wide
           || update_open(&k->update, &k->net, NULL)
           || k->strategy.ops->open(&k->strategy) != COLL_OK;
}

static void close_worker(struct worker *k)
{
    k->strategy.ops->close(&k->strategy);
    arena_free(&k->strategy.centre);
    update_close(&k->update);
    net_free(&k->net);
}

/* As train_run() does. */
static int step(struct worker *k, int rank, long number)
{
    struct strategy *s = &k->strategy;
    const size_t count = k->net.params.count;
    const float *w = k->net.params.x;
    if (s->ops->begin(s, number))
        return 1;
    for (size_t i = 0; i < count; i++)
        k->net.grads.x[i] =
            (float)(curve(i) * ((double)w[i] - target(rank, i)));
    if (s->ops->grads_ready)
        s->ops->grads_ready(s, 0, count);
    if (s->ops->finish(s))
        return 1;
    s->ops->prepare(s);
    update_step(&k->update, &k->net, job.eta, number);
    s->ops->settle(s);
    return 0;
}

static int shows(struct worker *k, float *c)
{
    if (strategy_show(&k->strategy))
        return 1;
    memcpy(c, k->net.params.x, COUNT * sizeof(float));
    strategy_hide(&k->strategy);
    return 0;
}

static int finish(struct worker *k, int rank, int wrong)
{
    const struct easgd *e = k->strategy.own;
    if (!wrong)
        wrong =
            coll_stats(e->comm, &stats[rank])
            || coll_stats_messages(e->comm, "reduce", &reduce_messages[rank]);
    memcpy(result.w[rank], k->net.params.x, COUNT * sizeof(float));
    if (!wrong)
        wrong = shows(k, result.c[rank]);
    close_worker(k);
    return wrong;
}

static int runs(coll_comm *comm, int rank, int nranks)
{
    struct worker k;
    int wrong = open_worker(&k, comm);
    (void)nranks;
    if (!wrong && job.rules) {
        const struct easgd *e = k.strategy.own;
        wrong = coll_comm_set_algorithm(e->comm, job.rules);
    }
    for (long t = 1; t <= job.steps && !wrong; t++)
        wrong = step(&k, rank, t);
    if (wrong)
        printf("# rank %d: %s\n", rank, coll_last_error(comm));
    return finish(&k, rank, wrong);
}

static bool near(double x, double right)
{
    return fabs(x - right) <= 1e-5 * (1 + fabs(right));
}

static int differs(const struct worker *k, const struct oracle *o, int rank,
                   const float *c, long t)
{
    for (size_t i = 0; i < COUNT; i++)
        if (!near(k->net.params.x[i], o[i].w[rank]) || !near(c[i], o[i].c)) {
            printf("# %s %d, rank %d, step %ld, number %zu: %g and %g, not %g "
                   "and %g\n",
                   job.way->strategy, job.way->centre, rank, t, i,
                   (double)k->net.params.x[i], (double)c[i], o[i].w[rank],
                   o[i].c);
            return 1;
        }
    return 0;
}

/* Each number beside the equations in double, every tenth step. */
static int as_oracle(coll_comm *comm, int rank, int nranks)
{
    struct worker k;
    struct oracle o[COUNT] = {0};
    float c[COUNT];
    int wrong = open_worker(&k, comm);
    for (size_t i = 0; i < COUNT; i++) {
        o[i].workers = nranks;
        o[i].h = curve(i);
        o[i].c = (double)k.net.params.x[i];
        for (int r = 0; r < nranks; r++) {
            o[i].w[r] = o[i].c;
            o[i].x[r] = target(r, i);
        }
    }
    const double alpha =
        job.alpha > 0 ? job.alpha : 0.9 / (double)job.tau / nranks;
    for (long t = 1; t <= job.steps && !wrong; t++) {
        wrong = step(&k, rank, t);
        for (size_t i = 0; i < COUNT; i++)
            oracle_step(&o[i], job.eta, job.momentum, alpha, t % job.tau == 0);
        if (!wrong && t % 10 == 0)
            wrong = shows(&k, c) || differs(&k, o, rank, c, t);
    }
    return finish(&k, rank, wrong);
}

static int follows_the_equations(void)
{
    int good = 1;
    for (int i = 0; i < NWAYS; i++)
        for (int n = 1; n <= (int)cases(MAX_RANKS, 3); n++) {
            const bool plain = n % 2;
            job.way = &ways[i];
            job.steps = n > 2 ? cases(200, 20) : cases(1000, 100);
            job.tau = plain ? 1 : 3;
            job.alpha = plain ? 0 : 0.15;
            job.eta = 0.05;
            job.momentum = plain ? 0 : 0.9;
            good &= run(n, as_oracle);
        }
    return good;
}

static int same_bits(const struct result *a, const struct result *b, int n)
{
    return !memcmp(a->w, b->w, (size_t)n * sizeof(a->w[0]))
           && !memcmp(a->c, b->c, (size_t)n * sizeof(a->c[0]));
}

static void plainly(const struct way *way, long tau, long steps)
{
    memset(&job, 0, sizeof(job));
    memset(&result, 0, sizeof(result));
    job.way = way;
    job.tau = tau;
    job.steps = steps;
    job.eta = 0.1;
    job.momentum = 0.5;
}

/* Whether number i's centre is where the mean of its targets is, on n ranks. */
static bool has_converged(size_t i, int n)
{
    double mean = 0;
    for (int r = 0; r < n; r++)
        mean += target(r, i) / n;
    for (int r = 0; r < n; r++)
        if (!(fabs((double)result.c[r][i] - mean) < 1e-3)
            || !(fabs((double)result.w[r][i]) < 1e3))
            return false;
    return true;
}

/* Each number has a curve of its own, so each is a trial. */
static int converges_as(int n, int *stable, int *unstable)
{
    int good = 1;
    for (size_t i = 0; i < COUNT; i++) {
        const double radius = oracle_radius(job.eta * curve(i), job.alpha, n);
        if (fabs(radius - 1) < 0.05) /* 300 steps do not tell */
            continue;
        *(radius < 1 ? stable : unstable) += 1;
        if (has_converged(i, n) != (radius < 1)) {
            printf("# %s %d, %d ranks, eta h %g, alpha %g: radius %g, but %g "
                   "and %g\n",
                   job.way->strategy, job.way->centre, n, job.eta * curve(i),
                   job.alpha, radius, (double)result.w[0][i],
                   (double)result.c[0][i]);
            good = 0;
        }
    }
    return good;
}

static int converges_where_the_radius_says(void)
{
    int good = 1;
    for (int i = 0; i < NWAYS; i++) {
        int stable = 0, unstable = 0;
        for (size_t k = 0; k < cases(8, 4); k++) {
            const int n = 1 + (int)(k % MAX_RANKS);
            plainly(&ways[i], 1, 300);
            job.eta = 0.3 + 2 * unit(200 + (uint64_t)i, k);
            job.alpha = 0.02 + 0.6 * unit(300 + (uint64_t)i, k);
            job.momentum = 0;
            good &= run(n, runs) && converges_as(n, &stable, &unstable);
        }
        printf("# %s %d: %d converge, %d do not\n", ways[i].strategy,
               ways[i].centre, stable, unstable);
        good &= stable > 50 && unstable > 50;
    }
    return good;
}

/* All but the last one add in pairs, on any number of hosts. */
enum { SUMS_IN_PAIRS = NWAYS - 1 };

static int give_the_same_bits(void)
{
    int good = 1;
    for (int n = (int)cases(2, MAX_RANKS); n <= MAX_RANKS; n += 2) {
        struct result first;
        for (nhosts = 1; nhosts <= 2; nhosts++)
            for (int i = 0; i < SUMS_IN_PAIRS; i++) {
                plainly(&ways[i], 2, 40);
                good &= run(n, runs);
                if (nhosts == 1 && i == 0)
                    first = result;
                if (!same_bits(&first, &result, n)) {
                    printf("# %s %d: other bits on %d ranks, %d hosts\n",
                           ways[i].strategy, ways[i].centre, n, nhosts);
                    good = 0;
                }
            }
    }
    nhosts = 1;
    return good;
}

static int repeats(void)
{
    int good = 1;
    nhosts = 2;
    for (int i = (int)cases(0, SUMS_IN_PAIRS); i < NWAYS; i++) {
        struct result first;
        for (int time = 0; time < 2; time++) {
            plainly(&ways[i], 2, 40);
            good &= run(MAX_RANKS, runs);
            if (time == 0)
                first = result;
            good &= same_bits(&first, &result, MAX_RANKS);
        }
    }
    nhosts = 1;
    return good;
}

static int repeats_with_threads(void)
{
    int good = 1;
    for (int i = 0; i < NWAYS; i++) {
        struct result first;
        for (int threads = 1; threads <= 3; threads++) {
            plainly(&ways[i], 1, 20);
            job.threads = threads;
            good &= run(1, runs);
            if (threads == 1)
                first = result;
            good &= same_bits(&first, &result, 1);
        }
    }
    return good;
}

static int decentralized_forms_are_one(void)
{
    int good = 1;
    struct result first;
    for (nhosts = 1; nhosts <= 2; nhosts++)
        for (int i = 0; i < NWAYS; i++) {
            plainly(&ways[i], 4, cases(400, 80));
            good &= run(MAX_RANKS, runs);
            if (nhosts == 1 && i == 0)
                first = result;
            for (int r = 0; r < MAX_RANKS; r++)
                for (size_t j = 0; j < COUNT; j++)
                    if (fabs((double)(result.c[r][j] - first.c[0][j]))
                        > 1e-6 * fmax(1, fabs((double)first.c[0][j])))
                        good = 0;
        }
    nhosts = 1;
    return good;
}

/* Vectors of the exchanges only, and as many as there are of these. */
static int bytes_fall_with_tau(void)
{
    int good = 1;
    for (int i = 0; i < NWAYS; i++)
        for (long tau = 1; tau <= 16; tau *= (long)cases(2, 4)) {
            const bool pairs =
                i == 0 || ways[i].centre == CENTRE_SHARDED; /* calls a time */
            const uint64_t calls = (uint64_t)(32 / tau) * (pairs ? 2 : 1);
            plainly(&ways[i], tau, 32);
            good &= run(2, runs);
            for (int r = 0; r < 2; r++)
                if (stats[r].operations != calls
                    || stats[r].vector_bytes != calls * COUNT * sizeof(float)) {
                    printf("# %s %d, tau %ld: %llu calls of %llu bytes\n",
                           ways[i].strategy, ways[i].centre, tau,
                           (unsigned long long)stats[r].operations,
                           (unsigned long long)stats[r].vector_bytes);
                    good = 0;
                }
        }
    return good;
}

/* Between hosts with one rank each. Of replicated centres 2^k only: of
 * other numbers some ranks fold into others first. */
static int carries_no_more(const struct way *way, int n)
{
    double mean = 0, most = 0;
    nhosts = n;
    plainly(way, 1, 20);
    job.wide = true;
    const int good = run(n, runs);
    nhosts = 1;
    for (int r = 0; r < n; r++) {
        const double bytes =
            (double)(stats[r].bytes_read + stats[r].bytes_written);
        mean += bytes / n;
        most = fmax(most, bytes);
    }
    printf("# %d ranks, centre %d: %g bytes at most, %g on average\n", n,
           way->centre, most, mean);
    return good && most <= 1.1 * mean;
}

static int nobody_carries_more(void)
{
    int good = 1;
    for (int i = 3; i < NWAYS; i++)
        for (int n = 2; n <= MOST_RANKS; n += (int)cases(1, 3))
            if (ways[i].centre != CENTRE_REPLICATED || !(n & (n - 1)))
                good &= carries_no_more(&ways[i], n);
    return good;
}

/* On hosts with a rank each, where a tree is asked for: every rank but rank 0
 * sends one message; and sync-easgd3, by what is fastest, has the same bits. */
static int reduces_by_a_tree(void)
{
    enum { STEPS = 20, N = MAX_RANKS };
    static struct result by_tree;
    uint64_t all = 0;
    nhosts = N;
    plainly(&ways[0], 1, STEPS);
    job.rules = "reduce:binomial_tree";
    int good = run(N, runs);
    by_tree = result;
    for (int r = 0; r < N; r++) {
        good &= reduce_messages[r] == (r > 0) * STEPS;
        all += reduce_messages[r];
    }
    printf("# %llu messages\n", (unsigned long long)all);
    plainly(&ways[2], 1, STEPS);
    good &= run(N, runs) && same_bits(&by_tree, &result, N);
    nhosts = 1;
    return good;
}

/* Rank r has r * 100,003 floats in two spans, the second of which begins where
 * messages of the first end. */
static float own(int rank, size_t i)
{
    return (float)(rank * 1000) + (float)(i % 997);
}

struct taken {
    size_t count[MAX_RANKS];
    int rank, wrong;
};

static void take(void *context, int rank, const float *x, size_t count)
{
    struct taken *k = context;
    k->wrong |= rank < k->rank;
    k->rank = rank;
    for (size_t i = 0; i < count; i++)
        k->wrong |= x[i] != own(rank, k->count[rank]++);
}

static int collects(coll_comm *comm, int rank, int nranks)
{
    struct taken k = {0};
    uint64_t counts[MAX_RANKS];
    const size_t count = (size_t)rank * 300007, half = count / 3;
    float *x = malloc((count + 1) * sizeof(*x));
    for (size_t i = 0; x && i < count; i++)
        x[i] = own(rank, i);
    const struct floats mine = {
        .n = 2, .spans = {{x, half}, {x ? x + half : x, count - half}}
    };
    int wrong = !x || collect_counts(comm, &mine, counts)
                || collect(comm, &mine, counts, take, &k) || k.wrong;
    for (int r = 0; r < nranks && !rank && !wrong; r++)
        wrong = counts[r] != (uint64_t)r * 300007 || k.count[r] != counts[r];
    free(x);
    return wrong;
}

static int report(int good, const char *claim)
{
    static int number;
    printf("%sok %d - %s\n", good ? "" : "not ", ++number, claim);
    fflush(stdout);
    return !good;
}

int main(void)
{
    int failed = 0;
    /* What a busy machine makes of equal links may be groups, in which another
     * algorithm is the fastest, or ranks stand in another order. The library
     * reads its settings once. */
    setenv("COLL_CALIBRATE", "off", 1);
    printf("1..10\n");
    failed +=
        report(follows_the_equations(), "steps of a few ranks go as in double");
    failed += report(converges_where_the_radius_says(),
                     "each converges where the spectral radius says");
    failed += report(give_the_same_bits(), "sums in pairs give the same bits");
    failed += report(repeats(), "a second run repeats each");
    failed += report(repeats_with_threads(),
                     "any number of threads gives the same bits");
    failed += report(decentralized_forms_are_one(),
                     "many exchanges give the same centre to 1e-6");
    failed += report(bytes_fall_with_tau(), "bytes fall as 1 / tau");
    failed +=
        report(nobody_carries_more(), "no rank carries 1.1 times the mean");
    failed += report(reduces_by_a_tree(),
                     "sync-easgd1 adds by a tree, with sync-easgd3's bits");
    failed += report(run(1, collects) && run(MAX_RANKS, collects),
                     "rank 0 gets everybody's floats in order");
    return failed > 0;
}
