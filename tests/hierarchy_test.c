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
#include "price_all.h"
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
        {160, 1,  16},
        {160, 10, 4 },
        {256, 16, 4 },
        {321, 8,  8 },
        {512, 2,  16},
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

/* Two groups of two hosts: each byte of the vector crosses once each way. */
Test(hierarchy, a_slow_link_carries_the_vector_once_each_way)
{
    const uint64_t hosts[] = {0, 1, 2, 3};
    const int group_of[] = {0, 0, 1, 1};
    const struct layout_groups groups = {
        2, group_of, {1e-6, 1e-9, 0},
          4e-9
    };
    const struct layout_costs costs = {
        .remote = {1e-6, 1e-9, 0}
    };
    struct layout l;
    cr_assert_eq(layout_create(&l, 4, hosts, NULL, &groups, &costs), COLL_OK);
    for (int a = 0; a < nplanned; a++) {
        struct sim_traffic traffic[4];
        double seconds, crossing = 0;
        const size_t bytes = 1 << 20;
        if (strcmp(algos[a].full_name, "allreduce_hierarchical"))
            continue;
        cr_assert_eq(
            price_one(&l, &algos[a], ORDER_BLOCK, 16, bytes, traffic, &seconds),
            COLL_OK);
        for (int r = 0; r < 4; r++)
            crossing += (double)traffic[r].crossing[0];
        cr_assert_float_eq(crossing, 2.0 * (double)bytes, 0.5);
        /* Busy all the time but for the first and the last segment. */
        cr_assert_lt(seconds, 1.1 * 4e-9 * (double)bytes, "%g", seconds);
    }
    layout_free(&l);
}

/* What so many hosts of so many ranks take for bytes, in one segment. */
static double time_of(int nhosts, int ranks, size_t bytes,
                      struct layout_costs costs)
{
    uint64_t hosts[256];
    struct layout l;
    double seconds = 0;
    for (int r = 0; r < nhosts * ranks; r++)
        hosts[r] = (uint64_t)(r / ranks);
    cr_assert_eq(layout_create(&l, nhosts * ranks, hosts, NULL, NULL, &costs),
                 COLL_OK);
    cr_assert_eq(price_one(&l, algo_find(ALLREDUCE, "hierarchical"),
                           ORDER_BLOCK, 1, bytes, NULL, &seconds),
                 COLL_OK, "%s", fail_sentence());
    layout_free(&l);
    return seconds;
}

/* There and back: up to eight tell each other at once, more in halves. */
static double rounds_of(int members)
{
    double rounds = 0;
    for (int n = members; n > 1; n /= 2)
        rounds += 2;
    return members <= 8 ? 2 : rounds;
}

/* Inside 2 (g - 1)/g of the vector by each rank's port. Outside 2 (G - 1)/G of
 * a slice of 1/g for each rank, and all g of them by the port that they share.
 * Two hosts exchange what they have, in one round. */
Test(hierarchy, takes_what_its_levels_take)
{
    const double bytes = 1 << 20;
    for (int hosts = 2; hosts <= 16; hosts *= 2)
        for (int ranks = 2; ranks <= 16; ranks *= 2) {
            const struct layout_costs costs = {
                .local = {3e-7, 1e-10, 0},
                  .remote = {2e-6, 5e-10, 0}
            };
            const double inside = 2 * (ranks - 1.0) / ranks * bytes;
            const double outside = 2 * (hosts - 1.0) / hosts * bytes;
            const double wanted =
                rounds_of(ranks) * costs.local.alpha + inside * costs.local.beta
                + (hosts == 2 ? 1 : rounds_of(hosts)) * costs.remote.alpha
                + outside * costs.remote.beta;
            const double found = time_of(hosts, ranks, (size_t)bytes, costs);
            cr_assert_float_eq(found, wanted, 1e-9 * wanted,
                               "%d hosts of %d: %.12g s, wanted %.12g", hosts,
                               ranks, found, wanted);
        }
}

