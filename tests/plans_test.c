/* SPDX-License-Identifier: MIT */
/* Every planner, at every size up to 64 ranks, without a network.
 *
 * An element says which ranks are in it, one bit each, and which element of the
 * vector it is. Reducing is union, and fails if the two sets overlap or the
 * elements differ; so a right result proves that each rank's share was added
 * exactly once and in its place, whatever the numbers would have been. Sends
 * finish with their receives (rendezvous), so a plan that leans on buffering
 * gets stuck.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "exec/rehearse.h"

enum { MAX_RANKS = 64 };

struct element {
    uint64_t ranks, index;
};

static bool wrong_sum;

static void set_union(void *const *dst, int ndst, const void *const *src,
                      int nsrc, size_t n, int divisor, bool stream)
{
    const struct element *x = src[0], *y = src[1];
    cr_assert(ndst == 1 && nsrc == 2 && divisor == 1 && !stream);
    for (size_t i = 0; i < n; i++) {
        wrong_sum |= (x[i].ranks & y[i].ranks) != 0 || x[i].index != y[i].index;
        ((struct element *)dst[0])[i] =
            (struct element){x[i].ranks | y[i].ranks, x[i].index};
    }
}

struct trial {
    const struct algo *algo;
    int n, segments, root;
    size_t count; /* as the caller of the collective says it */
    unsigned seed;
};

static const struct element canary = {0xabad1dea, 0xabad1dea};

static size_t in_count(const struct trial *t)
{
    return t->algo->kind == REDUCE_SCATTER ? t->count * (size_t)t->n : t->count;
}

static size_t out_count(const struct trial *t)
{
    return t->algo->kind == ALLGATHER ? t->count * (size_t)t->n : t->count;
}

/* Element i of what rank r puts in, and of what it gets out. */
static struct element given(const struct trial *t, int r, size_t i)
{
    const bool part = t->algo->kind == ALLGATHER;
    return (struct element){1ull << r,
                            i + (part ? (size_t)r * t->count : (size_t)0)};
}

static struct element wanted(const struct trial *t, int r, size_t i)
{
    const uint64_t everyone = ~0ull >> (64 - t->n);
    switch (t->algo->kind) {
    case BROADCAST:
        return (struct element){1ull << t->root, i};
    case ALLGATHER:
        return (struct element){1ull << i / t->count, i};
    case REDUCE_SCATTER:
        return (struct element){everyone, (size_t)r * t->count + i};
    default:
        return (struct element){everyone, i};
    }
}

static bool equal(struct element x, struct element y)
{
    return x.ranks == y.ranks && x.index == y.index;
}

static struct element *vector(size_t count)
{
    struct element *x = calloc(count + 1, sizeof(*x));
    x[count] = canary;
    return x;
}

/* The two vectors of a rank, one inside the other if in place. */
struct vectors {
    struct element *in, *out, *owned[2];
};

static struct vectors make_vectors(const struct trial *t, int r, bool in_place)
{
    const enum coll_kind kind = t->algo->kind;
    const size_t mine = (size_t)r * t->count;
    struct vectors v = {0};
    if (in_place) {
        struct element *both =
            vector(in_count(t) > out_count(t) ? in_count(t) : out_count(t));
        v = (struct vectors){both, both, {both}};
        v.in += kind == ALLGATHER ? mine : 0;
        v.out += kind == REDUCE_SCATTER ? mine : 0;
    } else {
        v.in = v.owned[0] = vector(in_count(t));
        v.out = v.owned[1] = vector(out_count(t));
    }
    for (size_t i = 0; i < in_count(t); i++)
        v.in[i] = given(t, r, i);
    /* As callers may. */
    if (kind == REDUCE && r != t->root)
        v.out = NULL;
    if (kind == BROADCAST && r != t->root)
        v.in = NULL;
    return v;
}

static void check_vectors(const struct trial *t, int r, const struct vectors *v,
                          bool in_place)
{
    const struct element *whole = v->owned[0];
    const size_t ins = in_count(t), outs = out_count(t);
    for (size_t i = 0; i < outs && v->out; i++)
        if (!equal(v->out[i], wanted(t, r, i)))
            cr_assert_fail("%s, %d ranks, root %d, count %zu, seed %u: rank "
                           "%d, element %zu: ranks %lx, index %zu",
                           t->algo->full_name, t->n, t->root, t->count, t->seed,
                           r, i, (unsigned long)v->out[i].ranks,
                           (size_t)v->out[i].index);
    cr_assert(equal(whole[in_place && outs > ins ? outs : ins], canary)
                  && (!v->owned[1] || equal(v->owned[1][outs], canary)),
              "%s, %d ranks: past the end", t->algo->full_name, t->n);
    for (size_t i = 0; i < ins && v->in; i++) {
        const bool own =
            !in_place || !v->out
            || (t->algo->kind == REDUCE_SCATTER && i / t->count != (size_t)r);
        if (own && !equal(v->in[i], given(t, r, i)))
            cr_assert_fail("%s, %d ranks: input written", t->algo->full_name,
                           t->n);
    }
}

