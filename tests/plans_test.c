/* SPDX-License-Identifier: MIT */
/* Every planner, at every size up to 64 ranks, without a network.
 *
 * An element says which ranks are in it, one bit each, and which element of the
 * vector it is. Reducing is union, and fails if the two sets overlap or the
 * elements differ; so a right result proves that each rank's share was added
 * exactly once and in its place, whatever the numbers would have been. Sends
 * finish with their receives (rendezvous), so a plan that leans on buffering
 * gets stuck.
 *
 * For more ranks than bits a share is a random number of 64 bits, and reducing
 * adds them. Were a share added a wrong number of times, d too many (or too
 * few), and d is 2^t times an odd number, then the sum of all could only be
 * right if the share had one certain value in its lowest 64 - t bits: that
 * happens once in 2^(64 - t) draws, and d is smaller than the reductions made.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "exec/rehearse.h"

enum { MAX_RANKS = 64, MOST_RANKS = 1025 };

struct element {
    uint64_t ranks, index;
};

/* Planners of a hierarchy have tests of their own. */
static bool serves(const struct algo *algo, int n)
{
    return algo->fits(&(struct plan_shape){.nranks = n, .segments = 1});
}

static void make_plan(const struct algo *algo, struct plan *p, int rank, int n,
                      int segments)
{
    algo->plan(p, &(struct plan_shape){
                      .rank = rank, .nranks = n, .segments = segments});
}

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

