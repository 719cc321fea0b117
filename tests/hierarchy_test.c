/* SPDX-License-Identifier: MIT */
/* Plans on hosts in groups: random trees, every order of the ranks, every root.
 *
 * Vectors are weights.h's. Messages arrive in a shuffled order, and are copied
 * as late as they may be.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/price.h"
#include "exec/rehearse.h"
#include "thorough.h"
#include "weights.h"

enum { USUAL_RANKS = 48, MAX_RANKS = 512 };

static bool rooted(const struct algo *algo)
{
    return algo->kind == REDUCE || algo->kind == BROADCAST;
}

/* Others tests/plans_test.c has. */
static bool is_tried(enum coll_kind kind)
{
    return kind <= ALLGATHER;
}

/* Of which a rank puts in, or gets out, only its part of the vector. */
static bool in_parts(const struct algo *algo)
{
    return kind_has_parts(algo->kind);
}

static uint64_t wanted(const struct algo *algo, int n, size_t count, int root,
                       size_t i)
{
    uint64_t sum = 0;
    for (int r = 0; r < n; r++)
        sum += weight(r, i);
    return algo->kind == BROADCAST   ? weight(root, i)
           : algo->kind == ALLGATHER ? weight((int)(i * (size_t)n / count), i)
                                     : sum;
}

/* The elements of the result that rank r gets: [*from, *to). */
static void range_of(const struct algo *algo, int n, size_t count, int root,
                     int r, size_t *from, size_t *to)
{
    const size_t part = count / (size_t)n, rank = (size_t)r;
    const bool scatters = algo->kind == REDUCE_SCATTER;
    *from = scatters ? rank * part : 0;
    *to = scatters                            ? (rank + 1) * part
          : algo->kind == REDUCE && r != root ? 0
                                              : count;
}

/* Hosts of several ranks in groups of several hosts, numbered any way. */
struct cluster {
    struct layout layout;
    uint64_t hosts[MAX_RANKS];
    int group_of[MAX_RANKS];
};

/* Its hosts in so many groups whose link they share, if that is said. */
static void create_layout(struct cluster *c, int n, int ngroups, bool shared)
{
    const struct layout_groups groups = {
        ngroups, c->group_of, {2e-6, 1e-9, 0},
          shared ? 1e-9 : 0
    };
    const struct layout_costs costs = {
        .local = {1e-7, 1e-10, 0},
          .remote = {1e-6, 5e-10, 0}
    };
    cr_assert_eq(layout_create(&c->layout, n, c->hosts, NULL, &groups, &costs),
                 COLL_OK, "%s", fail_sentence());
}

static void make_cluster(struct cluster *c, int n, bool shuffled)
{
    const int nhosts = 1 + draw(n), ngroups = 1 + draw(5);
    for (int r = 0; r < n; r++)
        c->hosts[r] = (uint64_t)(shuffled ? draw(nhosts) : r * nhosts / n);
    for (int h = 0; h < MAX_RANKS; h++)
        c->group_of[h] = shuffled ? draw(ngroups) : h * ngroups / nhosts;
    create_layout(c, n, ngroups, draw(2));
}

struct trial {
    const struct algo *algo;
    const struct layout *layout;
    enum layout_order order;
    int root, segments;
    size_t count;
    bool in_place;
    unsigned seed;
};

/* Each byte enters (or leaves) each other group once, on every level. */
static void check_crossing(const struct trial *t, const struct plan_tree *tree,
                           const struct sim_traffic *traffic)
{
    const int n = t->layout->nranks, nlevels = t->layout->net.nlevels;
    int before = 1, in_tree = 0;
    for (int k = 0; k < nlevels; k++)
        in_tree += t->layout->net.level[k].ngroups < n;
    if (strcmp(t->algo->name, "hierarchical") || t->algo->kind == ALLREDUCE
        || tree->nlevels < in_tree)
        return;
    for (int k = 0; k <= nlevels; k++) {
        const int groups = k < nlevels ? t->layout->net.level[k].ngroups : n;
        uint64_t bytes = 0;
        for (int r = 0; r < n; r++)
            bytes += traffic[r].crossing[k];
        cr_assert_eq(bytes,
                     (uint64_t)(groups - before) * t->count * sizeof(uint64_t),
                     "%s on %d ranks, count %zu, seed %u: %lu bytes cross "
                     "level %d of %d groups",
                     t->algo->full_name, n, t->count, t->seed,
                     (unsigned long)bytes, k, groups);
        before = groups;
    }
}