/* Odd seeds run in place. Seeds above 0 also deliver messages out of order. */
static void check(const struct trial *t)
{
    const bool in_place = t->seed % 2;
    const enum coll_kind kind = t->algo->kind;
    struct vectors v[MAX_RANKS];
    char *in[MAX_RANKS], *out[MAX_RANKS];
    for (int r = 0; r < t->n; r++) {
        v[r] = make_vectors(t, r, in_place);
        in[r] = (char *)v[r].in;
        out[r] = (char *)v[r].out;
    }
    const struct rehearsal c = {
        .plan = t->algo->plan,
        .nranks = t->n,
        .segments = t->segments,
        .root = t->root,
        .count = in_count(t) > out_count(t) ? in_count(t) : out_count(t),
        .elem_bytes = sizeof(struct element),
        .net = {.link = {1e-6, 1e-10}, .jitter_seed = t->seed},
        .reduce = set_union,
        .in = in,
        .out = out,
        .in_parts = kind == ALLGATHER,
        .out_parts = kind == REDUCE_SCATTER,
    };
    double seconds;
    wrong_sum = false;
    const coll_status status = rehearse(&c, &seconds);
    cr_assert_eq(status, COLL_OK, "%s, %d ranks: status %d", t->algo->full_name,
                 t->n, status);
    cr_assert_not(wrong_sum, "%s, %d ranks", t->algo->full_name, t->n);
    for (int r = 0; r < t->n; r++) {
        check_vectors(t, r, &v[r], in_place);
        free(v[r].owned[0]);
        free(v[r].owned[1]);
    }
}

static bool has_root(enum coll_kind kind)
{
    return kind == REDUCE || kind == BROADCAST;
}

/* Chunks of reduce-scatter and allgather are always equal: few counts do. */
static void check_all_shapes(const struct algo *algo, int nranks)
{
    const size_t n = (size_t)nranks;
    const size_t counts[] = {0, 1, 7, n - 1, n, n + 1, 64, 131, 1009};
    const bool parts = algo->kind == REDUCE_SCATTER || algo->kind == ALLGATHER;
    const int most = algo_pipelines(algo, nranks) ? 4 : 1;
    for (size_t i = 0; i < (parts ? 3 : sizeof(counts) / sizeof(counts[0]));
         i++)
        for (unsigned seed = 0; seed < 4; seed++)
            for (int segments = 1; segments <= most; segments *= 4)
                check(&(struct trial){
                    .algo = algo,
                    .n = nranks,
                    .segments = segments,
                    .root =
                        has_root(algo->kind) ? (int)(seed + i) * 5 % nranks : 0,
                    .count = counts[i],
                    .seed = seed,
                });
    for (int root = 0; root < nranks && has_root(algo->kind); root++)
        check(&(struct trial){algo, nranks, 2, root, 7, (unsigned)root});
}

Test(plans, each_share_comes_in_once_and_in_its_place, .timeout = 120)
{
    for (int a = 0; a < nplanned; a++)
        for (int n = 1; n <= MAX_RANKS && algos[a].kind != BARRIER; n++)
            if (algos[a].fits(&(struct plan_shape){.nranks = n}))
                check_all_shapes(&algos[a], n);
}

/* One operand of a step: in bounds, and of what the caller has given. */
static void check_operand(const struct algo *algo, int n, int me,
                          const struct plan *p, const struct step *s, int buf)
{
    const bool own = s->chunk == me && s->nchunks == 1;
    bool may =
        s->chunk >= 0 && s->nchunks > 0 && s->chunk + s->nchunks <= p->nchunks;
    if (buf == PLAN_TMP)
        may &= s->slot >= 0 && s->slot + s->nchunks <= p->nslots;
    else if (buf == PLAN_SUM)
        may &= p->sums;
    else if (buf == PLAN_OUT)
        may &= algo->kind == REDUCE           ? me == 0
               : algo->kind == REDUCE_SCATTER ? own
                                              : algo->kind != BARRIER;
    else
        may &= algo->kind == BROADCAST   ? me == 0
               : algo->kind == ALLGATHER ? own
                                         : true;
    cr_assert(may, "%s, rank %d of %d, step %d", algo->full_name, me, n,
              (int)(s - p->steps));
}

