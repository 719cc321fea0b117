/* SPDX-License-Identifier: MIT */
/* What plans on hosts in groups send and take: bytes that cross between groups,
 * messages of a rank, seconds by the model; or that there is no plan. Whether
 * they are right hierarchy_test.c says.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/log.h"
#include "price_all.h"
#include "thorough.h"

enum { MAX_RANKS = 144 };

/* Two groups of two hosts: each byte of the vector crosses once each way. */
Test(hierarchy_costs, a_slow_link_carries_the_vector_once_each_way)
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
Test(hierarchy_costs, takes_what_its_levels_take)
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
                kind_has_parts(algos[a].kind) ? ORDER_GIVEN : ORDER_BLOCK;
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
Test(hierarchy_costs, very_uneven_groups_are_right_or_left_out, .timeout = 600)
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
Test(hierarchy_costs, hosts_of_very_many_ranks_exchange_parts)
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
Test(hierarchy_costs, bruck_by_levels_takes_few_messages)
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
            if (!strstr(algos[a].name, "_levels") || algos[a].kind > ALLGATHER)
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
Test(hierarchy_costs, parts_for_other_hosts_cross_once)
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