/* Hosts of so many ranks; 0 ends the list. */
static void check_uneven(const int *sizes, int segments)
{
    enum { MOST = 80 };
    static const struct layout_costs costs = {
        .local = {1e-7, 1e-10, 0},
          .remote = {1e-6, 5e-10, 0}
    };
    uint64_t hosts[MOST];
    struct layout l;
    struct prices prices;
    int n = 0, priced = 0;
    for (int h = 0; sizes[h]; h++)
        for (int i = 0; i < sizes[h]; i++)
            hosts[n++] = (uint64_t)h;
    cr_assert_eq(layout_create(&l, n, hosts, NULL, NULL, &costs), COLL_OK);
    for (int a = 0; a < nplanned; a++)
        for (size_t bytes = 64; bytes <= 4 << 20; bytes *= 256) {
            const enum layout_order order =
                in_parts(&algos[a]) ? ORDER_GIVEN : ORDER_BLOCK;
            double seconds;
            if (!algos[a].fits(
                    &(struct plan_shape){.nranks = n, .segments = 1}))
                continue;
            const coll_status status = price_one(&l, &algos[a], order, segments,
                                                 bytes, NULL, &seconds);
            cr_assert(status == COLL_OK || status == COLL_ERR_UNSUPPORTED,
                      "%s on %d ranks, %zu bytes, %d segments: %d, %s",
                      algos[a].full_name, n, bytes, segments, status,
                      fail_sentence());
        }
    if (segments == 1) { /* tries all numbers itself */
        cr_assert_eq(price_all(&prices, &l, 1e6, 1e9), COLL_OK, "%s",
                     fail_sentence());
        for (int i = 0; i < prices.nrows; i++)
            priced += prices.row[i].log_time[20] != PRICE_NONE;
        cr_assert_gt(priced, prices.nrows * 3 / 4);
    }
    layout_free(&l);
}

/* Where a rank of a small group carries much it has many messages at once: they
 * must not wait for one another. */