static void run(const struct trial *t)
{
    const int n = t->layout->nranks;
    char *in[MAX_RANKS], *out[MAX_RANKS];
    char *whole_in[MAX_RANKS], *whole_out[MAX_RANKS];
    struct sim_traffic traffic[MAX_RANKS];
    uint16_t news[MAX_RANKS], least = 1023;
    int order[MAX_RANKS];
    struct plan_tree tree = {.nlevels = 0};
    for (int r = 0; r < n; r++) {
        uint64_t *x = malloc((t->count + 1) * sizeof(*x));
        for (size_t i = 0; i < t->count; i++)
            x[i] = weight(r, i);
        const size_t part = t->count / (size_t)n * (size_t)r * sizeof(*x);
        in[r] = whole_in[r] = (char *)x;
        out[r] = whole_out[r] =
            t->in_place ? in[r] : calloc(t->count + 1, sizeof(*x));
        in[r] += t->algo->kind == ALLGATHER ? part : 0;
        out[r] += t->algo->kind == REDUCE_SCATTER ? part : 0;
        news[r] = (uint16_t)(1 + draw(1000));
        least = news[r] < least ? news[r] : least;
    }
    cr_assert_eq(layout_fill_order(t->layout, t->order, t->root, order), 0);
    cr_assert_eq(order[0], t->order == ORDER_ROUND_ROBIN ? order[0] : t->root);
    cr_assert_eq(layout_fill_tree(t->layout, order, &tree), 0);
    struct rehearsal c = {
        .plan = t->algo->plan,
        .nranks = n,
        .segments = t->segments,
        .tree = &tree,
        .order = order,
        .count = t->count,
        .elem_bytes = sizeof(uint64_t),
        .net = t->layout->net,
        .reduce = &(struct combine){.kernel = add_weights},
        .in = in,
        .out = out,
        .in_parts = t->algo->kind == ALLGATHER,
        .out_parts = t->algo->kind == REDUCE_SCATTER,
        .traffic = traffic,
        .news = news,
    };
    c.net.jitter_seed = t->seed;
    double seconds;
    const coll_status status = rehearse(&c, &seconds);
    cr_assert_eq(status, COLL_OK,
                 "%s on %d ranks, %d segments, count %zu, seed %u: %d, %s",
                 t->algo->full_name, n, t->segments, t->count, t->seed, status,
                 fail_sentence());
    for (int r = 0; r < n; r++) {
        const uint64_t *x = (uint64_t *)whole_out[r];
        size_t from, to;
        range_of(t->algo, n, t->count, t->root, r, &from, &to);
        for (size_t i = from; i < to; i++)
            if (x[i] != wanted(t->algo, n, t->count, t->root, i))
                cr_assert_fail("%s in %s order on %d ranks, root %d, count "
                               "%zu, %d segments, seed %u: rank %d, element "
                               "%zu",
                               t->algo->full_name, layout_order_names[t->order],
                               n, t->root, t->count, t->segments, t->seed, r,
                               i);
        /* What each rank tells, all know in the end: the choice rides on it. */
        if (!rooted(t->algo) && t->count > 0)
            cr_assert_eq(news[r], least, "%s on %d ranks: news at rank %d",
                         t->algo->full_name, n, r);
        if (!t->in_place)
            free(whole_out[r]);
        free(whole_in[r]);
    }
    check_crossing(t, &tree, traffic);
    layout_free_tree(&tree);
}

