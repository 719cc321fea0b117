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
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "draw.h"
#include "exec/rehearse.h"
#include "plans.h"
#include "thorough.h"

enum { MAX_RANKS = 64, MOST_RANKS = 1025 };

struct element {
    uint64_t ranks, index;
};

static bool wrong_sum;

/* Not of neighbouring runs of ranks, the lower first; not two by two, as on a
 * binomial tree of so many ranks; and by how many at once. */
static bool out_of_order, unpaired;
static int team, fewest_at_once;

static bool follows(uint64_t lower, uint64_t upper)
{
    const int end = 64 - __builtin_clzll(lower);
    const uint64_t both = (lower | upper) >> __builtin_ctzll(lower);
    return __builtin_ctzll(upper) == end && (both & (both + 1)) == 0;
}

/* Of runs that follow each other. */
static bool pairs(uint64_t lower, uint64_t upper)
{
    const int first = __builtin_ctzll(lower), n = __builtin_popcountll(lower),
              next = __builtin_popcountll(upper);
    return (n & (n - 1)) == 0 && first % (2 * n) == 0
           && (next == n || (next < n && first + n + next == team));
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
            unpaired |=
                out_of_order || (nsrc < team && !pairs(all.ranks, next.ranks));
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
    const struct plan_tree *tree;
};

static const struct element canary = {0xabad1dea, 0xabad1dea};

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
        .tree = t->tree,
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

/* The same at each of them, with the seeds in turn. */
static void check_roots(const struct trial *of)
{
    struct trial t = *of;
    for (; t.root < (kind_has_root(t.algo->kind) ? t.n : 1);
         t.root += roots_apart(t.n)) {
        t.seed = of->seed + (unsigned)t.root;
        check(&t);
    }
}

/* Chunks are always equal where each rank has one: few counts do. On many ranks
 * each count takes one of the seeds. */
static void check_all_shapes(const struct algo *algo, int nranks)
{
    const size_t n = (size_t)nranks;
    const size_t counts[] = {0, 1, 7, n - 1, n, n + 1, 64, 131, 1009};
    const bool parts = kind_has_parts(algo->kind);
    const int most = algo_pipelines(algo, nranks) ? 4 : 1;
    const unsigned seeds = nranks <= 17 ? cases(2, 1) : 1;
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
    if (kind_has_root(algo->kind))
        check_roots(&(struct trial){
            .algo = algo, .n = nranks, .segments = 2, .count = 7});
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

/* Up to three levels of groups, from one rank to all; of two kinds: many of
 * one rank and few large ones, or all about as large. */
struct grouping {
    int first[3][MAX_RANKS + 1];
    struct plan_tree tree;
};

static void group(struct grouping *g, int n)
{
    const int depth = 1 + draw(3), uneven = draw(2);
    bool parted[MAX_RANKS] = {true};
    g->tree = (struct plan_tree){.nlevels = depth};
    for (int d = 0; d < depth; d++) {
        const int each = 2 + draw(uneven ? 3 : n), ones = draw(n + 1);
        int *first = g->first[d];
        for (int i = 0; i < n; i++) {
            parted[i] |= uneven && i < ones ? draw(2) : i % each == 0;
            if (parted[i])
                *first++ = i;
        }
        *first = n;
        g->tree.level[d] = (struct plan_level){
            .ngroups = (int)(first - g->first[d]),
            .first = g->first[d],
        };
    }
}

/* What looks at no groups, the test above has; what reduces or broadcasts,
 * tests/hierarchy_test.c. */
static bool moves_parts_by_groups(const struct algo *algo)
{
    return (algo->kind == GATHER || algo->kind == SCATTER
            || algo->kind == ALLTOALL || algo->kind == ALLGATHER)
           && (!strcmp(algo->name, "hierarchical")
               || !strcmp(algo->name, "leaders")
               || strstr(algo->name, "_levels"));
}

Test(plans, parts_come_to_their_places_through_groups_of_any_sizes,
     .timeout = 600)
{
    struct grouping g;
    for (int a = 0; a < nplanned; a++)
        for (int n = 1; n <= MAX_RANKS && moves_parts_by_groups(&algos[a]);
             n++) {
            if (!tries_ranks(n))
                continue;
            draw_state = (uint64_t)n;
            for (unsigned i = 0; i < cases(6, 2); i++) {
                group(&g, n);
                check_roots(&(struct trial){.algo = &algos[a],
                                            .n = n,
                                            .segments = 1,
                                            .count = i % 4 ? i : 7,
                                            .seed = i,
                                            .tree = &g.tree});
            }
        }
}

/* A rank alone hears from many at once, and there are more groups than the
 * executor's window holds transfers: nobody must wait for what stands behind.
 */
Test(plans, windows_hold_what_groups_of_very_different_sizes_send)
{
    static const int sizes[][3] = {
        {150, 70, 1 }, /* one of 150, others of 1 */
        {100, 2,  5 },
        {1,   90, 1 },
        {40,  3,  40},
    };
    int first[MOST_RANKS];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int a = 0; a < nplanned; a++) {
            int n = 0, ngroups = 0;
            for (; ngroups <= sizes[i][1]; ngroups++) {
                first[ngroups] = n;
                n += ngroups == sizes[i][1] / 2 ? sizes[i][0] : sizes[i][2];
            }
            first[ngroups] = n;
            const struct plan_tree tree = {1, {{ngroups, first}}};
            if (moves_parts_by_groups(&algos[a]))
                check(&(struct trial){
                    .algo = &algos[a],
                    .n = n,
                    .segments = 1,
                    .root = kind_has_root(algos[a].kind) ? n / 3 : 0,
                    .count = 1,
                    .seed = 2,
                    .tree = &tree});
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
            check_roots(&(struct trial){.algo = &algos[a],
                                        .n = n,
                                        .segments = 2,
                                        .count = (size_t)n + 3});
            cr_assert_eq(!out_of_order && fewest_at_once == n,
                         algo_in_order(&algos[a]), "%s, %d ranks",
                         algos[a].full_name, n);
        }
}

