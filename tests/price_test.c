/* SPDX-License-Identifier: MIT */
/* What is known of sizes that were not rehearsed, and what is rehearsed. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "comm/hosts.h"
#include "comm/price.h"
#include "price_all.h"
#include "thorough.h"

static const struct layout_costs costs = {
    .local = {1e-6, 1e-10, 0},
    .remote = {2e-5, 1e-9,  0},
    .gamma = 1e-10,
};

static double middle(int rung)
{
    return (double)price_bytes(ladder_class[rung]);
}

static void near(double found, double wanted)
{
    cr_assert_leq(fabs(found - wanted), 1e-9 * wanted, "%g is not %g", found,
                  wanted);
}

Test(ladder, is_a_line_between_two_rungs_and_beyond_the_last)
{
    struct ladder l;
    ladder_clear(&l, SIZE_MAX);
    for (int r = 0; r < LADDER_RUNGS; r += LADDER_LAST)
        l.seconds[0][r] = 1e-6 + 1e-9 * middle(r);
    for (int class = 0; class < PRICE_CLASSES; class ++) {
        const double bytes = (double)price_bytes(class);
        near(ladder_seconds(&l, 0, price_bytes(class)), 1e-6 + 1e-9 * bytes);
    }
    l.seconds[0][6] = 3 * (1e-6 + 1e-9 * middle(6)); /* a corner */
    near(ladder_seconds(&l, 0, price_bytes(ladder_class[6])), l.seconds[0][6]);
    cr_assert_gt(ladder_seconds(&l, 0, price_bytes(ladder_class[3])),
                 1e-6 + 1e-9 * middle(3));
}

Test(halves, begin_where_the_one_before_ends)
{
    cr_assert_eq(price_half(0), price_half(1));
    for (int half = 2; half < PRICE_HALVES; half++) {
        const size_t from = price_half_from(half);
        cr_assert_eq(price_half(from), half, "%zu", from);
        cr_assert_lt(price_half(from - 1), half, "%zu", from - 1);
        cr_assert_eq(price_class(from), half / 2, "%zu", from);
    }
    cr_assert_eq(price_half(SIZE_MAX), PRICE_HALVES - 1);
}

/* 20 us and 1 ns a byte: at 1.22 and 1.73 times where the octave begins. */
Test(halves, take_what_the_octaves_around_them_take)
{
    struct price_row row;
    for (int class = 0; class < PRICE_CLASSES; class ++)
        row.log_time[class] =
            price_log(20e-6 + 1e-9 * (double)price_bytes(class));
    for (int half = 0; half < PRICE_HALVES - 1; half++) {
        const double from = exp2(half / 2);
        const double middle = from * (half % 2 ? 1.73 : 1.22);
        const double seconds =
            100e-9 * exp2(price_half_time(&row, half) / 256.0);
        cr_assert_float_eq(seconds / (20e-6 + 1e-9 * middle), 1, 0.05,
                           "half %d: %g s", half, seconds);
    }
    row.log_time[9] = PRICE_NONE;
    cr_assert_eq(price_half_time(&row, 18), PRICE_NONE);
    cr_assert_eq(price_half_time(&row, 20), row.log_time[10]);
}

/* 1 us a KiB in the caches, 4 beyond them. */
Test(ladder, jumps_where_vectors_leave_the_caches)
{
    struct ladder l;
    const size_t cache = (size_t)1 << 20; /* between rungs 7 and 8 */
    const int rungs[] = {0, 6, 9, LADDER_LAST};
    ladder_clear(&l, cache);
    for (int i = 0; i < 4; i++) {
        const double bytes = middle(rungs[i]);
        l.seconds[0][rungs[i]] =
            bytes > (double)cache ? 4e-9 * bytes : 1e-9 * bytes;
    }
    for (int class = 2; class < 28; class ++) {
        const size_t bytes = price_bytes(class);
        near(ladder_seconds(&l, 0, bytes),
             (bytes > cache ? 4e-9 : 1e-9) * (double)bytes);
    }
    cr_assert_not(ladder_sure(&l, 0, 7));
    cr_assert_not(ladder_sure(&l, 0, 8));
    cr_assert(ladder_floor(&l, 0, 7) <= 1e-9 * middle(7));
}