Test(hierarchy, every_plan_is_right_on_any_tree, .timeout = 600)
{
    for (unsigned seed = 1; seed <= cases(60, 9); seed++) {
        struct cluster c;
        draw_state = seed;
        make_cluster(&c, 2 + draw(USUAL_RANKS - 2), seed % 3 == 0);
        const size_t n = (size_t)c.layout.nranks;
        const size_t counts[] = {0, 1, 7, n - 1, n, n + 1, 61, 331};
        for (int a = 0; a < nplanned; a++) {
            const struct plan_shape shape = {.nranks = c.layout.nranks,
                                             .segments = 1};
            if (!is_tried(algos[a].kind) || !algos[a].fits(&shape))
                continue;
            struct trial t = {
                .algo = &algos[a],
                .layout = &c.layout,
                .order = (enum layout_order)draw(NORDERS),
                .segments = 1 << draw(4),
                .count = counts[draw(8)],
                .in_place = draw(2) && algos[a].kind == ALLREDUCE,
                .seed = seed % 4 ? seed : 0,
            };
            if (rooted(t.algo)) {
                t.root = draw(c.layout.nranks);
                t.order = draw(2) ? ORDER_BLOCK : ORDER_GIVEN;
            }
            if (!strcmp(t.algo->name, "hierarchical")
                || !strcmp(t.algo->name, "leaders"))
                t.order = ORDER_BLOCK;
            if (in_parts(t.algo)) {
                t.order = ORDER_GIVEN;
                t.count *= (size_t)c.layout.nranks;
            }
            run(&t);
        }
        layout_free(&c.layout);
    }
}

static bool by_levels(const struct algo *algo)
{
    return is_tried(algo->kind)
           && (!strcmp(algo->name, "hierarchical")
               || strstr(algo->name, "_levels"));
}

/* All shapes of two groups of hosts, each of one or two ranks. */
Test(hierarchy, small_trees_are_all_right, .timeout = 600)
{
    for (int n = 2; n <= (int)cases(9, 3); n++)
        for (int bits = 0; bits < 1 << (n - 1); bits++) {
            struct cluster c;
            uint64_t host = 0;
            for (int r = 0; r < n; r++)
                c.hosts[r] = host += r > 0 && (bits >> (r - 1) & 1);
            for (int h = 0; h < MAX_RANKS; h++)
                c.group_of[h] = h < (int)(host + 1) / 2 ? 0 : 1;
            create_layout(&c, n, 2, true);
            for (int a = 0; a < nplanned; a++)
                if (by_levels(&algos[a])
                    || !strcmp(algos[a].full_name, "allreduce_leaders"))
                    run(&(struct trial){
                        .algo = &algos[a],
                        .layout = &c.layout,
                        .order =
                            in_parts(&algos[a]) ? ORDER_GIVEN : ORDER_BLOCK,
                        .root = rooted(&algos[a]) ? bits % n : 0,
                        .segments = 1 << bits % 4,
                        .count = in_parts(&algos[a]) ? (size_t)(2 * n) : 97,
                        .in_place = bits % 2,
                        .seed = (unsigned)bits,
                    });
            layout_free(&c.layout);
        }
}

/* Random groups in groups, of up to three levels, from one rank to all. */
static void nest(struct layout *l, int n, int depth)
{
    *l = (struct layout){
        .nranks = n,
        .net = {.link = {1e-7, 1e-10, 0},
                .nlevels = depth,
                .nhost_levels = depth},
        .group_of = malloc(sizeof(int) * (size_t)(n * depth))
    };
    int *before = NULL;
    for (int k = 0; k < depth; k++) {
        int *group_of = l->group_of + k * n, group = 0;
        const int rarely = depth - k;
        for (int r = 0; r < n; r++) {
            const bool parted = r > 0 && before && before[r] != before[r - 1];
            group += r > 0 && (parted || draw(3 * rarely) == 0);
            group_of[r] = group;
        }
        l->net.level[k] = (struct sim_level){
            .group_of = group_of,
            .ngroups = group + 1,
            .link = {1e-6, 1e-9, 0}
        };
        before = group_of;
    }
}

