/* SPDX-License-Identifier: MIT */
#include "comm/explain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "base/nearest.h"
#include "comm/here.h"
#include "comm/owner.h"
#include "comm/red_op.h"

/* What is explained: a communicator's choice, or that on a described cluster.
 */
struct question {
    struct select *select;
    const struct layout *layout;
    enum coll_kind kind;
    enum algo_order order; /* that a result asks for */
    size_t bytes;
};

coll_status explain_kind(const char *caller, const char *name,
                         enum coll_kind *kind)
{
    for (int k = 0; k < NKINDS && name; k++)
        if (!strcmp(name, kind_names[k])) {
            *kind = (enum coll_kind)k;
            return COLL_OK;
        }
    const char *near = name ? nearest_name(name, kind_names, NKINDS) : NULL;
    return fail(COLL_ERR_INVALID, "comm", "%s: \"%s\" is no collective%s%s%s",
                caller, name ? name : "NULL", near ? "; did you mean " : "",
                near ? near : "", near ? "?" : "");
}

/* The bytes of the whole vector. */
static coll_status whole(const coll_comm *comm, enum coll_kind kind,
                         size_t count, coll_dtype dtype, size_t *bytes)
{
    const size_t elem = coll_dtype_bytes(dtype);
    const size_t parts = kind_has_parts(kind) ? (size_t)comm->nranks : 1;
    if (!elem)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_explain: %d is no coll_dtype", (int)dtype);
    if (count > SIZE_MAX / 2 / elem / parts)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_explain: %zu elements are more than an address space "
                    "holds",
                    count);
    *bytes = kind == BARRIER ? 1 : count * elem * parts;
    return COLL_OK;
}

coll_status coll_explain(const coll_comm *comm, const char *collective,
                         size_t count, coll_dtype dtype, coll_op op,
                         coll_choice *choice)
{
    struct select_choice selected;
    struct reduction how = {.in_order = ANY_ORDER};
    enum coll_kind kind = ALLREDUCE;
    size_t bytes = 0;
    if (!comm || !choice)
        return fail(COLL_ERR_INVALID, "comm", "coll_explain: %s is NULL",
                    comm ? "choice" : "the communicator");
    coll_comm *c = (coll_comm *)comm;
    coll_status status = comm_enter(c, "explain");
    if (status < 0)
        return status;
    status = explain_kind("coll_explain", collective, &kind);
    if (status == COLL_OK && !coll_op_name(op))
        status = fail(COLL_ERR_INVALID, "comm",
                      "coll_explain: %d is no coll_op", (int)op);
    if (status == COLL_OK)
        status = whole(c, kind, count, dtype, &bytes);
    if (status == COLL_OK && kind_reduces(kind))
        status = red_op_find(c, "coll_explain", dtype, op, &how);
    if (status == COLL_OK)
        status = how.in_order ? select_in_order(
                     &c->select, kind, bytes,
                     (struct select_need){.order = how.in_order}, &selected)
                              : select_best(&c->select, kind, bytes, &selected);
    comm_leave(c);
    if (status == COLL_OK)
        *choice = (coll_choice){algos[selected.algo].name, selected.predicted};
    return status;
}

/* The part of a price that no bandwidth could mend. */
static double latency_of(const struct layout *l, const struct price_row *row,
                         size_t bytes)
{
    struct layout endless = *l;
    double seconds = -1;
    endless.net.link.beta = 0;
    endless.net.gamma = endless.net.copy = 0;
    endless.cache = 0;
    for (int k = 0; k < endless.net.nlevels; k++) {
        endless.net.level[k].link.beta = 0;
        endless.net.level[k].shared = 0;
    }
    price_one(&endless, &algos[row->algo], (enum layout_order)row->order,
              1 << row->variant[price_class(bytes)], bytes, NULL, &seconds);
    return seconds;
}

/* What counts when two are compared. */
static double expected(const coll_candidate *c)
{
    if (c->measured_seconds > 0)
        return c->measured_seconds;
    return c->predicted_seconds < 0 ? INFINITY : c->predicted_seconds;
}

static int by_time(const void *a, const void *b)
{
    const coll_candidate *x = a, *y = b;
    if (x->chosen != y->chosen)
        return y->chosen - x->chosen;
    return expected(x) < expected(y) ? -1 : expected(x) > expected(y);
}