Test(plans, steps_keep_to_the_buffers_that_they_may_use)
{
    for (int a = 0; a < nplanned; a++)
        for (int n = 1; n <= MAX_RANKS; n++)
            for (int me = 0; me < n; me++) {
                struct plan p;
                algos[a].plan(&p, &(struct plan_shape){me, n, 4});
                for (int i = 0; i < p.nsteps; i++) {
                    const struct step *s = &p.steps[i];
                    const bool writes = s->kind == PLAN_RECV
                                        || s->kind == PLAN_REDUCE
                                        || s->kind == PLAN_COPY;
                    if (s->kind == PLAN_JOIN)
                        continue;
                    if (writes)
                        check_operand(&algos[a], n, me, &p, s, s->dst);
                    if (s->kind != PLAN_RECV)
                        check_operand(&algos[a], n, me, &p, s, s->a);
                    if (s->kind == PLAN_REDUCE)
                        check_operand(&algos[a], n, me, &p, s, s->b);
                    cr_assert(!writes || s->dst != PLAN_IN, "%s writes to IN",
                              algos[a].full_name);
                    if (s->kind == PLAN_SEND || s->kind == PLAN_RECV)
                        cr_assert(s->peer >= 0 && s->peer < n && s->peer != me,
                                  "%s, rank %d of %d: peer %d",
                                  algos[a].full_name, me, n, s->peer);
                }
                plan_free(&p);
            }
}

/* --- Barriers: who is known to have come, when a step starts and ends ------
 */

enum { MAX_STEPS = 64 };

struct knowledge {
    struct plan plan;
    uint64_t start[MAX_STEPS], end[MAX_STEPS];
};

/* The send that a receive, step i of rank r, matches: by posting order. */
static uint64_t told(const struct knowledge *k, int r, int i)
{
    const struct step *steps = k[r].plan.steps;
    const struct knowledge *from = &k[steps[i].peer];
    int nth = 0;
    for (int j = 0; j < i; j++)
        nth += steps[j].kind == PLAN_RECV && steps[j].peer == steps[i].peer;
    for (int j = 0; j < from->plan.nsteps; j++)
        if (from->plan.steps[j].kind == PLAN_SEND
            && from->plan.steps[j].peer == r && nth-- == 0)
            return from->start[j];
    return 0;
}

static uint64_t known_after(const struct knowledge *k, step_id s)
{
    return s == PLAN_START ? 0 : k->end[s];
}

/* One pass over the steps of a rank; whether it learnt anything. */
static bool learn(struct knowledge *k, int r)
{
    struct knowledge *me = &k[r];
    bool learnt = false;
    for (int i = 0; i < me->plan.nsteps; i++) {
        const struct step *s = &me->plan.steps[i];
        const uint64_t start = me->start[i], end = me->end[i];
        me->start[i] = 1ull << r | (i ? me->start[i - 1] : 0)
                       | known_after(me, s->after[0])
                       | known_after(me, s->after[1]);
        me->end[i] = me->start[i] | (s->kind == PLAN_RECV ? told(k, r, i) : 0);
        learnt |= start != me->start[i] || end != me->end[i];
    }
    return learnt;
}

Test(plans, nobody_leaves_a_barrier_before_all_have_come)
{
    static struct knowledge k[MAX_RANKS];
    for (int a = 0; a < nplanned; a++)
        for (int n = 1; n <= MAX_RANKS && algos[a].kind == BARRIER; n++) {
            memset(k, 0, sizeof(k));
            for (int r = 0; r < n; r++) {
                algos[a].plan(&k[r].plan, &(struct plan_shape){r, n, 1});
                cr_assert_lt(k[r].plan.nsteps, MAX_STEPS);
            }
            for (bool learnt = true; learnt;) {
                learnt = false;
                for (int r = 0; r < n; r++)
                    learnt |= learn(k, r);
            }
            for (int r = 0; r < n; r++) {
                uint64_t all = 1ull << r;
                for (int i = 0; i < k[r].plan.nsteps; i++)
                    all |= k[r].end[i];
                cr_assert_eq(all, ~0ull >> (64 - n),
                             "%s: rank %d of %d leaves when %lx have come",
                             algos[a].full_name, r, n, (unsigned long)all);
                plan_free(&k[r].plan);
            }
        }
}

