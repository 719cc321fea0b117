/* SPDX-License-Identifier: MIT */
/* The order of the ranks and the order of the steps are one decision (Fang et
 * al., "swCaffe", CLUSTER 2018): halving sends half of the vector first, to the
 * farthest position or to the nearest. So what crosses between groups is little
 * for near steps in block order and for far steps round robin, and much for the
 * other two pairs. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "selects.h"
#include "thorough.h"

enum { GROUPS_MAX = 256, RANKS_MAX = 4096 };

/* Groups of so many hosts with a rank each. The hosts of a group share a link
 * to the others as fast as the port of one. */
static struct layout lay_out(const int *sizes, int ngroups)
{
    struct layout l = {
        .net = {.link = {1e-6, 1e-10, 0}, .nlevels = 2}
    };
    for (int g = 0; g < ngroups; g++)
        l.nranks += sizes[g];
    int *const group = malloc(2 * (size_t)l.nranks * sizeof(int));
    int *const host = group + l.nranks;
    cr_assert(group);
    for (int g = 0, r = 0; g < ngroups; g++)
        for (int i = 0; i < sizes[g]; i++, r++) {
            group[r] = g;
            host[r] = r;
        }
    l.group_of = group;
    l.net.nhost_levels = 2;
    l.net.level[0] = (struct sim_level){
        .group_of = group,
        .ngroups = ngroups,
        .link = {3e-6, 1 / 12e9, 0},
        .shared = 1 / 12e9
    };
    l.net.level[1] = (struct sim_level){
        .group_of = host, .ngroups = l.nranks, .link = {1e-6, 1 / 12e9, 0}
    };
    return l;
}

static struct layout lay_out_even(int ngroups, int each)
{
    int sizes[GROUPS_MAX];
    for (int g = 0; g < ngroups; g++)
        sizes[g] = each;
    return lay_out(sizes, ngroups);
}

static void deal(const struct layout *l, int *order)
{
    cr_assert_eq(layout_fill_order(l, ORDER_ROUND_ROBIN, 0, order), COLL_OK);
}

/* Of a bijection each is the inverse of the other. */
Test(step_order, round_robin_is_the_map_of_the_paper_and_has_its_inverse)
{
    static int order[RANKS_MAX], position[RANKS_MAX];
    const int step = (int)cases(1, 7);
    for (int ngroups = 1; ngroups <= 64; ngroups += step)
        for (int each = 1; each <= 64; each += step) {
            struct layout l = lay_out_even(ngroups, each);
            deal(&l, order);
            memset(position, -1, sizeof(position));
            for (int at = 0; at < l.nranks; at++) {
                cr_assert_eq(order[at], at % ngroups * each + at / ngroups,
                             "%d of %d: %d at %d", ngroups, each, order[at],
                             at);
                position[order[at]] = at;
            }
            for (int r = 0; r < l.nranks; r++)
                cr_assert_eq(position[r], r % each * ngroups + r / each,
                             "%d of %d: rank %d at %d", ngroups, each, r,
                             position[r]);
            layout_free(&l);
        }
}

/* One from each group that is not empty yet, in turn. */
static void deal_by_hand(const int *sizes, int ngroups, int n, int *order)
{
    int at = 0;
    for (int turn = 0; at < n; turn++)
        for (int g = 0, first = 0; g < ngroups; first += sizes[g++])
            if (turn < sizes[g])
                order[at++] = first + turn;
}

Test(step_order, groups_of_different_sizes_are_dealt_in_turn)
{
    static int order[RANKS_MAX], wanted[RANKS_MAX];
    for (unsigned seed = 1; seed <= cases(300, 30); seed++) {
        int sizes[64];
        draw_state = seed;
        const int ngroups = 1 + draw(64);
        for (int g = 0; g < ngroups; g++)
            sizes[g] = 1 + draw(seed % 2 ? 64 : 4);
        struct layout l = lay_out(sizes, ngroups);
        deal(&l, order);
        deal_by_hand(sizes, ngroups, l.nranks, wanted);
        cr_assert_arr_eq(order, wanted, (size_t)l.nranks * sizeof(int),
                         "seed %u", seed);
        layout_free(&l);
    }
}

static const struct pair {
    const char *algo;
    enum layout_order order;
    bool right;
} pairs[] = {
    {"halving_doubling",      ORDER_BLOCK,       false},
    {"halving_doubling",      ORDER_ROUND_ROBIN, true },
    {"halving_doubling_near", ORDER_BLOCK,       true },
    {"halving_doubling_near", ORDER_ROUND_ROBIN, false},
};
enum { NPAIRS = sizeof(pairs) / sizeof(pairs[0]) };