/* A time as people say it. */
static const char *spoken(double seconds, char *text, size_t bytes)
{
    if (seconds >= 0.9995)
        snprintf(text, bytes, "%.3g s", seconds);
    else if (seconds >= 0.9995e-3)
        snprintf(text, bytes, "%.3g ms", 1e3 * seconds);
    else
        snprintf(text, bytes, "%.3g us", 1e6 * seconds);
    return text;
}

/* Prices decide by half octaves, so near the edge of one another may be less.
 */
static const char *why_chosen(const coll_candidate *list, int n)
{
    for (int i = 1; i < n; i++)
        if (list[i].predicted_seconds >= 0
            && list[i].predicted_seconds < list[0].predicted_seconds)
            return "the least predicted time for lengths of this half octave";
    return "the least predicted time";
}

static void say_why(coll_candidate *c, const coll_candidate *best)
{
    char a[24], b[24];
    const double transfer = c->predicted_seconds - c->latency_seconds;
    const double best_transfer =
        best->predicted_seconds - best->latency_seconds;
    const double later = c->latency_seconds - best->latency_seconds;
    const double longer = transfer - best_transfer;
    if (c->predicted_seconds < 0 && !c->why[0])
        snprintf(c->why, sizeof(c->why),
                 "not rehearsed at start: too many messages, or no plan for "
                 "these groups");
    else if (c->samples && c->measured_seconds >= best->measured_seconds
             && best->samples)
        snprintf(c->why, sizeof(c->why), "measured: %s against %s",
                 spoken(c->measured_seconds, a, sizeof(a)),
                 spoken(best->measured_seconds, b, sizeof(b)));
    else if (c->samples && best->samples)
        snprintf(c->why, sizeof(c->why),
                 "measured faster, but not by enough, or not often enough");
    else if (c->why[0]) /* fill() has said it */
        return;
    else if (later > longer)
        snprintf(c->why, sizeof(c->why), "more rounds: latency %s against %s",
                 spoken(c->latency_seconds, a, sizeof(a)),
                 spoken(best->latency_seconds, b, sizeof(b)));
    else if (longer > 0)
        snprintf(c->why, sizeof(c->why),
                 "more on the busiest link: %s against %s",
                 spoken(transfer, a, sizeof(a)),
                 spoken(best_transfer, b, sizeof(b)));
    else
        snprintf(c->why, sizeof(c->why), "about as fast");
}

static void fill(const struct question *q, const struct price_row *row,
                 const struct select_choice *chosen, coll_candidate *c)
{
    char text[24];
    const int class = price_class(q->bytes);
    *c = (coll_candidate){
        .algorithm = algos[row->algo].name,
        .rank_order = layout_order_names[row->order],
        .segments = 1 << row->variant[class],
        .predicted_seconds = price_seconds(row, q->bytes),
        .chosen = algos[chosen->algo].way == BY_PLAN
                  && chosen->algo == row->algo
                  && (int)chosen->order == row->order,
    };
    if (row->bounds >> class & 1)
        snprintf(c->why, sizeof(c->why),
                 "at least about %s, so it was not rehearsed",
                 spoken(c->predicted_seconds, text, sizeof(text)));
    else if (c->predicted_seconds >= 0)
        c->latency_seconds =
            latency_of(q->layout, row, q->bytes ? q->bytes : 1);
    const struct price_row *twin = &q->select->prices.row[row->twin];
    if (twin != row
        && rules_allow(&q->select->rules, twin->algo,
                       (enum layout_order)twin->order, q->bytes))
        snprintf(c->why, sizeof(c->why), "the same plans as %s",
                 algos[twin->algo].name);
}

/* Where memory is shared, plans run only if rules say so. */
static void say_native(coll_candidate *c)
{
    if (!c->why[0])
        snprintf(c->why, sizeof(c->why), "a plan: messages between ranks");
}

/* What was measured of the candidates of a class. */
static void add_samples(const struct question *q, const struct price_row *row,
                        coll_candidate *c)
{
    int32_t log_time;
    c->samples = select_learned(q->select, (int)(row - q->select->prices.row),
                                price_half(q->bytes), &log_time);
    if (c->samples)
        c->measured_seconds = select_seconds(log_time);
}

static coll_status choose(const struct question *q, struct select_choice *c)
{
    return q->order
               ? select_in_order(q->select, q->kind, q->bytes,
                                 (struct select_need){.order = q->order}, c)
               : select_best(q->select, q->kind, q->bytes, c);
}

/* Whether it is one of those to choose from, of which this was. */
static bool serves(const struct question *q, const struct price_row *row,
                   const struct algo *chosen)
{
    const struct algo *algo = &algos[row->algo];
    return algo->kind == q->kind
           && (q->order ? row->keeps >= q->order
                        : !algo_in_order(algo) || algo_in_order(chosen))
           && rules_allow(&q->select->rules, row->algo,
                          (enum layout_order)row->order, q->bytes);
}