/* Also of a root that is not the first rank, with few segments and with many.
 */
static bool keeps_order(const struct algo *algo, int n)
{
    const bool rooted = kind_has_root(algo->kind)
                        && algo_keeps(algo, n) >= RANK_ORDER
                        && !algo_in_order(algo);
    out_of_order = unpaired = false;
    team = n;
    for (int root = 0; root < (rooted ? n : 1); root += roots_apart(n))
        for (int segments = 1; segments <= PLAN_SEGMENTS_MAX; segments *= 4)
            check(&(struct trial){.algo = algo,
                                  .n = n,
                                  .segments = segments,
                                  .root = root,
                                  .count = (size_t)n + 3,
                                  .seed = (unsigned)(root + segments),
                                  .keeps = rooted});
    return !out_of_order;
}

/* What algo_keeps() says: that neighbours are combined; on more than three
 * ranks just where it is so, that they are in pairs. Others do not combine
 * neighbours on every number of ranks, or this proves nothing. */
Test(plans, those_that_keep_an_order_say_so, .timeout = 600)
{
    for (int a = 0; a < nplanned; a++) {
        bool always = true, says = true;
        for (int n = 2; n <= MAX_RANKS && kind_reduces(algos[a].kind); n++) {
            if (!serves(&algos[a], n) || !tries_ranks(n))
                continue;
            const bool does = keeps_order(&algos[a], n),
                       told = algo_keeps(&algos[a], n) >= RANK_ORDER;
            cr_assert(does || !told, "%s, %d ranks", algos[a].full_name, n);
            cr_assert(algo_keeps(&algos[a], n) < IN_PAIRS || !unpaired,
                      "%s, %d ranks", algos[a].full_name, n);
            cr_assert(n <= 3 || !told
                          || !unpaired
                                 == (algo_keeps(&algos[a], n) >= IN_PAIRS),
                      "%s, %d ranks", algos[a].full_name, n);
            always &= does;
            says &= told;
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
        {"dividing_multiplying",    160 },
        {"dividing_multiplying",    1000},
        {"dividing_multiplying_16", 256 },
        {"dividing_multiplying_16", 1025},
        {"double_binary_tree",      100 },
        {"double_binary_tree",      1024},
        {"binomial_tree",           1000},
        {"knomial_tree",            1000},
        {"knomial_tree_8",          1025},
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
        for (unsigned seed = thorough() ? 0 : 2; seed < 3; seed++)
            check(&(struct trial){
                .algo = algo_find(ALLREDUCE, runs[i].name),
                .n = runs[i].n,
                .segments = 4,
                .count = seed == 2 ? 7 : 1031,
                .seed = seed,
            });
}

/* Odd ones, so that at least one folds in; drawn, the larger the rarer. */
Test(plans, halving_folds_any_number_of_ranks, .timeout = 300)
{
    const int apart = (int)cases(1, 56);
    draw_state = 7;
    for (int n = MAX_RANKS + 1; n <= MOST_RANKS;
         n += 2 * (apart + draw(1 + n / 64)))
        for (int near = 0; near < 2; near++)
            check(&(struct trial){
                .algo = algo_find(ALLREDUCE, near ? "halving_doubling_near"
                                                  : "halving_doubling"),
                .n = n,
                .segments = 1,
                .count = 7,
                .seed = (unsigned)(n + near) % 3,
            });
}

/* Two million messages. */
Test(plans, a_ring_of_a_thousand_sums_too, .timeout = 300)
{
    if (thorough())
        check(&(struct trial){.algo = algo_find(ALLREDUCE, "ring"),
                              .n = 1000,
                              .segments = 1,
                              .count = 1031,
                              .seed = 1});
}