/* What each algorithm costs, from its formula. sent: by all ranks together, in
 * vectors; rounds: messages one after another; busiest: vectors through the
 * busiest port, for counts that n divides. Negative: no closed form; not exact:
 * an upper bound. The vector of a reduce-scatter or allgather is that of all
 * ranks. */
struct cost {
    const char *name;
    double sent, rounds, busiest;
    bool exact;
};

static int log2_floor(int n)
{
    int k = 0;
    while (n >>= 1)
        k++;
    return k;
}

static struct cost cost_of(const char *name, int n)
{
    const int floor = log2_floor(n), pow2 = 1 << floor, rem = n - pow2;
    const bool full = rem == 0;
    const double fold = full ? 0 : 2, down = floor + fold;
    const double up = floor + !full, more = n > 1 ? up + 1 : 0;
    const double rest = n - 1, most = rest / n;
    const double doubled = pow2 * floor + 2.0 * rem;
    const double halved = 2.0 * (pow2 - 1) + 2.0 * rem, rounds = down + floor;
    const double port = 2.0 * (pow2 - 1) / pow2 + fold;
    const struct cost costs[] = {
        {"allreduce_recursive_doubling",    doubled,  down,     down,     true },
        {"allreduce_halving_doubling",      halved,   rounds,   port,     true },
        {"allreduce_halving_doubling_near", halved,   rounds,   port,     true },
        {"allreduce_ring",                  2 * rest, 2 * rest, 2 * most, true },
        {"allreduce_binomial_tree",         2 * rest, 2 * up,   2 * up,   full },
        {"allreduce_double_binary_tree",    2 * rest, -1,       -1,       false},
        {"reduce_binomial_tree",            rest,     up,       up,       full },
        {"reduce_halving_gather",           n,        more,     2 * most, true },
        {"reduce_chain",                    rest,     rest,     rest,     true },
        {"broadcast_binomial_tree",         rest,     up,       -1,       full },
        {"broadcast_scatter_allgather",     rest,     more,     2 * most, false},
        {"broadcast_chain",                 rest,     rest,     rest,     true },
        {"reduce_scatter_halving",          rest,     up,       most,     true },
        {"reduce_scatter_ring",             rest,     rest,     most,     true },
        {"allgather_bruck",                 rest,     up,       most,     true },
        {"allgather_ring",                  rest,     rest,     most,     true },
        {"barrier_dissemination",           n * up,   up,       up,       true },
    };
    for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++)
        if (!strcmp(costs[i].name, name))
            return costs[i];
    cr_assert_fail("%s has no cost formula here: add its row", name);
    return costs[0];
}

static double dry_run(const struct algo *algo, int n, size_t count,
                      struct sim_net net, struct sim_traffic *traffic)
{
    const struct rehearsal c = {
        .plan = algo->plan,
        .nranks = n,
        .segments = 1,
        .count = count,
        .elem_bytes = 1,
        .net = net,
        .traffic = traffic,
    };
    double seconds;
    cr_assert_eq(rehearse(&c, &seconds), COLL_OK, "%s, %d ranks", algo->name,
                 n);
    return seconds;
}

Test(plans, traffic_is_what_the_formula_says_to_the_byte)
{
    const size_t counts[] = {0, 1, 63, 64, 65, 997, 7919, 1 << 20};
    for (int a = 0; a < nplanned; a++)
        for (int n = 1; n <= 64; n++)
            for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                struct sim_traffic traffic[64];
                dry_run(&algos[a], n, counts[i], (struct sim_net){0}, traffic);
                uint64_t sent = 0;
                for (int r = 0; r < n; r++)
                    sent += traffic[r].bytes;
                const struct cost cost = cost_of(algos[a].full_name, n);
                /* The root of this one need not send itself its chunk. */
                const bool gathers =
                    algos[a].plan == plan_reduce_halving_gather;
                const size_t m = (size_t)n, chunk0 = (counts[i] + m - 1) / m;
                cr_assert_eq((double)sent,
                             cost.sent * (double)counts[i]
                                 - (double)(gathers ? chunk0 : 0),
                             "%s, %d ranks, %zu bytes: sent %lu",
                             algos[a].full_name, n, counts[i],
                             (unsigned long)sent);
            }
}