static void add_numbers(void *const *dst, int ndst, const void *const *src,
                        int nsrc, size_t n, int divisor, bool stream)
{
    const struct element *x = src[0], *y = src[1];
    cr_assert(ndst == 1 && nsrc == 2 && divisor == 1 && !stream);
    for (size_t i = 0; i < n; i++) {
        wrong_sum |= x[i].index != y[i].index;
        ((struct element *)dst[0])[i] =
            (struct element){x[i].ranks + y[i].ranks, x[i].index};
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

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014), with a fixed seed. */
static uint64_t random_number(uint64_t i)
{
    uint64_t x = (i + 20) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t share_of(const struct trial *t, int r)
{
    return t->n <= MAX_RANKS ? 1ull << r : random_number((uint64_t)r);
}

static uint64_t share_of_all(const struct trial *t)
{
    static int n;
    static uint64_t all;
    if (n != t->n) {
        n = t->n;
        all = 0;
        for (int r = 0; r < n; r++)
            all += share_of(t, r);
    }
    return all;
}

/* Element i of what rank r puts in, and of what it gets out. */
static struct element given(const struct trial *t, int r, size_t i)
{
    const bool part = t->algo->kind == ALLGATHER;
    return (struct element){share_of(t, r),
                            i + (part ? (size_t)r * t->count : (size_t)0)};
}

static struct element wanted(const struct trial *t, int r, size_t i)
{
    const uint64_t everyone = share_of_all(t);
    switch (t->algo->kind) {
    case BROADCAST:
        return (struct element){share_of(t, t->root), i};
    case ALLGATHER:
        return (struct element){share_of(t, (int)(i / t->count)), i};
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
    static struct vectors v[MOST_RANKS];
    static char *in[MOST_RANKS], *out[MOST_RANKS];
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
        .net = {.link = {1e-6, 1e-10, 0}, .jitter_seed = t->seed},
        .reduce = t->n <= MAX_RANKS ? set_union : add_numbers,
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
        for (int n = 1; n <= MAX_RANKS && algos[a].kind != BARRIER; n++) {
            /* On more ranks tests/hierarchy_test.c has it, in its groups. */
            const bool flat =
                !strcmp(algos[a].full_name, "allreduce_hierarchical");
            if (serves(&algos[a], n) && (!flat || n <= 16))
                check_all_shapes(&algos[a], n);
        }
}

/* Also those that the selector would not take for so many: what they send at
 * once must fit the executor's window all the same. */
Test(plans, many_ranks_get_their_sums_too)
{
    static const struct {
        const char *name;
        int n;
    } runs[] = {
        {"halving_doubling",        65  },
        {"halving_doubling",        100 },
        {"halving_doubling",        1000},
        {"halving_doubling",        1025},
        {"binary_blocks",           65  },
        {"binary_blocks",           100 },
        {"binary_blocks",           160 },
        {"binary_blocks",           1000},
        {"binary_blocks",           1023},
        {"binary_blocks",           1025},
        {"swing",                   128 },
        {"swing",                   1000},
        {"recursive_multiplying",   1000},
        {"recursive_multiplying_8", 1025},
        {"direct",                  32  },
        {"direct",                  33  },
        {"direct",                  65  },
        {"direct_scatter",          32  },
        {"direct_scatter",          33  },
        {"direct_scatter",          65  },
        {"ring_segmented",          65  },
    };
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
        for (unsigned seed = 0; seed < 3; seed++)
            check(&(struct trial){
                .algo = algo_find(ALLREDUCE, runs[i].name),
                .n = runs[i].n,
                .segments = 4,
                .count = seed == 2 ? 7 : 1031,
                .seed = seed,
            });
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
            for (int me = 0; me < n && serves(&algos[a], n); me++) {
                struct plan p;
                make_plan(&algos[a], &p, me, n, 4);
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
                make_plan(&algos[a], &k[r].plan, r, n, 1);
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

/* n as a product of numbers up to radix: as few as can be, then of the least
 * sum of (factor - 1). Of all products, by trying. */
struct product {
    int n, factors, peers;
};

static struct product best_product(int n, int radix)
{
    struct product best = {n, n == 1 ? 0 : 99, 0};
    for (int k = 2; k <= radix; k++) {
        if (n % k != 0)
            continue;
        struct product p = best_product(n / k, radix);
        p = (struct product){n, p.factors + 1, p.peers + k - 1};
        if (p.factors < best.factors
            || (p.factors == best.factors && p.peers < best.peers))
            best = p;
    }
    return best;
}

static struct cost multiplied(const char *name, int n, int radix)
{
    int most = n;
    while (best_product(most, radix).factors >= 99)
        most--;
    const struct product p = best_product(most, radix);
    const double rest = n - most, fold = rest > 0 ? 2 : 0;
    return (struct cost){name, (double)most * p.peers + 2 * rest,
                         p.factors + fold, p.peers + fold, true};
}

static struct cost divided(const char *name, int n, int radix)
{
    const struct cost whole = multiplied(name, n, radix);
    int most = n;
    while (best_product(most, radix).factors >= 99)
        most--;
    const double fold = n > most ? 2 : 0;
    return (struct cost){name, 2.0 * (most - 1) + 2.0 * (n - most),
                         2 * whole.rounds - fold,
                         2.0 * (most - 1) / most + fold, true};
}

/* Every block between the largest and the smallest must hear from below before
 * it can hand over its ranks' parts, and so on the way back. */
static double blocks_port(int n)
{
    const int largest = 1 << log2_floor(n), smallest = n & -n;
    double port = 1;
    for (int size = 2 * smallest; size < largest; size *= 2)
        port += n & size ? 1.0 / size : 0;
    return 2 * (largest == n ? (n - 1.0) / n : port);
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
    const double logs = floor, one = n > 1, two = 2 * one,
                 blocks = blocks_port(n), all = n <= 16 ? one : up;
    const struct cost costs[] = {
        {"allreduce_recursive_doubling",    doubled,  down,     down,     true },
        {"allreduce_halving_doubling",      halved,   rounds,   port,     true },
        {"allreduce_halving_doubling_near", halved,   rounds,   port,     true },
        {"allreduce_ring",                  2 * rest, 2 * rest, 2 * most, true },
        {"allreduce_binomial_tree",         2 * rest, 2 * up,   2 * up,   full },
        {"allreduce_double_binary_tree",    2 * rest, -1,       -1,       false},
        {"allreduce_direct",                n * rest, one,      rest,     true },
        {"allreduce_direct_scatter",        2 * rest, two,      2 * most, true },
        multiplied("allreduce_recursive_multiplying", n, 4),
        multiplied("allreduce_recursive_multiplying_8", n, 8),
        divided("allreduce_dividing_multiplying", n, 4),
        divided("allreduce_dividing_multiplying_16", n, 16),
        {"allreduce_binary_blocks",         2 * rest, 2 * logs, blocks,   true },
        {"allreduce_swing",                 halved,   rounds,   port,     true },
        {"allreduce_ring_segmented",        2 * rest, 2 * rest, 2 * most, true },
        {"allreduce_hierarchical",          2 * rest, -1,       -1,       false},
        {"allreduce_leaders",               doubled,  -1,       -1,       false},
        {"reduce_binomial_tree",            rest,     up,       up,       full },
        {"reduce_halving_gather",           n,        more,     2 * most, true },
        {"reduce_chain",                    rest,     rest,     rest,     true },
        {"reduce_hierarchical",             rest,     -1,       -1,       false},
        {"broadcast_binomial_tree",         rest,     up,       -1,       full },
        {"broadcast_scatter_allgather",     rest,     more,     2,        false},
        {"broadcast_chain",                 rest,     rest,     rest,     true },
        {"broadcast_hierarchical",          rest,     -1,       -1,       false},
        {"reduce_scatter_halving",          rest,     up,       most,     true },
        {"reduce_scatter_ring",             rest,     rest,     most,     true },
        {"reduce_scatter_hierarchical",     rest,     all,      most,     true },
        {"allgather_bruck",                 rest,     up,       most,     true },
        {"allgather_ring",                  rest,     rest,     most,     true },
        {"allgather_hierarchical",          rest,     all,      most,     true },
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
        for (int n = 1; n <= 64 && serves(&algos[a], n); n++)
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

/* Latency alone, then bandwidth alone, on vectors that every n divides, and so
 * do the numbers near it that have small factors. */
Test(plans, time_is_what_the_formula_says)
{
    for (int a = 0; a < nplanned; a++)
        for (int n = 1; n <= 64 && serves(&algos[a], n); n++) {
            const struct cost cost = cost_of(algos[a].full_name, n);
            const size_t bytes = (size_t)n * 64 * 27 * 25 * 49 * 11 * 13;
            if (cost.rounds < 0)
                continue;
            const double latency = dry_run(&algos[a], n, bytes,
                                           (struct sim_net){
                                               .link = {1, 0, 0}
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
                                            .link = {0, 1.0 / (double)bytes, 0}
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
            make_plan(algo_find(ALLREDUCE, "double_binary_tree"), &p, r, n, 1);
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
        make_plan(algo_find(ALLREDUCE, names[i]), &p, 3, 16, 1);
        cr_assert_eq(p.steps[0].kind, PLAN_RECV);
        cr_assert_eq(p.steps[0].nchunks, 8);
        cr_assert_eq(p.steps[0].peer, first_partner[i]);
        plan_free(&p);
    }
}

/* The chunk of which a rank computes the whole sum: the last one added. */
static int summed_last(const char *name, int r, int n)
{
    struct plan p;
    int chunk = -1;
    make_plan(algo_find(ALLREDUCE, name), &p, r, n, 1);
    for (int i = 0; i < p.nsteps; i++)
        if (p.steps[i].kind == PLAN_REDUCE) {
            chunk = p.steps[i].chunk;
            cr_assert(p.steps[i].nchunks == 1 || i + 1 < p.nsteps);
        }
    plan_free(&p);
    return chunk;
}

static int reversed(int x, int bits)
{
    int y = 0;
    for (int i = 0; i < bits; i++)
        y |= (x >> i & 1) << (bits - 1 - i);
    return y;
}

/* Halving the distance leaves block r at rank r, doubling it the block whose
 * number is r with its bits in reverse. */
Test(plans, blocks_lie_in_order_or_in_order_of_reversed_bits)
{
    for (int bits = 1; bits <= 6; bits++)
        for (int n = 1 << bits, r = 0; r < n; r++) {
            cr_assert_eq(summed_last("halving_doubling", r, n), r);
            cr_assert_eq(summed_last("halving_doubling_near", r, n),
                         reversed(r, bits));
            cr_assert_eq(summed_last("binary_blocks", r, n), r);
            cr_assert_eq(summed_last("direct_scatter", r, n), r);
        }
}

/* Bytes of a vector that the busiest rank sends. */
static uint64_t most_sent(const char *name, int n, size_t count)
{
    struct sim_traffic traffic[MOST_RANKS];
    uint64_t most = 0;
    dry_run(algo_find(ALLREDUCE, name), n, count, (struct sim_net){0}, traffic);
    for (int r = 0; r < n; r++)
        most = traffic[r].bytes > most ? traffic[r].bytes : most;
    return most;
}

/* Folding sends as much in all, but not from all. */
Test(plans, binary_blocks_spare_the_ranks_that_folding_loads)
{
    static const int ns[] = {12, 24, 48, 160};
    for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++) {
        const int n = ns[i], pow2 = 1 << log2_floor(n);
        const size_t count = (size_t)pow2 * 100;
        const uint64_t folded = most_sent("halving_doubling", n, count);
        const uint64_t blocks = most_sent("binary_blocks", n, count);
        /* Above halving and doubling, one sends a whole vector to who folded
         * in, the other its part of one to who is in the smaller block. */
        const size_t both = 2 * (count - count / (size_t)pow2);
        cr_assert_eq(folded, both + count);
        cr_assert_eq(blocks, both + count / (size_t)pow2, "%d ranks: %lu", n,
                     (unsigned long)blocks);
        cr_assert_lt(4 * blocks, 3 * folded);
    }
}

/* On a ring of ranks, chunks times the links that they cross. */
static double hops(const char *name, int n)
{
    double all = 0;
    for (int r = 0; r < n; r++) {
        struct plan p;
        make_plan(algo_find(ALLREDUCE, name), &p, r, n, 1);
        for (int i = 0; i < p.nsteps; i++) {
            const int far = abs(p.steps[i].peer - r);
            if (p.steps[i].kind == PLAN_SEND)
                all += (double)p.steps[i].nchunks
                       * (far < n - far ? far : n - far);
        }
        plan_free(&p);
    }
    return all / n;
}

/* Round k moves n / 2^(k+1) chunks by 2^k ranks, or by |rho(k)|: the k-th sum
 * of 1 - 2 + 4 ..., about 2^(k+1) / 3. */
Test(plans, swing_takes_shorter_ways_on_a_ring)
{
    for (int n = 4, rounds = 2; n <= 1024; n *= 2, rounds++) {
        double swung = 0;
        for (int k = 0, rho = 1; k < rounds; k++, rho = 1 - 2 * rho)
            swung += 2.0 * (n >> (k + 1)) * abs(rho);
        cr_assert_eq(hops("halving_doubling_near", n), (double)n * rounds);
        cr_assert_eq(hops("swing", n), swung, "%d ranks: %g", n,
                     hops("swing", n));
        cr_assert(n < 64 || swung < 0.75 * n * rounds);
    }
}

Test(plans, segmented_ring_with_one_segment_is_the_ring)
{
    for (int n = 1; n <= 9; n++)
        for (int r = 0; r < n; r++) {
            struct plan p, q;
            make_plan(algo_find(ALLREDUCE, "ring"), &p, r, n, 1);
            make_plan(algo_find(ALLREDUCE, "ring_segmented"), &q, r, n, 1);
            cr_assert_eq(p.nsteps, q.nsteps);
            cr_assert_eq(p.nslots, q.nslots);
            for (int i = 0; i < p.nsteps; i++)
                cr_assert(!memcmp(&p.steps[i], &q.steps[i], sizeof(p.steps[i])),
                          "rank %d of %d, step %d", r, n, i);
            plan_free(&p);
            plan_free(&q);
        }
}

/* Adding takes as long as sending here: a plain ring does one after the other,
 * pieces hide all of it but a piece's. */
Test(plans, segmented_ring_adds_while_it_receives)
{
    const double rounds = 7, chunk = 1 << 20;
    struct rehearsal c = {
        .plan = plan_allreduce_ring_segmented,
        .nranks = 8,
        .count = 8 << 20,
        .elem_bytes = 1,
        .net = {.link = {0, 1e-9, 0}, .gamma = 1e-9},
    };
    for (c.segments = 1; c.segments <= 16; c.segments *= 4) {
        double seconds;
        cr_assert_eq(rehearse(&c, &seconds), COLL_OK);
        const double most = rounds * chunk * 1e-9 * (2 + 2.0 / c.segments);
        cr_assert_leq(seconds, most, "%d segments: %g s", c.segments, seconds);
    }
}

/* Connections are made at a rank's first message to another, so all would wait
 * for one rank that all meet first. Callers of rank r as their k-th new peer: */
struct meetings {
    int callers[MAX_RANKS][MAX_RANKS]; /* [k][r] */
};

static void meet(struct meetings *m, const struct plan *p)
{
    bool met[MAX_RANKS] = {false};
    int k = 0;
    for (int i = 0; i < p->nsteps; i++) {
        const struct step *s = &p->steps[i];
        if (s->kind != PLAN_SEND || met[s->peer])
            continue;
        met[s->peer] = true;
        m->callers[k++][s->peer]++;
    }
}

static int most_at_once(const struct algo *algo, int n)
{
    static struct meetings m;
    int most = 0;
    m = (struct meetings){.callers = {{0}}};
    for (int r = 0; r < n; r++) {
        struct plan p;
        make_plan(algo, &p, r, n, 1);
        meet(&m, &p);
        plan_free(&p);
    }
    for (int k = 0; k < n; k++)
        for (int r = 0; r < n; r++)
            most = m.callers[k][r] > most ? m.callers[k][r] : most;
    return most;
}

/* As many as a tree's root has children. A reduce is for one rank, which takes
 * its parts from all, and so may a binary block of one. */
Test(plans, nobody_is_met_by_all_at_once)
{
    for (int a = 0; a < nplanned; a++)
        for (int n = 3; n <= MAX_RANKS && serves(&algos[a], n); n++)
            if (algos[a].kind != REDUCE
                && strcmp(algos[a].full_name, "allreduce_binary_blocks"))
                cr_expect_leq(most_at_once(&algos[a], n), ceil(log2(n)),
                              "%s of %d ranks", algos[a].full_name, n);
}

Test(plans, print_as_text)
{
    struct plan p;
    char text[1024];
    make_plan(algo_find(ALLREDUCE, "ring"), &p, 1, 3, 1);
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
        .net = {.link = {2e-6, 1 / 12.5e9, 0}},
    };
    double seconds;
    const double bound = 2 * (n - 1) / n * bytes * c.net.link.beta;
    cr_assert_eq(rehearse(&c, &seconds), COLL_OK);
    cr_assert_leq(seconds, 1.25 * bound, "%g s, bound %g s", seconds, bound);
}
