/* SPDX-License-Identifier: MIT */
#include "comm/select.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "node/node.h"

enum { FARTHEST = 64 }; /* distance of operations that are due */

double select_seconds(int32_t log_time)
{
    return 100e-9 * exp2(log_time / 256.0);
}

void select_free(struct select *s)
{
    struct select_class **class = &s->class[0][0][0];
    memset(s->told, 0, sizeof(s->told));
    for (size_t i = 0; i < sizeof(s->class) / sizeof(*class); i++) {
        free(class[i]);
        class[i] = NULL;
    }
}

coll_status select_rules(struct select *s, const char *text, const char *source)
{
    const coll_status status = rules_parse(&s->rules, text, source);
    if (status == COLL_OK)
        select_free(s);
    return status;
}

/* What node/ takes: a line from each or each two, and the traffic; assumed. */
static double node_seconds(const struct select_node *node, enum algo_way way,
                           size_t bytes)
{
    static const double line = 0.15e-6, each = 0.01e-6, byte = 1 / 10e9;
    const double n = node->nranks, b = (double)bytes;
    return way == NODE_INLINE ? line + each * n + b * n * byte
                              : 2 * (line + each * n) + 2 * b * byte;
}

/* Where nothing is combined, one exchange less pays for another copy up to
 * twice the length. */
static size_t inline_best(const struct select *s, enum coll_kind kind)
{
    const bool moves = kind_has_parts(kind) && !kind_reduces(kind);
    if (kind == ALLREDUCE)
        return s->node.allreduce_bytes;
    return moves ? 2 * s->node.inline_bytes : s->node.inline_bytes;
}

/* Where a row of node/ may serve, it is faster than every plan. */
bool select_native(const struct select *s, enum coll_kind kind, size_t bytes,
                   struct select_choice *choice)
{
    int found = -1;
    for (int a = nplanned; a < nalgos && s->node.nranks; a++) {
        const bool direct = algos[a].way == NODE_DIRECT;
        if (algos[a].kind != kind || (!direct && bytes > NODE_INLINE_BYTES)
            || !rules_allow(&s->rules, a, ORDER_GIVEN, bytes))
            continue;
        if (found < 0 || direct == (bytes > inline_best(s, kind)))
            found = a;
    }
    if (found < 0)
        return false;
    *choice = (struct select_choice){
        .algo = found,
        .predicted = node_seconds(&s->node, algos[found].way, bytes),
        .candidate = -1,
    };
    return true;
}

/* What combines in ONE_PASS is priced for those who ask for it, and serves no
 * others, unless rules leave nothing else: ANYTHING. */
enum { ANYTHING = ONE_PASS + 1 };

static bool satisfies(const struct price_row *row, int order)
{
    return order == ANY_ORDER  ? !algo_in_order(&algos[row->algo])
           : order == ANYTHING ? true
                               : row->keeps >= order;
}

static bool rules_leave(const struct select *s, const struct price_row *row,
                        size_t bytes)
{
    return rules_allow(&s->rules, row->algo, (enum layout_order)row->order,
                       bytes);
}

/* A rank alone has no node, and sends nothing: rules that leave it nothing, as
 * they were made for the communicator that it was split off, are not for it. */
static bool rules_void(const struct select *s, enum coll_kind kind,
                       size_t bytes)
{
    for (int i = 0; i < s->prices.nrows && s->alone; i++)
        if (algos[s->prices.row[i].algo].kind == kind
            && rules_leave(s, &s->prices.row[i], bytes))
            return false;
    return s->alone;
}

static bool allows(const struct select *s, const struct price_row *row,
                   size_t bytes, int order)
{
    return satisfies(row, order)
           && (rules_leave(s, row, bytes)
               || rules_void(s, algos[row->algo].kind, bytes));
}