Test(ladder, knows_nothing_before_the_first_rehearsal)
{
    struct ladder l;
    int variant;
    ladder_clear(&l, SIZE_MAX);
    for (int class = 0; class < PRICE_CLASSES; class ++)
        cr_assert(isinf(ladder_best(&l, price_bytes(class), &variant)));
}

Test(ladder, a_lone_rung_tells_only_of_longer_vectors)
{
    struct ladder l;
    ladder_clear(&l, SIZE_MAX);
    for (int v = 0; v < LADDER_VARIANTS; v += 2) {
        const size_t bytes = price_bytes(ladder_class[9]);
        l.seconds[v][9] = 1e-3;
        cr_assert(isinf(ladder_seconds(&l, v, bytes - 1)), "%d", v);
        near(ladder_seconds(&l, v, bytes), 1e-3);
        near(ladder_seconds(&l, v, 2 * bytes), 2e-3);
    }
}

static double seconds_of(int16_t log_time)
{
    return 100e-9 * exp2(log_time / 256.0);
}

/* Where the longer vector is the cheaper one, being cut otherwise, there is no
 * line between the two. */
Test(price, is_in_proportion_where_a_line_would_fall)
{
    enum { LOW = 20, HIGH = 21 };
    struct price_row row = {.algo = 0};
    for (int class = 0; class < PRICE_CLASSES; class ++)
        row.log_time[class] = PRICE_NONE;
    row.log_time[LOW] = price_log(2e-3);
    row.log_time[HIGH] = price_log(1e-3);
    const double dear = seconds_of(row.log_time[LOW]),
                 cheap = seconds_of(row.log_time[HIGH]);
    const size_t low = price_bytes(LOW), high = price_bytes(HIGH);
    const size_t less = high - high / 4, more = low + low / 4;
    const double far = (double)(high - less) / (double)(high - low);
    near(price_seconds(&row, less), cheap + (dear - cheap) * far);
    row.variant[HIGH] = 4;
    near(price_seconds(&row, less), cheap * (double)less / (double)high);
    near(price_seconds(&row, more), dear * (double)more / (double)low);
    near(price_seconds(&row, high), cheap);
    row.log_time[LOW] = price_log(1.01e-3);
    near(price_seconds(&row, less),
         cheap + (seconds_of(row.log_time[LOW]) - cheap) * far);
}

Test(ladder, segments_are_no_shorter_than_4_KiB)
{
    struct ladder l;
    int variant;
    ladder_clear(&l, SIZE_MAX);
    for (int r = 0; r < LADDER_RUNGS; r++) {
        l.seconds[0][r] = 1;
        l.seconds[4][r] = 0.5;
    }
    near(ladder_best(&l, 65535, &variant), 1);
    cr_assert_eq(variant, 0);
    near(ladder_best(&l, 65536, &variant), 0.5);
    cr_assert_eq(variant, 4);
}

Test(ladder, more_segments_are_run_if_they_promise_enough)
{
    struct ladder l;
    int variant;
    ladder_clear(&l, SIZE_MAX);
    for (int r = 0; r < LADDER_RUNGS; r++) {
        l.seconds[0][r] = 1;
        l.seconds[1][r] = 0.99;
        l.seconds[2][r] = 0.98;
        l.seconds[3][r] = 0.97;
    }
    near(ladder_choice(&l, 1 << 20, &variant), 0.98);
    cr_assert_eq(variant, 2);
    near(ladder_best(&l, 1 << 20, &variant), 0.97);
    cr_assert_eq(variant, 3);
}

static void price(struct prices *p, int nranks, double max_messages,
                  double max_seconds)
{
    struct layout l;
    cr_assert_eq(layout_create(&l, nranks, NULL, NULL, NULL, &costs), COLL_OK);
    cr_assert_eq(price_all(p, &l, max_messages, max_seconds), COLL_OK, "%s",
                 fail_sentence());
    layout_free(&l);
}

/* Prices of the candidates that are nearly the best are those of a rehearsal.
 */