/* What crosses between groups in an allreduce, in all; and its time. */
static uint64_t crossing(const struct layout *l, const struct pair *p,
                         size_t bytes, double *seconds)
{
    static struct sim_traffic traffic[RANKS_MAX];
    uint64_t all = 0;
    cr_assert_eq(price_one(l, algo_find(ALLREDUCE, p->algo), p->order, 1, bytes,
                           traffic, seconds),
                 COLL_OK);
    for (int r = 0; r < l->nranks; r++)
        all += traffic[r].crossing[0];
    return all;
}

static bool is_power(int n)
{
    return (n & (n - 1)) == 0;
}

/* Of the vector, what each rank sends across, both ways together. */
static double share(const struct pair *p, int n, int each)
{
    return 2.0 * (p->right ? n / each - 1 : n - each) / n;
}

/* The fastest pair, for who sees times only, is the one that sends least
 * across. */
static void check_pairs(const struct layout *l, int each)
{
    const int n = l->nranks;
    const size_t bytes = (size_t)n * 65536;
    uint64_t sent[NPAIRS], least = UINT64_MAX;
    double seconds[NPAIRS];
    int fastest = 0;
    for (int i = 0; i < NPAIRS; i++) {
        sent[i] = crossing(l, &pairs[i], bytes, &seconds[i]);
        least = sent[i] < least ? sent[i] : least;
        fastest = seconds[i] < seconds[fastest] ? i : fastest;
        if (each && is_power(n) && is_power(each))
            cr_assert_float_eq((double)sent[i] / (double)bytes / n,
                               share(&pairs[i], n, each), 1e-9, "%s, %d of %d",
                               pairs[i].algo, n, each);
    }
    cr_assert_eq(sent[fastest], least, "%d ranks, %d a group: %s", n, each,
                 pairs[fastest].algo);
}

Test(step_order, the_fastest_pair_sends_least_across, .timeout = 300)
{
    static const int shapes[][2] = {
        {2,  4  },
        {4,  16 },
        {3,  5  },
        {5,  3  },
        {2,  2  },
        {6,  10 },
        {16, 16 },
        {4,  256},
        {7,  100},
        {10, 100},
        {16, 256},
        {13, 315},
    };
    for (unsigned i = 0; i < cases(sizeof(shapes) / sizeof(shapes[0]), 6);
         i++) {
        struct layout l = lay_out_even(shapes[i][0], shapes[i][1]);
        check_pairs(&l, shapes[i][1]);
        layout_free(&l);
    }
    for (unsigned seed = 1; seed <= cases(20, 3); seed++) {
        int sizes[16];
        draw_state = seed;
        const int ngroups = 2 + draw(14);
        for (int g = 0; g < ngroups; g++)
            sizes[g] = 1 + draw(40);
        struct layout l = lay_out(sizes, ngroups);
        check_pairs(&l, 0);
        layout_free(&l);
    }
}

/* The library's own choice among them. */
static void check_choice(const struct layout *l)
{
    static struct select s;
    const size_t bytes = 16 << 20;
    uint64_t least = UINT64_MAX, own = 0;
    double seconds;
    select_free(&s);
    cr_assert_eq(price_all(&s.prices, l, 2e5, 1e9), COLL_OK);
    cr_assert_eq(
        select_rules(&s, "halving_doubling,halving_doubling_near", "x"),
        COLL_OK);
    const struct select_choice c = choice_of(&s, ALLREDUCE, bytes);
    for (int i = 0; i < NPAIRS; i++) {
        const uint64_t sent = crossing(l, &pairs[i], bytes, &seconds);
        least = sent < least ? sent : least;
        if (c.order == pairs[i].order
            && !strcmp(algos[c.algo].name, pairs[i].algo))
            own = sent;
    }
    cr_assert_eq(own, least, "%d ranks: %s, %s", l->nranks, algos[c.algo].name,
                 layout_order_names[c.order]);
}

Test(step_order, the_library_takes_a_right_pair, .timeout = 300)
{
    static const int shapes[][2] = {
        {2, 4 },
        {3, 5 },
        {4, 16},
        {8, 20},
        {12, 8},
        {3, 100},
        {16, 64},
    };
    for (unsigned i = 0; i < cases(7, 2); i++) {
        struct layout l = lay_out_even(shapes[i][0], shapes[i][1]);
        check_choice(&l);
        layout_free(&l);
    }
}