/* The rows that may serve, the cheapest first; as many as are learned about. */
static int list_rows(const struct select *s, enum coll_kind kind, int half,
                     size_t bytes, int order, uint8_t *rows)
{
    int n = 0;
    for (int i = 0; i < s->prices.nrows; i++) {
        const struct price_row *row = &s->prices.row[i];
        const struct price_row *twin = &s->prices.row[row->twin];
        if (algos[row->algo].kind != kind || !allows(s, row, bytes, order)
            || (twin != row && allows(s, twin, bytes, order)
                && price_half_time(twin, half) != PRICE_NONE))
            continue;
        int at = n < LEARN_CANDIDATES ? n++ : LEARN_CANDIDATES;
        for (; at > 0
               && price_half_time(&s->prices.row[rows[at - 1]], half)
                      > price_half_time(row, half);
             at--)
            if (at < LEARN_CANDIDATES)
                rows[at] = rows[at - 1];
        if (at < LEARN_CANDIDATES)
            rows[at] = (uint8_t)i;
    }
    return n > 0 || order != ANY_ORDER
               ? n
               : list_rows(s, kind, half, bytes, ANYTHING, rows);
}

/* Whether there is something to learn, and a barrier for it by a plan. */
static bool can_time(const struct select *s, const struct select_class *c,
                     int half)
{
    uint8_t rows[LEARN_CANDIDATES];
    int priced = 0;
    for (int i = 0; i < c->n; i++)
        priced +=
            price_half_time(&s->prices.row[c->row[i]], half) != PRICE_NONE;
    return priced > 1
           && list_rows(s, BARRIER, price_half(1), 1, ANY_ORDER, rows) > 0;
}

/* What an earlier job has kept of it, or else of the octave's other half, as
 * much later or sooner as it is priced. */
static int recalled(const struct price_row *row, int half)
{
    const int other = half ^ 1;
    if (row->recalled[half] != PRICE_NONE || row->recalled[other] == PRICE_NONE
        || price_half_time(row, half) == PRICE_NONE)
        return row->recalled[half];
    return row->recalled[other] + price_half_time(row, half)
           - price_half_time(row, other);
}

static enum algo_order order_of(enum select_pool pool)
{
    return pool == POOL_PAIRS ? IN_PAIRS : ANY_ORDER;
}

/* Depends on nothing but the class, so that it may be made by any call. */
static struct select_class *make_class(struct select *s, enum select_pool pool,
                                       enum coll_kind kind, int half)
{
    int32_t prior[LEARN_CANDIDATES];
    const size_t from = price_half_from(half);
    struct select_class *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    const size_t to =
        half == PRICE_HALVES - 1 ? SIZE_MAX : price_half_from(half + 1);
    if (rules_alike(&s->rules, kind, from, to))
        c->n = list_rows(s, kind, half, from, order_of(pool), c->row);
    for (int i = 0; i < c->n; i++)
        prior[i] = price_half_time(&s->prices.row[c->row[i]], half);
    if (c->n > 0)
        learn_start(&c->learn, c->n, prior);
    for (int i = 0; i < c->n; i++) {
        const int then = recalled(&s->prices.row[c->row[i]], half);
        if (then != PRICE_NONE)
            learn_recall(&c->learn, i, then);
    }
    c->distance = 1;
    c->times = can_time(s, c, half);
    s->class[pool][kind][half] = c;
    return c;
}

static coll_status forbidden(const struct select *s, enum coll_kind kind,
                             size_t bytes)
{
    return fail(COLL_ERR_UNSUPPORTED, "select",
                "the rules of COLL_ALGO forbid every algorithm for %s of %zu "
                "bytes that can serve these ranks%s",
                kind_names[kind], bytes,
                s->node.nranks ? "" : ", which are not all on one host");
}

/* Whether an algorithm would, if rules did not forbid it. */
static bool would(const struct select *s, int algo, enum algo_order order)
{
    for (int i = 0; i < s->prices.nrows; i++)
        if (s->prices.row[i].algo == algo
            && satisfies(&s->prices.row[i], order))
            return true;
    return algos[algo].way != BY_PLAN && algo_in_order(&algos[algo]);
}

