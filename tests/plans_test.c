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
#include "plans.h"
#include "thorough.h"

enum { MAX_RANKS = 64, MOST_RANKS = 1025 };

struct element {
    uint64_t ranks, index;
};

static bool wrong_sum;

/* Not of neighbouring runs of ranks, the lower first; and by how many at once.
 */
static bool out_of_order;
static int fewest_at_once;

static bool follows(uint64_t lower, uint64_t upper)
{
    const int end = 64 - __builtin_clzll(lower);
    const uint64_t both = (lower | upper) >> __builtin_ctzll(lower);
    return __builtin_ctzll(upper) == end && (both & (both + 1)) == 0;
}

static void set_union(void *const *dst, int ndst, const void *const *src,
                      int nsrc, size_t n, int divisor, bool stream)
{
    cr_assert(ndst == 1 && nsrc >= 2 && divisor == 1 && !stream);
    fewest_at_once = nsrc < fewest_at_once ? nsrc : fewest_at_once;
    for (size_t i = 0; i < n; i++) {
        struct element all = ((const struct element *)src[0])[i];
        for (int k = 1; k < nsrc; k++) {
            const struct element next = ((const struct element *)src[k])[i];
            wrong_sum |=
                (all.ranks & next.ranks) != 0 || all.index != next.index;
            out_of_order |= !follows(all.ranks, next.ranks);
            all.ranks |= next.ranks;
        }
        ((struct element *)dst[0])[i] = all;
    }
}

static void add_numbers(void *const *dst, int ndst, const void *const *src,
                        int nsrc, size_t n, int divisor, bool stream)
{
    cr_assert(ndst == 1 && nsrc >= 2 && divisor == 1 && !stream);
    for (size_t i = 0; i < n; i++) {
        struct element all = ((const struct element *)src[0])[i];
        for (int k = 1; k < nsrc; k++) {
            const struct element next = ((const struct element *)src[k])[i];
            wrong_sum |= all.index != next.index;
            all.ranks += next.ranks;
        }
        ((struct element *)dst[0])[i] = all;
    }
}

static const struct combine union_of_sets = {.kernel = set_union};
static const struct combine sum_of_numbers = {.kernel = add_numbers};

struct trial {
    const struct algo *algo;
    int n, segments, root;
    size_t count; /* as the caller of the collective says it */
    unsigned seed;
    bool keeps; /* positions are ranks, also of a reduce */
};

static const struct element canary = {0xabad1dea, 0xabad1dea};

/* Whether a rank puts in, or gets out, only its part of the vector. */
static bool gives_part(enum coll_kind kind)
{
    return kind == ALLGATHER || kind == GATHER;
}

static bool gets_part(enum coll_kind kind)
{
    return kind == REDUCE_SCATTER || kind == SCATTER;
}

static size_t in_count(const struct trial *t)
{
    const enum coll_kind kind = t->algo->kind;
    const bool all = kind_has_parts(kind) && !gives_part(kind);
    return all ? t->count * (size_t)t->n : t->count;
}

static size_t out_count(const struct trial *t)
{
    const enum coll_kind kind = t->algo->kind;
    const bool all = kind_has_parts(kind) && !gets_part(kind);
    return all ? t->count * (size_t)t->n : t->count;
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
    const bool part = gives_part(t->algo->kind);
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
    case GATHER:
        return (struct element){share_of(t, (int)(i / t->count)), i};
    case SCATTER:
        return (struct element){share_of(t, t->root), (size_t)r * t->count + i};
    case ALLTOALL:
        return (struct element){share_of(t, (int)(i / t->count)),
                                (size_t)r * t->count + i % t->count};
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
        v.in += gives_part(kind) ? mine : 0;
        v.out += gets_part(kind) ? mine : 0;
    } else {
        v.in = v.owned[0] = vector(in_count(t));
        v.out = v.owned[1] = vector(out_count(t));
    }
    for (size_t i = 0; i < in_count(t); i++)
        v.in[i] = given(t, r, i);
    /* As callers may. */
    if ((kind == REDUCE || kind == GATHER) && r != t->root)
        v.out = NULL;
    if ((kind == BROADCAST || kind == SCATTER) && r != t->root)
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
            || (gets_part(t->algo->kind) && i / t->count != (size_t)r);
        if (own && !equal(v->in[i], given(t, r, i)))
            cr_assert_fail("%s, %d ranks: input written", t->algo->full_name,
                           t->n);
    }
}

/* Odd seeds run in place, but for an alltoall, of which no plan does: the
 * library has them read a copy. Seeds above 0 also deliver messages out of
 * order. */