static coll_status answer(const struct question *q, coll_candidate *list,
                          int max, int *n)
{
    struct select_choice chosen;
    coll_candidate all[PRICE_ROWS + 1];
    int found = 0;
    const coll_status status = choose(q, &chosen);
    if (status < 0)
        return status;
    const bool native = algos[chosen.algo].way != BY_PLAN;
    if (native)
        all[found++] = (coll_candidate){
            .algorithm = algos[chosen.algo].name,
            .rank_order = layout_order_names[ORDER_GIVEN],
            .segments = 1,
            .predicted_seconds = chosen.predicted,
            .chosen = 1,
        };
    for (int i = 0; i < q->select->prices.nrows; i++) {
        const struct price_row *row = &q->select->prices.row[i];
        if (!serves(q, row, &algos[chosen.algo]))
            continue;
        fill(q, row, &chosen, &all[found]);
        add_samples(q, row, &all[found++]);
    }
    qsort(all, (size_t)found, sizeof(all[0]), by_time);
    for (int i = 1; i < found; i++)
        if (native)
            say_native(&all[i]);
        else
            say_why(&all[i], &all[0]);
    if (native)
        snprintf(all[0].why, sizeof(all[0].why),
                 "all ranks are on one host and share its memory");
    else if (found > 0)
        snprintf(all[0].why, sizeof(all[0].why), "%s",
                 all[0].samples ? "held for best by what was measured"
                                : why_chosen(all, found));
    *n = found < max ? found : max;
    if (*n > 0)
        memcpy(list, all, sizeof(all[0]) * (size_t)*n);
    return COLL_OK;
}

coll_status coll_explain_candidates(coll_comm *comm, const char *collective,
                                    size_t count, coll_dtype dtype,
                                    coll_candidate *candidates, int max, int *n)
{
    if (!comm || !n || max < 0 || (max > 0 && !candidates))
        return fail(COLL_ERR_INVALID, "comm", "coll_explain_candidates: %s",
                    !comm     ? "the communicator is NULL"
                    : !n      ? "n is NULL"
                    : max < 0 ? "max is negative"
                              : "candidates is NULL");
    struct question q = {.select = &comm->select, .layout = &comm->layout};
    coll_status status = comm_enter(comm, "explain_candidates");
    if (status < 0)
        return status;
    status = explain_kind("coll_explain", collective, &q.kind);
    if (status == COLL_OK)
        status = whole(comm, q.kind, count, dtype, &q.bytes);
    if (status == COLL_OK && kind_reduces(q.kind))
        q.order = red_op_order(comm, dtype);
    if (status == COLL_OK)
        status = answer(&q, candidates, max, n);
    comm_leave(comm);
    return status;
}

/* ranks_per_host neighbours share a host. */
static coll_status lay_out(struct layout *l, const coll_topo *topo, int nranks,
                           int ranks_per_host)
{
    uint64_t *host_of = malloc((size_t)nranks * sizeof(*host_of));
    if (!host_of)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks", nranks);
    for (int r = 0; r < nranks; r++)
        host_of[r] = (uint64_t)(r / ranks_per_host);
    const coll_status status =
        layout_create(l, nranks, host_of, topo, NULL, &here_assumed);
    free(host_of);
    return status;
}