/* Slices would be too many where groups differ much: lanes.h. */
static bool has_plan(const struct trial *t)
{
    int order[MAX_RANKS];
    struct plan_tree tree;
    struct plan p;
    cr_assert_eq(layout_fill_order(t->layout, t->order, t->root, order), 0);
    cr_assert_eq(layout_fill_tree(t->layout, order, &tree), 0);
    t->algo->plan(&p, &(struct plan_shape){0, t->layout->nranks, 1, &tree, 0});
    const bool has = p.status != COLL_ERR_UNSUPPORTED;
    plan_free(&p);
    layout_free_tree(&tree);
    return has;
}

Test(hierarchy, levels_in_levels_in_levels_are_right, .timeout = 600)
{
    int deepest = 0, without = 0;
    const unsigned seeds = cases(75, 17);
    for (unsigned seed = 1; seed <= seeds; seed++) {
        struct layout l;
        draw_state = seed;
        const int n = 2 + draw(USUAL_RANKS - 2);
        const size_t m = (size_t)n;
        const size_t counts[] = {0, 1, 7, m - 1, m, m + 1, 97, 389};
        nest(&l, n, 1 + (int)seed % 3);
        deepest += l.net.nlevels == 3 && l.net.level[2].ngroups < n;
        for (int a = 0; a < nplanned; a++) {
            struct trial t = {
                .algo = &algos[a],
                .layout = &l,
                .order = in_parts(&algos[a]) ? ORDER_GIVEN : ORDER_BLOCK,
                .root = rooted(&algos[a]) ? draw(n) : 0,
                .segments = 1 << draw(5),
                .count = counts[draw(8)],
                .in_place = draw(2),
                .seed = seed,
            };
            t.count *= in_parts(&algos[a]) ? m : 1;
            if (!by_levels(&algos[a]))
                continue;
            if (has_plan(&t))
                run(&t);
            else
                without++;
            cr_assert(!in_parts(t.algo) || has_plan(&t));
        }
        layout_free(&l);
    }
    cr_assert_geq(deepest, (int)seeds / 6);
    cr_assert_lt(without, 3 * 150 / 20, "%d", without);
}

/* Hundreds of ranks; of 321 the last host and its group are smaller. */
Test(hierarchy, many_ranks_get_their_sums_too, .timeout = 600)
{
    static const struct {
        int n, of_host, of_group;
    } runs[] = {
        {512, 2,  16},
        {321, 8,  8 },
        {256, 16, 4 },
        {160, 1,  16},
        {160, 10, 4 },
    };
    for (size_t i = thorough() ? 0 : 4; i < sizeof(runs) / sizeof(runs[0]);
         i++) {
        static struct cluster c;
        const int n = runs[i].n;
        for (int r = 0; r < n; r++) {
            c.hosts[r] = (uint64_t)(r / runs[i].of_host);
            c.group_of[r] = r / runs[i].of_group; /* of host r */
        }
        create_layout(&c, n, 1 + (n - 1) / runs[i].of_host / runs[i].of_group,
                      true);
        int tried = 0;
        for (int a = 0; a < nplanned; a++) {
            const bool parts = in_parts(&algos[a]);
            struct trial t = {
                .algo = &algos[a],
                .layout = &c.layout,
                .order = parts ? ORDER_GIVEN : ORDER_BLOCK,
                .root = rooted(&algos[a]) ? n / 3 : 0,
                .segments = 4,
                .count = parts ? (size_t)n : 1031,
                .seed = (unsigned)i,
            };
            if ((by_levels(&algos[a])
                 || !strcmp(algos[a].full_name, "allreduce_leaders"))
                && has_plan(&t)) {
                run(&t);
                tried++;
            }
        }
        layout_free(&c.layout);
        cr_assert_geq(tried, 5, "%d", tried);
    }
}