/* What a result asks for, and who asks. */
static const char *const asked[] = {
    [RANK_ORDER] = "in rank order, as ops that do not commute ask for",
    [IN_PAIRS] = "in pairs in rank order, as COLL_DETERMINISM=full asks for",
    [ONE_PASS] = "in rank order and rounds once, as COLL_DETERMINISM=full asks "
                 "for of short floats and functions",
};

static coll_status forbidden_order(const struct select *s, enum coll_kind kind,
                                   size_t bytes, enum algo_order order)
{
    char names[400] = "";
    for (int a = 0; a < nalgos; a++)
        if (algos[a].kind == kind && would(s, a, order))
            snprintf(names + strlen(names), sizeof(names) - strlen(names),
                     "%s%s", *names ? ", " : "", algos[a].name);
    return fail(COLL_ERR_UNSUPPORTED, "select",
                "the rules of COLL_ALGO forbid every algorithm for %s of %zu "
                "bytes that combines %s; these do: %s",
                kind_names[kind], bytes, asked[order], names);
}

/* By what was measured, of it or of others; else by its price. */
static double expected(const struct select_class *c, int candidate,
                       const struct price_row *row, size_t bytes)
{
    int32_t log_time;
    const int samples = learn_estimate(&c->learn, candidate, &log_time);
    const double price = price_seconds(row, bytes);
    return price < 0 || (!samples && !c->learn.ratio)
               ? price
               : select_seconds(log_time);
}

/* Among what has a plan. next: for an operation that is timed. */
static coll_status choose(struct select *s, enum select_pool pool,
                          enum coll_kind kind, size_t bytes, bool next,
                          struct select_choice *choice)
{
    const int half = price_half(bytes);
    struct select_class *c = s->class[pool][kind][half];
    uint8_t rows[LEARN_CANDIDATES];
    int candidate = -1, row = -1;
    if (!c)
        c = make_class(s, pool, kind, half);
    if (!c)
        return fail(COLL_ERR_MEMORY, "select", "no memory for a choice");
    if (c->n > 0) {
        candidate = !s->adapts ? 0
                    : next     ? learn_choose(&c->learn)
                               : learn_best(&c->learn);
        row = c->row[candidate];
    } else if (list_rows(s, kind, half, bytes, order_of(pool), rows) > 0) {
        row = rows[0]; /* a rule that parts the class */
    }
    if (row < 0)
        return pool == POOL_PAIRS ? forbidden_order(s, kind, bytes, IN_PAIRS)
                                  : forbidden(s, kind, bytes);
    const struct price_row *from = &s->prices.row[row];
    *choice = (struct select_choice){
        .algo = from->algo,
        .order = from->order,
        .variant = from->variant[price_class(bytes)],
        .cut = from->cut,
        .keeps = pool == POOL_PAIRS,
        .trial =
            candidate >= 0 && s->adapts && candidate != learn_best(&c->learn),
        .predicted = s->adapts && candidate >= 0
                         ? expected(c, candidate, from, bytes)
                         : price_seconds(from, bytes),
        .pool = pool,
        .class = half,
        .candidate = s->adapts ? candidate : -1,
    };
    return COLL_OK;
}

coll_status select_best(struct select *s, enum coll_kind kind, size_t bytes,
                        struct select_choice *choice)
{
    return select_native(s, kind, bytes, choice)
               ? COLL_OK
               : choose(s, POOL_ANY, kind, bytes, false, choice);
}

/* By its price alone; nothing is learned of it. */
static struct select_choice of_row(const struct select *s, int i, size_t bytes)
{
    const struct price_row *row = &s->prices.row[i];
    return (struct select_choice){
        .algo = row->algo,
        .order = row->order,
        .variant = row->variant[price_class(bytes)],
        .cut = row->cut,
        .predicted = price_seconds(row, bytes),
        .candidate = -1,
    };
}

/* The first of n rows that can serve parts of different lengths; or n. */
static int first_uneven(const struct select *s, const uint8_t *rows, int n)
{
    int i = 0;
    while (i < n
           && layout_by_hosts((enum layout_order)s->prices.row[rows[i]].order))
        i++;
    return i;
}