Test(price, is_exact_where_it_decides)
{
    static const int ranks[] = {3, 8, 24};
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        struct prices p;
        struct layout l;
        price(&p, ranks[i], 1e6, 1e9);
        cr_assert_eq(layout_create(&l, ranks[i], NULL, NULL, NULL, &costs),
                     COLL_OK);
        for (int r = 0; r < LADDER_RUNGS; r++) {
            const int class = ladder_class[r];
            const struct price_row *best = &p.row[0]; /* an allreduce */
            for (int k = 1; k < p.nrows; k++)
                if (algos[p.row[k].algo].kind == ALLREDUCE
                    && p.row[k].log_time[class] < best->log_time[class])
                    best = &p.row[k];
            double seconds;
            cr_assert_eq(price_one(&l, &algos[best->algo],
                                   (enum layout_order)best->order,
                                   1 << best->variant[class],
                                   price_bytes(class), NULL, &seconds),
                         COLL_OK);
            cr_assert_eq(price_log(seconds), best->log_time[class],
                         "%s on %d ranks, class %d: %d is not %d",
                         algos[best->algo].name, ranks[i], class,
                         best->log_time[class], price_log(seconds));
        }
        layout_free(&l);
    }
}

/* Of those that keep an order. */
static const struct price_row *best_in(const struct prices *p,
                                       enum algo_order order,
                                       enum coll_kind kind, int class)
{
    const struct price_row *best = NULL;
    for (int i = 0; i < p->nrows; i++)
        if (algos[p->row[i].algo].kind == kind && p->row[i].keeps >= order
            && (!best || p->row[i].log_time[class] < best->log_time[class]))
            best = &p->row[i];
    return best;
}

static const struct price_row *best_of(const struct prices *p,
                                       enum coll_kind kind, int class)
{
    return best_in(p, ANY_ORDER, kind, class);
}

/* Without groups those that look at them are others' twins, of as many ranks as
 * pay for finding that out, and are not rehearsed beside them. */
Test(price, plans_that_are_the_same_are_rehearsed_once)
{
    static struct prices p;
    int twins = 0;
    price(&p, 100, 1e6, 1e9);
    for (int i = 0; i < p.nrows; i++) {
        const struct price_row *row = &p.row[i], *first = &p.row[row->twin];
        const char *name = algos[row->algo].name;
        if (algos[row->algo].kind >= GATHER
            && (strstr(name, "_levels") || !strcmp(name, "hierarchical")
                || !strcmp(name, "leaders")))
            cr_assert_neq(first, row, "%s", algos[row->algo].full_name);
        cr_assert_eq(
            memcmp(first->log_time, row->log_time, sizeof(row->log_time)), 0,
            "%s", algos[row->algo].full_name);
        twins += first != row;
    }
    cr_assert_geq(twins, 6, "%d", twins);
    /* 5.7 for each; 8.0 where twins are rehearsed as well. */
    cr_assert_lt(p.rehearsals, (uint32_t)(p.nrows - twins) * 13 / 2, "%u",
                 p.rehearsals);
}

/* From rank 0 a tree by hosts of four is the one in fours; from rank 1 that has
 * groups across hosts. */
Test(price, plans_that_are_the_same_from_one_root_only_are_no_twins)
{
    static struct prices p;
    uint64_t host_of[16];
    struct layout l;
    int found = 0;
    for (int r = 0; r < 16; r++)
        host_of[r] = (uint64_t)r / 4 + 1;
    cr_assert_eq(layout_create(&l, 16, host_of, NULL, NULL, &costs), COLL_OK);
    cr_assert_eq(price_all(&p, &l, 1e6, 1e9), COLL_OK);
    for (int i = 0; i < p.nrows; i++) {
        const struct algo *a = &algos[p.row[i].algo];
        if (strcmp(a->name, "knomial_levels"))
            continue;
        found++;
        cr_assert_eq(p.row[i].twin, i, "%s, order %d", a->full_name,
                     p.row[i].order);
    }
    cr_assert_geq(found, 2);
    layout_free(&l);
}

/* Where vectors leave the caches, lines from far shorter ones tell nothing of
 * what is nearly the best, with any number of segments: prices are right within
 * 7 %. */