/* Latency alone, then bandwidth alone, on vectors that every n divides. */
Test(plans, time_is_what_the_formula_says)
{
    for (int a = 0; a < nplanned; a++)
        for (int n = 1; n <= 64; n++) {
            const struct cost cost = cost_of(algos[a].full_name, n);
            const size_t bytes = (size_t)n * 4096;
            if (cost.rounds < 0)
                continue;
            const double latency = dry_run(&algos[a], n, bytes,
                                           (struct sim_net){
                                               .link = {1, 0}
            },
                                           NULL);
            const bool exact = cost.exact;
            cr_assert(exact ? fabs(latency - cost.rounds) < 1e-9
                            : latency <= cost.rounds + 1e-9,
                      "%s, %d ranks: %g rounds", algos[a].full_name, n,
                      latency);
            if (cost.busiest < 0)
                continue;
            const double wire = dry_run(&algos[a], n, bytes,
                                        (struct sim_net){
                                            .link = {0, 1.0 / (double)bytes}
            },
                                        NULL);
            cr_assert(exact ? fabs(wire - cost.busiest) < 1e-9
                            : wire <= cost.busiest + 1e-9,
                      "%s, %d ranks: %g vectors", algos[a].full_name, n, wire);
        }
}

/* A rank with children in both trees carries two inner streams: there is none
 * for an even number of ranks and at most one for an odd number. */
Test(plans, two_trees_share_at_most_one_inner_rank)
{
    for (int n = 3; n <= 64; n++) {
        int both = 0;
        for (int r = 0; r < n; r++) {
            struct plan p;
            int upper = 0, lower = 0;
            plan_allreduce_double_binary_tree(&p,
                                              &(struct plan_shape){r, n, 1});
            for (int i = 0; i < p.nsteps; i++)
                if (p.steps[i].kind == PLAN_REDUCE)
                    *(p.steps[i].chunk ? &upper : &lower) += 1;
            cr_assert(upper <= 2 && lower <= 2, "rank %d of %d", r, n);
            both += upper && lower;
            plan_free(&p);
        }
        cr_assert_leq(both, n % 2, "%d ranks", n);
    }
}

/* Where the blocks end up, as swCaffe's text has it: the largest exchange is
 * with the partner at distance p/2 in one order, at distance 1 in the other. */
Test(plans, step_orders_differ_in_who_gets_the_half)
{
    const char *const names[] = {"halving_doubling", "halving_doubling_near"};
    const int first_partner[] = {3 ^ 8, 3 ^ 1};
    for (int i = 0; i < 2; i++) {
        struct plan p;
        algo_find(ALLREDUCE, names[i])
            ->plan(&p, &(struct plan_shape){3, 16, 1});
        cr_assert_eq(p.steps[0].kind, PLAN_RECV);
        cr_assert_eq(p.steps[0].nchunks, 8);
        cr_assert_eq(p.steps[0].peer, first_partner[i]);
        plan_free(&p);
    }
}

Test(plans, print_as_text)
{
    struct plan p;
    char text[1024];
    plan_allreduce_ring(&p, &(struct plan_shape){1, 3, 1});
    const size_t length = plan_print(&p, text, sizeof(text));
    cr_assert_str_eq(text, "3 chunks, 1 slot\n"
                           "  0  recv from 0  TMP[0] slot 0\n"
                           "  1  send to 2  IN[1]\n"
                           "  2  reduce  OUT[0] = IN[0] + TMP[0] slot 0"
                           "  after 0\n"
                           "  3  recv from 0  TMP[2] slot 0\n"
                           "  4  send to 2  OUT[0]  after 2\n"
                           "  5  reduce  OUT[2] = IN[2] + TMP[2] slot 0"
                           "  after 3\n"
                           "  6  recv from 0  OUT[1]\n"
                           "  7  send to 2  OUT[2]  after 5\n"
                           "  8  recv from 0  OUT[0]\n"
                           "  9  send to 2  OUT[1]  after 6\n");
    cr_assert_eq(length, strlen(text));
    char little[8] = "1234567";
    cr_assert_eq(plan_print(&p, little, 4), length);
    cr_assert_str_eq(little, "3 c");
    plan_free(&p);
}

Test(plans, ring_meets_its_bandwidth_bound_at_1024_ranks)
{
    const double bytes = 1 << 28, n = 1024;
    const struct rehearsal c = {
        .plan = plan_allreduce_ring,
        .nranks = 1024,
        .segments = 1,
        .count = (1 << 28) / 4,
        .elem_bytes = 4,
        .net = {.link = {2e-6, 1 / 12.5e9}},
    };
    double seconds;
    const double bound = 2 * (n - 1) / n * bytes * c.net.link.beta;
    cr_assert_eq(rehearse(&c, &seconds), COLL_OK);
    cr_assert_leq(seconds, 1.25 * bound, "%g s, bound %g s", seconds, bound);
}