Test(hierarchy, very_uneven_groups_are_right_or_left_out, .timeout = 600)
{
    static const int uneven[][36] = {
        {11,  1, 1, 1,   1,  1, 1,  1 },
        {10,  1, 1, 1,   1,  1, 1,  1 },
        {4,   1, 1, 1,   1,  1, 1,  1,  1},
        {7,   1,    1,  1, 1, 1},
        {2, 31, 1, 3   },
        {33,  1,  1,  1,    1,  1, 1,  1,    1, 1, 1, 1, 1, 1, 1, 1, 1,
         1,  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
        {8,  8,  8,  8,              8,    8,    8, 8},
    };
    for (size_t i = 0; i < cases(sizeof(uneven) / sizeof(uneven[0]), 3); i++)
        for (int segments = 1; segments <= PLAN_SEGMENTS_MAX; segments *= 4)
            if (thorough() || segments == (i % 2 ? 1 : PLAN_SEGMENTS_MAX))
                check_uneven(uneven[i], segments);
}

/* What two hosts of very many ranks have for each other is more messages than
 * ranks have under way at once. */
Test(hierarchy, hosts_of_very_many_ranks_exchange_parts)
{
    enum { MOST = 300 };
    static const int shapes[][3] = {
        {132, 132, 0  },
        {150, 1,   149}
    };
    static const struct layout_costs costs = {
        .local = {1e-7, 1e-10, 0},
          .remote = {1e-6, 5e-10, 0}
    };
    for (size_t i = 0; i < cases(2, 0); i++) { /* it takes seconds */
        uint64_t hosts[MOST];
        struct layout l;
        int n = 0;
        for (int h = 0; h < 3; h++)
            for (int k = 0; k < shapes[i][h]; k++)
                hosts[n++] = (uint64_t)h;
        cr_assert_eq(layout_create(&l, n, hosts, NULL, NULL, &costs), COLL_OK);
        for (int a = 0; a < nplanned; a++) {
            const char *name = algos[a].full_name;
            double seconds;
            if (strcmp(name, "alltoall_leaders")
                && strcmp(name, "alltoall_hierarchical"))
                continue;
            cr_assert_eq(price_one(&l, &algos[a], ORDER_GIVEN, 1, (size_t)n * 8,
                                   NULL, &seconds),
                         COLL_OK, "%s: %s", name, fail_sentence());
        }
        layout_free(&l);
    }
}

/* Three messages for each four times as many groups of a level, and a second
 * one where a run wraps round; the whole vector is heard once. */
Test(hierarchy, bruck_by_levels_takes_few_messages)
{
    static const int shapes[][2] = {
        {4, 8 },
        {3, 5 },
        {8, 4 },
        {2, 16},
        {5, 9 }
    };
    static const struct layout_costs costs = {
        .local = {1e-7, 1e-10, 0},
          .remote = {1e-6, 5e-10, 0}
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const int groups = shapes[i][0], each = shapes[i][1];
        const int n = groups * each;
        uint64_t hosts[MAX_RANKS], most = 0;
        struct layout l;
        for (int r = 0; r < n; r++)
            hosts[r] = (uint64_t)(r / each);
        for (int below = 1; below < groups; below *= 4)
            most += 3;
        for (int below = 1; below < each; below *= 4)
            most += 3;
        cr_assert_eq(layout_create(&l, n, hosts, NULL, NULL, &costs), COLL_OK);
        for (int a = 0; a < nplanned; a++) {
            struct sim_traffic traffic[MAX_RANKS];
            const size_t bytes = (size_t)n * 8;
            double seconds;
            if (!strstr(algos[a].name, "_levels") || !is_tried(algos[a].kind))
                continue;
            cr_assert_eq(price_one(&l, &algos[a], ORDER_GIVEN, 1, bytes,
                                   traffic, &seconds),
                         COLL_OK);
            for (int r = 0; r < n; r++) {
                cr_assert_leq(traffic[r].messages, 2 * most,
                              "%s on %d of %d: rank %d sends %lu",
                              algos[a].full_name, groups, each, r,
                              (unsigned long)traffic[r].messages);
                cr_assert_eq(traffic[r].bytes, bytes - 8, "rank %d", r);
            }
        }
        layout_free(&l);
    }
}

/* Sent by all ranks together, in blocks, and the most messages of a rank. */
struct moved {
    const char *name;
    int sent, messages;
};

/* Each block for another host crosses once, whatever is handed on inside. */
Test(hierarchy, parts_for_other_hosts_cross_once)
{
    static const struct layout_costs costs = {
        .local = {1e-7, 1e-10, 0},
          .remote = {1e-6, 5e-10, 0}
    };
    static const int shapes[][2] = {
        {2, 8},
        {5, 3},
        {7, 3},
        {9, 4},
        {3, 9}
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const int h = shapes[i][0], g = shapes[i][1], n = h * g, away = n - g;
        const int hosts_each = (h - 1 + g - 1) / g;
        const struct moved moved[] = {
            {"gather_leaders",        away + h * (g - 1),                        1        },
            {"scatter_leaders",       away + h * (g - 1),                        h + g - 2},
            {"alltoall_hierarchical", n * (2 * n - h - g),                       h + g - 2},
            {"alltoall_leaders",      3 * n * away - 2 * h * away + n * (g - 1),
             hosts_each + 5 * (g - 1)                                                     },
        };
        uint64_t hosts[MAX_RANKS];
        struct layout l;
        for (int r = 0; r < n; r++)
            hosts[r] = (uint64_t)(r / g);
        cr_assert_eq(layout_create(&l, n, hosts, NULL, NULL, &costs), COLL_OK);
        for (int a = 0; a < nplanned; a++)
            for (size_t k = 0; k < sizeof(moved) / sizeof(moved[0]); k++) {
                struct sim_traffic traffic[MAX_RANKS];
                const size_t block = 8, bytes = (size_t)n * block;
                const bool all = algos[a].kind == ALLTOALL;
                uint64_t sent = 0, crossing = 0;
                double seconds;
                if (strcmp(algos[a].full_name, moved[k].name))
                    continue;
                cr_assert_eq(price_one(&l, &algos[a], ORDER_GIVEN, 1, bytes,
                                       traffic, &seconds),
                             COLL_OK);
                for (int r = 0; r < n; r++) {
                    sent += traffic[r].bytes;
                    crossing += traffic[r].crossing[0];
                    cr_assert_leq(traffic[r].messages,
                                  (uint64_t)moved[k].messages, "%s, %d of %d",
                                  moved[k].name, h, g);
                }
                cr_assert_eq(sent, (uint64_t)moved[k].sent * block,
                             "%s, %d of %d: %lu", moved[k].name, h, g,
                             (unsigned long)sent);
                cr_assert_eq(crossing,
                             (uint64_t)(all ? n : 1) * (uint64_t)away * block);
            }
        layout_free(&l);
    }
}