Test(price, what_seems_the_best_below_the_end_of_the_caches_is_rehearsed)
{
    const struct layout_costs wan = {
        .local = {1e-6, 1e-10, 0},
        .remote = {5e-3, 8e-8,  0},
        .gamma = 1e-10,
        .memory = 1e-10,
        .cache = 16 << 20,
    };
    struct layout l;
    static struct prices p;
    cr_assert_eq(layout_create(&l, 4, NULL, NULL, NULL, &wan), COLL_OK);
    cr_assert_eq(price_all(&p, &l, 1e6, 1e9), COLL_OK);
    for (int i = 0; i < p.nrows; i++)
        for (int class = 12; class < 24; class ++) {
            const struct price_row *row = &p.row[i];
            double seconds;
            const int best =
                best_of(&p, algos[row->algo].kind, class)->log_time[class];
            if (row->log_time[class] > best + 11) /* 3 % */
                continue;
            cr_assert_eq(price_one(&l, &algos[row->algo],
                                   (enum layout_order)row->order,
                                   1 << row->variant[class], price_bytes(class),
                                   NULL, &seconds),
                         COLL_OK);
            cr_expect_leq(abs(row->log_time[class] - price_log(seconds)), 25,
                          "%s, class %d, %d segments: %d, takes %d",
                          algos[row->algo].full_name, class,
                          1 << row->variant[class], row->log_time[class],
                          price_log(seconds));
        }
    layout_free(&l);
}

/* All 16 are sent at once, and hand on one after another: seven hops of the
 * first, and what the others are behind it. */
Test(price, segments_arrive_in_the_order_in_which_they_were_sent)
{
    const double segment = 1 << 16;
    struct layout l;
    double seconds;
    cr_assert_eq(layout_create(&l, 8, NULL, NULL, NULL, &costs), COLL_OK);
    cr_assert_eq(price_one(&l, algo_find(BROADCAST, "chain"), ORDER_GIVEN, 16,
                           16 << 16, NULL, &seconds),
                 COLL_OK);
    near(seconds, 7 * (2e-5 + 1e-9 * segment) + 15 * 1e-9 * segment);
    layout_free(&l);
}

Test(price, rehearses_little_of_what_is_far_behind)
{
    struct prices p;
    price(&p, 64, 1e6, 1e9);
    for (int r = 0; r < p.nrows; r++)
        for (int class = 0; class < PRICE_CLASSES; class ++)
            cr_assert_eq(p.row[r].log_time[class] < PRICE_NONE,
                         !algo_in_order(&algos[p.row[r].algo]), "%s, class %d",
                         algos[p.row[r].algo].full_name, class);
    cr_assert_lt(p.rehearsals, (uint32_t)(p.nrows * LADDER_RUNGS * 7 / 10),
                 "%u rehearsals of %d candidates", p.rehearsals, p.nrows);
}

/* What a row takes: more than `bound` as it was priced, or else, since that may
 * go by a line, as it is rehearsed now. */
static int takes(const struct layout *l, const struct price_row *row, int class,
                 int bound)
{
    double seconds;
    if (row->log_time[class] >= bound)
        return row->log_time[class];
    cr_assert_eq(price_one(l, &algos[row->algo], (enum layout_order)row->order,
                           1 << row->variant[class], price_bytes(class), NULL,
                           &seconds),
                 COLL_OK);
    return price_log(seconds);
}

/* The same candidate serves; where lines took the place of rehearsals, one that
 * is as good but for 3 %. What was ruled out takes more than its price. */