coll_status coll_explain_cluster(const char *spec, int nranks,
                                 int ranks_per_host, const char *collective,
                                 size_t bytes, coll_candidate *candidates,
                                 int max, int *n)
{
    char error[512];
    coll_topo *topo = NULL;
    struct layout layout = {.nranks = 0};
    if (!spec || !n || max < 0 || (max > 0 && !candidates))
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_explain_cluster: spec, n or candidates is NULL, or "
                    "max is negative");
    if (nranks < 1 || ranks_per_host < 1)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_explain_cluster: %d ranks, %d a host: at least 1",
                    nranks, ranks_per_host);
    struct question q = {.layout = &layout, .bytes = bytes};
    coll_status status = explain_kind("coll_explain", collective, &q.kind);
    if (status < 0)
        return status;
    if (q.kind == BARRIER)
        q.bytes = 0;
    if (nranks > PRICE_RANKS)
        return fail(COLL_ERR_INVALID, "comm",
                    "%d ranks: prices are known for at most %d; coll_sim tries "
                    "out what serves more",
                    nranks, PRICE_RANKS);
    struct select *select = calloc(1, sizeof(*select));
    if (!select)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for prices");
    q.select = select;
    if (coll_topo_load(&topo, spec, "cluster", error, sizeof(error)) < 0)
        status = fail(COLL_ERR_INVALID, "topo", "%s", error);
    if (status == COLL_OK)
        status = select_rules(select, setting_text(SETTING_ALGO), "COLL_ALGO");
    if (status == COLL_OK)
        status = lay_out(&layout, topo, nranks, ranks_per_host);
    if (nranks > 1 && nranks <= ranks_per_host) /* with a processor for each */
        select->node =
            (struct select_node){nranks, NODE_INLINE_BEST, NODE_INLINE_BEST};
    layout.by_hosts =
        ranks_per_host > 1 && ranks_per_host < nranks ? ranks_per_host : 0;
    if (status == COLL_OK)
        status = price_within(&select->prices, &layout,
                              &(struct price_limits){.messages = 2e7,
                                                     .seconds = 1e9,
                                                     .kinds = 1u << q.kind});
    if (status == COLL_OK)
        status = answer(&q, candidates, max, n);
    layout_free(&layout);
    coll_topo_free(topo);
    select_free(select);
    free(select);
    return status;
}

static void add(char *text, size_t bytes, size_t *length, const char *line)
{
    const size_t n = strlen(line);
    for (size_t i = 0; i <= n && *length + i < bytes; i++)
        text[*length + i] = line[i];
    if (bytes)
        text[bytes - 1] = '\0';
    *length += n;
}

size_t coll_explain_print(const coll_candidate *candidates, int n, char *text,
                          size_t text_bytes)
{
    size_t length = 0;
    char line[320], predicted[24], measured[24];
    snprintf(line, sizeof(line), "  %-26s %-12s %8s %12s %12s %8s  why\n",
             "algorithm", "rank order", "segments", "predicted", "measured",
             "samples");
    add(text, text_bytes, &length, line);
    for (int i = 0; i < n; i++) {
        const coll_candidate *c = &candidates[i];
        snprintf(
            line, sizeof(line), "%c %-26s %-12s %8d %12s %12s %8d  %s\n",
            c->chosen ? '>' : ' ', c->algorithm, c->rank_order, c->segments,
            c->predicted_seconds < 0
                ? "-"
                : spoken(c->predicted_seconds, predicted, sizeof(predicted)),
            c->samples ? spoken(c->measured_seconds, measured, sizeof(measured))
                       : "-",
            c->samples, c->why);
        add(text, text_bytes, &length, line);
    }
    return length;
}

/* Whether another one is best than was told; or nothing was told yet. */
static bool news_to_tell(struct select *s, enum select_pool pool,
                         enum coll_kind kind, size_t bytes)
{
    struct select_class *c = s->class[pool][kind][price_half(bytes)];
    const uint64_t bit = UINT64_C(1) << price_class(bytes);
    if (!c) { /* none of them is learned about */
        const bool news = !(s->told[kind] & bit);
        s->told[kind] |= bit;
        return news;
    }
    const int best = c->n ? learn_best(&c->learn) : 0;
    const bool news = c->told != best + 1;
    c->told = best + 1;
    return news;
}

void explain_aloud(coll_comm *c, enum coll_kind kind, enum algo_order order,
                   size_t bytes)
{
    const struct question q = {&c->select, &c->layout, kind, order, bytes};
    const enum select_pool pool = order == IN_PAIRS ? POOL_PAIRS : POOL_ANY;
    coll_candidate list[PRICE_ROWS + 1];
    char text[32768];
    int n = 0;
    if (!news_to_tell(&c->select, pool, kind, bytes)
        || answer(&q, list, PRICE_ROWS + 1, &n) < 0)
        return;
    coll_explain_print(list, n, text, sizeof(text));
    log_line(COLL_LOG_INFO, "explain",
             "%s of %zu bytes on %d ranks:", kind_names[kind], bytes,
             c->nranks);
    for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
        *end = '\0';
        log_line(COLL_LOG_INFO, "explain", "%s", at);
    }
    if (c->layout.by_hosts && (kind == REDUCE_SCATTER || kind == ALLGATHER)
        && !layout_even(&c->layout))
        log_line(COLL_LOG_INFO, "explain",
                 "not by_hosts: a part for each rank needs as many ranks on "
                 "each host; here are %d on %d, up to %d on one",
                 c->nranks, c->nhosts, c->layout.by_hosts);
}