coll_status select_in_order(struct select *s, enum coll_kind kind, size_t bytes,
                            struct select_need need,
                            struct select_choice *choice)
{
    uint8_t rows[LEARN_CANDIDATES];
    if (select_native(s, kind, bytes, choice))
        return COLL_OK;
    if (need.order == IN_PAIRS && !need.uneven)
        return choose(s, POOL_PAIRS, kind, bytes, need.timed, choice);
    const int n =
        list_rows(s, kind, price_half(bytes), bytes, need.order, rows);
    const int i = need.uneven ? first_uneven(s, rows, n) : 0;
    if (i == n)
        return forbidden_order(s, kind, bytes, need.order);
    *choice = of_row(s, rows[i], bytes);
    choice->keeps = true;
    return COLL_OK;
}

coll_status select_uneven(struct select *s, enum coll_kind kind, size_t bytes,
                          struct select_choice *choice)
{
    uint8_t rows[LEARN_CANDIDATES];
    const coll_status status = select_best(s, kind, bytes, choice);
    if (status < 0 || !layout_by_hosts(choice->order))
        return status;
    const int n = list_rows(s, kind, price_half(bytes), bytes, ANY_ORDER, rows);
    const int i = first_uneven(s, rows, n);
    if (i == n)
        return forbidden(s, kind, bytes);
    *choice = of_row(s, rows[i], bytes);
    return COLL_OK;
}

coll_status select_next(struct select *s, enum coll_kind kind, size_t bytes,
                        struct select_choice *choice)
{
    return select_native(s, kind, bytes, choice)
               ? COLL_OK
               : choose(s, POOL_ANY, kind, bytes, true, choice);
}

coll_status select_meeting(struct select *s, struct select_choice *choice)
{
    return choose(s, POOL_ANY, BARRIER, 1, false, choice);
}

/* What is curious leaves the distance as it is, so that a class which has long
 * been settled is again so, once it knows what has changed. */
bool select_is_due(struct select *s, enum select_pool pool, enum coll_kind kind,
                   size_t bytes)
{
    struct select_class *c = s->class[pool][kind][price_half(bytes)];
    if (!s->adapts || !c || !c->times)
        return false;
    const bool curious = learn_is_curious(&c->learn);
    if (++c->passed < c->distance && !curious)
        return false;
    c->passed = 0;
    if (!curious && c->distance < FARTHEST)
        c->distance *= 2;
    return true;
}

/* The first time that a candidate takes may be that of connecting ranks. Where
 * few operations are timed it would be out for thousands for that. */
static bool forgives(struct select_class *c, int candidate, int32_t log_time)
{
    enum { BAD = 256 }; /* x 2 */
    const uint64_t bit = UINT64_C(1) << candidate;
    int32_t best;
    const bool first = !(c->ran & bit);
    c->ran |= bit;
    learn_estimate(&c->learn, learn_best(&c->learn), &best);
    return first && candidate != learn_best(&c->learn) && log_time > best + BAD;
}

void select_observe(struct select *s, enum coll_kind kind,
                    const struct select_choice *choice, uint16_t code)
{
    struct select_class *c = s->class[choice->pool][kind][choice->class];
    if (!c || choice->candidate < 0 || code == 0)
        return;
    const int32_t log_time = learn_log_time(code);
    if (!kind_has_root(kind) || !forgives(c, choice->candidate, log_time))
        learn_observe(&c->learn, choice->candidate, log_time);
}

int select_learned(const struct select *s, int row, int half, int32_t *log_time)
{
    const enum coll_kind kind = algos[s->prices.row[row].algo].kind;
    int most = 0;
    for (int pool = 0; pool < NPOOLS; pool++) {
        const struct select_class *c = s->class[pool][kind][half];
        for (int i = 0; c && i < c->n; i++) {
            int32_t found;
            const int samples =
                c->row[i] == row ? learn_estimate(&c->learn, i, &found) : 0;
            if (samples > most) {
                most = samples;
                *log_time = found;
            }
        }
    }
    return most;
}