static void pruning_is_right(const char *spec, int nranks, int *ruled_out)
{
    char error[256];
    coll_topo *topo;
    struct layout l;
    static struct prices all, pruned;
    cr_assert_eq(coll_topo_load(&topo, spec, "spec", error, sizeof(error)),
                 COLL_OK, "%s", error);
    cr_assert_eq(layout_create(&l, nranks, NULL, topo, NULL, &costs), COLL_OK);
    struct price_limits limits = {
        .messages = 2e5, .seconds = 1e9, .in_pairs = 1, .all = 1};
    cr_assert_eq(price_within(&all, &l, &limits), COLL_OK);
    limits.all = 0;
    cr_assert_eq(price_within(&pruned, &l, &limits), COLL_OK);
    cr_expect_lt(pruned.rehearsals, all.rehearsals);
    for (int k = 0; k < 2 * NKINDS * PRICE_CLASSES; k++) {
        const enum coll_kind kind = k / 2 % NKINDS;
        const int class = k / 2 / NKINDS;
        const enum algo_order order =
            k % 2 && kind_reduces(kind) ? IN_PAIRS : ANY_ORDER;
        const struct price_row *b = best_in(&pruned, order, kind, class);
        const int row = (int)(b - pruned.row);
        cr_expect_leq(all.row[row].log_time[class],
                      best_in(&all, order, kind, class)->log_time[class] + 11,
                      "%s, %s, class %d: %s", spec, kind_names[kind], class,
                      algos[b->algo].full_name);
        cr_expect(!(b->bounds >> class & 1), "%s, %s, class %d", spec,
                  kind_names[kind], class);
    }
    for (int i = 0; i < all.nrows; i++)
        for (int r = 0; r < LADDER_RUNGS; r++) {
            const int class = ladder_class[r];
            cr_expect_eq(all.row[i].bounds, 0);
            if (!(pruned.row[i].bounds >> class & 1))
                continue;
            ++*ruled_out;
            cr_expect_leq(
                pruned.row[i].log_time[class],
                takes(&l, &all.row[i], class, pruned.row[i].log_time[class]),
                "%s, %s, class %d", spec, algos[all.row[i].algo].full_name,
                class);
        }
    layout_free(&l);
    coll_topo_free(topo);
}

/* What combines in one pass has a price for those who ask for it, and costs the
 * others nothing. */
Test(price, one_pass_is_for_those_who_ask)
{
    struct layout l;
    static struct prices none, asked;
    struct price_limits limits = {.messages = 2e5, .seconds = 1e9};
    cr_assert_eq(layout_create(&l, 12, NULL, NULL, NULL, &costs), COLL_OK);
    cr_assert_eq(price_within(&none, &l, &limits), COLL_OK);
    limits.in_pairs = 1;
    cr_assert_eq(price_within(&asked, &l, &limits), COLL_OK);
    cr_expect_eq(none.nrows, asked.nrows);
    cr_expect_gt(asked.rehearsals, none.rehearsals);
    for (int i = 0; i < none.nrows; i++)
        cr_expect_eq(none.row[i].log_time[20] == PRICE_NONE,
                     algo_in_order(&algos[none.row[i].algo]));
    for (int i = 0; i < asked.nrows; i++)
        cr_expect_lt(asked.row[i].log_time[20], PRICE_NONE);
    layout_free(&l);
}

Test(price, what_is_not_rehearsed_would_not_be_chosen)
{
    static const struct {
        const char *spec;
        int nranks;
    } some[] = {
        {"rack:4 (3us 20GB/s shared) host:16 (1us 12.5GB/s)", 64},
        {"host:80 (5us 12.5GB/s)",                            80},
        {"island:3 (4us 20GB/s shared) rack:4 (2us 30GB/s shared) "
         "host:5 (1us 12.5GB/s)",                    60},
    };
    int ruled_out = 0;
    for (unsigned i = 0; i < cases(3, 1); i++)
        pruning_is_right(some[i].spec, some[i].nranks, &ruled_out);
    cr_expect_gt(ruled_out, 20, "%d", ruled_out);
}

Test(price, keeps_to_its_budget)
{
    struct prices p;
    price(&p, 64, 1e6, 0);
    cr_assert_eq(p.rehearsals, 0);
    cr_assert_eq(p.row[0].log_time[10], PRICE_NONE);
    price(&p, 64, 1000, 1e9); /* a ring has 64 * 126 messages */
    for (int r = 0; r < p.nrows; r++) {
        const char *name = algos[p.row[r].algo].name;
        const bool priced = p.row[r].log_time[20] < PRICE_NONE;
        if (!strcmp(name, "ring") || !strcmp(name, "recursive_doubling"))
            cr_assert_eq(priced, strcmp(name, "ring") != 0, "%s", name);
    }
}

/* --- by hosts -------------------------------------------------------------
 */

/* Four ranks on each of two hosts. */
static void make_hosts(struct layout *l)
{
    static const uint64_t host_of[] = {0, 0, 0, 0, 1, 1, 1, 1};
    const struct layout_costs pair = {
        .local = {1e-7, 1e-10, 0},
          .remote = {1e-6, 1e-10, 0}
    };
    cr_assert_eq(layout_create(l, 8, host_of, NULL, NULL, &pair), COLL_OK);
    l->by_hosts = 4;
}