static void check(const struct trial *t)
{
    const enum coll_kind kind = t->algo->kind;
    const bool in_place = t->seed % 2 && kind != ALLTOALL;
    const bool fixed = kind_has_parts(kind) || t->keeps;
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
        .root = fixed ? 0 : t->root,
        .root_at = fixed ? t->root : 0,
        .count = in_count(t) > out_count(t) ? in_count(t) : out_count(t),
        .elem_bytes = sizeof(struct element),
        .net = {.link = {1e-6, 1e-10, 0}, .jitter_seed = t->seed},
        .reduce = t->n <= MAX_RANKS ? &union_of_sets : &sum_of_numbers,
        .in = in,
        .out = out,
        .in_parts = gives_part(kind),
        .out_parts = gets_part(kind),
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

/* Every root, or some of many. */
static int roots_apart(int nranks)
{
    return thorough() || nranks <= 9 ? 1 : 5;
}

/* Chunks are always equal where each rank has one: few counts do. On many ranks
 * each count takes one of the seeds. */
static void check_all_shapes(const struct algo *algo, int nranks)
{
    const size_t n = (size_t)nranks;
    const size_t counts[] = {0, 1, 7, n - 1, n, n + 1, 64, 131, 1009};
    const bool parts = kind_has_parts(algo->kind);
    const int most = algo_pipelines(algo, nranks) ? 4 : 1;
    const unsigned seeds = nranks <= 17 ? cases(4, 1) : 1;
    for (unsigned i = 0; i < (parts ? 3 : sizeof(counts) / sizeof(counts[0]));
         i++)
        for (unsigned k = 0; k < seeds; k++)
            for (int segments = 1; segments <= most; segments *= 4)
                check(&(struct trial){
                    .algo = algo,
                    .n = nranks,
                    .segments = segments,
                    .root = kind_has_root(algo->kind)
                                ? (int)(k + i) * 5 % nranks
                                : 0,
                    .count = counts[i],
                    .seed = (i + k) % 4,
                });
    for (int root = 0; root < nranks && kind_has_root(algo->kind);
         root += roots_apart(nranks))
        check(&(struct trial){algo, nranks, 2, root, 7, (unsigned)root, false});
}

Test(plans, each_share_comes_in_once_and_in_its_place, .timeout = 600)
{
    for (int a = 0; a < nplanned; a++)
        for (int n = 1; n <= MAX_RANKS && algos[a].kind != BARRIER; n++) {
            /* On more ranks tests/hierarchy_test.c has it, in its groups. */
            const bool flat =
                !strcmp(algos[a].full_name, "allreduce_hierarchical");
            if (serves(&algos[a], n) && tries_ranks(n) && (!flat || n <= 16))
                check_all_shapes(&algos[a], n);
        }
}

/* In place and not. Others combine another way, or this proves
 * nothing. */
Test(plans, those_in_rank_order_combine_all_at_once_from_rank_0_on)
{
    for (int a = 0; a < nplanned; a++)
        for (int n = 3; n <= MAX_RANKS && kind_reduces(algos[a].kind); n++) {
            if (!serves(&algos[a], n) || !tries_ranks(n))
                continue;
            out_of_order = false;
            fewest_at_once = n;
            for (int root = 0; root < (kind_has_root(algos[a].kind) ? n : 1);
                 root += roots_apart(n))
                check(&(struct trial){&algos[a], n, 2, root, (size_t)n + 3,
                                      (unsigned)root, false});
            cr_assert_eq(!out_of_order && fewest_at_once == n,
                         algo_in_order(&algos[a]), "%s, %d ranks",
                         algos[a].full_name, n);
        }
}

/* Also of a root that is not the first rank, with few segments and with many.
 */
static bool keeps_order(const struct algo *algo, int n)
{
    const bool rooted = kind_has_root(algo->kind) && algo_keeps_order(algo, n)
                        && !algo_in_order(algo);
    out_of_order = false;
    for (int root = 0; root < (rooted ? n : 1); root += roots_apart(n))
        for (int segments = 1; segments <= PLAN_SEGMENTS_MAX; segments *= 4)
            check(&(struct trial){algo, n, segments, root, (size_t)n + 3,
                                  (unsigned)(root + segments), rooted});
    return !out_of_order;
}

/* Others do not on every number of ranks, or this proves nothing. */
Test(plans, those_that_keep_the_order_combine_neighbouring_runs, .timeout = 600)
{
    for (int a = 0; a < nplanned; a++) {
        bool always = true, says = true;
        for (int n = 2; n <= MAX_RANKS && kind_reduces(algos[a].kind); n++) {
            if (!serves(&algos[a], n) || !tries_ranks(n))
                continue;
            const bool does = keeps_order(&algos[a], n);
            cr_assert(does || !algo_keeps_order(&algos[a], n), "%s, %d ranks",
                      algos[a].full_name, n);
            always &= does;
            says &= algo_keeps_order(&algos[a], n);
        }
        cr_assert_eq(always, says, "%s", algos[a].full_name);
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
        {"in_order",                65  },
        {"in_order_scatter",        33  },
        {"in_order_scatter",        100 },
    };
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
        for (unsigned seed = !thorough(); seed < 3; seed++)
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
        may &= algo->kind == REDUCE || algo->kind == GATHER ? me == 0
               : gets_part(algo->kind)                      ? own
                                       : algo->kind != BARRIER;
    else
        may &= algo->kind == BROADCAST || algo->kind == SCATTER ? me == 0
               : gives_part(algo->kind)                         ? own
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
                    const bool writes =
                        s->kind == PLAN_RECV || s->kind == PLAN_REDUCE
                        || s->kind == PLAN_COMBINE || s->kind == PLAN_COPY;
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

/* Connections are made at a rank's first message to another, so all would wait
 * for one rank that all meet first. Callers of rank r as their k-th new peer:
 */
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

/* As many as a tree's root has children: one of each distance, or in a k-nomial
 * tree k - 1. A reduce or gather is for one rank, which takes its parts from
 * all, and so may a binary block of one. */
static double children(const struct algo *algo, int n)
{
    if (!strcmp(algo->name, "knomial_tree"))
        return 3 * ceil(log(n) / log(4) - 1e-9);
    if (!strcmp(algo->name, "knomial_tree_8"))
        return 7 * ceil(log(n) / log(8) - 1e-9);
    return ceil(log2(n));
}

Test(plans, nobody_is_met_by_all_at_once)
{
    for (int a = 0; a < nplanned; a++)
        for (int n = 3; n <= MAX_RANKS && serves(&algos[a], n); n++)
            if (algos[a].kind != REDUCE && algos[a].kind != GATHER
                && strcmp(algos[a].full_name, "allreduce_binary_blocks"))
                cr_expect_leq(most_at_once(&algos[a], n),
                              children(&algos[a], n), "%s of %d ranks",
                              algos[a].full_name, n);
}