Test(price, stages_by_hosts_overlap)
{
    enum { BYTES = 16 << 20 };
    struct layout l;
    make_hosts(&l);
    const double alone = hosts_seconds(&l, ALLREDUCE, BYTES, 1, 0);
    const double eighth = hosts_seconds(&l, ALLREDUCE, BYTES, 8, 0) / 8;
    near(hosts_seconds(&l, ALLREDUCE, BYTES, 1, 1), alone + 1);
    /* The first is combined before, the last is spread after what crosses. */
    near(hosts_seconds(&l, ALLREDUCE, BYTES, 8, 1), 8 + eighth);
    near(hosts_seconds(&l, BROADCAST, BYTES, 8, 1),
         8 + hosts_seconds(&l, BROADCAST, BYTES, 8, 0) / 8);
    near(hosts_seconds(&l, REDUCE_SCATTER, BYTES, 8, 1),
         8 + hosts_seconds(&l, REDUCE_SCATTER, BYTES, 8, 0) / 8);
    near(hosts_seconds(&l, ALLGATHER, BYTES, 8, 1),
         8 + hosts_seconds(&l, ALLGATHER, BYTES, 8, 0) / 8);
    /* With one processor for all nothing is won. */
    int machine_of[8] = {0};
    const struct crowd crowd = {1, 1, machine_of, 0, 0};
    cr_assert_eq(layout_crowd(&l, &crowd), COLL_OK);
    near(hosts_seconds(&l, ALLREDUCE, BYTES, 8, 1), 8 + 8 * eighth);
    layout_free(&l);
}

/* Few ranks, as many on each host, racks of hosts: all algorithms in all orders
 * fit. */
Test(price, there_is_room_for_all_candidates)
{
    struct layout l;
    static struct prices p;
    coll_topo *topo;
    char error[256];
    uint64_t host_of[16];
    int fits = 0;
    for (int r = 0; r < 16; r++)
        host_of[r] = (uint64_t)r / 2;
    cr_assert_eq(coll_topo_load(&topo, "rack:2 (2us 1GB/s) host:4 (1us 1GB/s)",
                                "spec", error, sizeof(error)),
                 COLL_OK, "%s", error);
    cr_assert_eq(layout_create(&l, 16, host_of, topo, NULL,
                               &(struct layout_costs){
                                   .local = {1e-7, 1e-10, 0}
    }),
                 COLL_OK);
    l.by_hosts = 2;
    for (enum layout_order order = 0; order < NLINEUPS; order++)
        for (int a = 0; a < nplanned; a++)
            fits += price_fits(&l, &algos[a], order);
    cr_assert_eq(
        price_within(&p, &l,
                     &(struct price_limits){.messages = 1, .in_pairs = 1}),
        COLL_OK);
    cr_assert_eq(p.nrows, fits);
    layout_free(&l);
    coll_topo_free(topo);
}

Test(price, long_vectors_by_hosts_are_cut_where_that_helps)
{
    struct layout l;
    static struct prices p;
    const int class = 24;
    make_hosts(&l);
    cr_assert_eq(price_all(&p, &l, 1e6, 1e9), COLL_OK);
    for (int i = 0; i < p.nrows; i++) {
        const struct price_row *row = &p.row[i];
        const struct algo *algo = &algos[row->algo];
        double whole, cut;
        if (row->order != ORDER_HOSTS || strcmp(algo->name, "ring"))
            continue;
        cr_assert_eq(row->variant[2], 0, "%s", algo->full_name);
        cr_assert_eq(price_one(&l, algo, ORDER_HOSTS, 1, price_bytes(class),
                               NULL, &whole),
                     COLL_OK);
        cr_assert_eq(price_one(&l, algo, ORDER_HOSTS, 1 << row->variant[class],
                               price_bytes(class), NULL, &cut),
                     COLL_OK);
        cr_assert(row->variant[class] > 0 && cut < 0.7 * whole,
                  "%s, %d: %g of %g", algo->full_name, row->variant[class], cut,
                  whole);
    }
    layout_free(&l);
}
