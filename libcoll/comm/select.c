/* SPDX-License-Identifier: MIT */
#include "comm/select.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/nearest.h"
#include "exec/rehearse.h"
#include "node/node.h"

enum {
#define ALGO(kind, name, fits, when) ROW_##name,
#include "algo/algos.def"
#undef ALGO
    NROWS
};
_Static_assert(sizeof(((struct select_entry *)0)->seconds) / sizeof(float)
                   >= NROWS,
               "room for every row of algos.def");

/* A ring's rehearsal grows with the square of the ranks, but a time is nearly a
 * straight line over the sizes, so few are rehearsed. An algorithm that cuts
 * longer vectors in more segments has no such line. */
enum { MANY_RANKS = 64, STRIDE = 3, STRIDE_MANY = 5 };
_Static_assert((SELECT_SIZES - 1) % STRIDE == 0
                   && (SELECT_SIZES - 1) % STRIDE_MANY == 0,
               "the largest size is rehearsed");

/* From a size that is rehearsed to the next. */
static int stride_of(const struct algo *algo, int nranks)
{
    const bool pipelines = algo_pipelines(algo, nranks);
    if (nranks > MANY_RANKS)
        return pipelines ? STRIDE : STRIDE_MANY;
    return pipelines ? 1 : STRIDE;
}

/* A segment carries about so much, so that a pipeline's stages cost more than
 * their latency. */
static int variant_of(size_t bytes)
{
    int variant = 0;
    while (variant + 1 < SELECT_SEGMENTS
           && bytes >> variant >= (size_t)2 * 65536)
        variant++;
    return variant;
}

static size_t size_of(int i)
{
    return (size_t)1 << (2 * (i + 1));
}

struct links {
    const uint64_t *host_of;
    const struct select_model *model;
};

static struct sim_link link_of(const void *context, int from, int to)
{
    const struct links *l = context;
    const struct select_model *m = l->model;
    return l->host_of[from] == l->host_of[to]
               ? (struct sim_link){m->local_alpha, m->local_beta}
               : (struct sim_link){m->remote_alpha, m->remote_beta};
}

static coll_status price(const struct algo *algo, int nranks, size_t bytes,
                         const struct links *links, float *result)
{
    double seconds;
    const struct rehearsal c = {
        .plan = algo->plan,
        .nranks = nranks,
        .segments = 1 << variant_of(bytes),
        .count = bytes,
        .elem_bytes = 1,
        .net = {.link_of = link_of,
                .context = links,
                .gamma = links->model->gamma},
    };
    *result = -1;
    if (!algo->fits(&(struct plan_shape){0, nranks, c.segments}))
        return COLL_OK;
    const coll_status status = rehearse(&c, &seconds);
    if (status == COLL_OK)
        *result = (float)seconds;
    return status;
}

/* Rungs that were not rehearsed lie on a straight line between their
 * neighbours that were. */
static void fill_between(struct select *s, int a, int from, int to)
{
    const double low = s->table[from].seconds[a];
    const double high = s->table[to].seconds[a];
    for (int i = from + 1; i < to; i++)
        s->table[i].seconds[a] =
            (float)(low
                    + (high - low) * (double)(size_of(i) - size_of(from))
                          / (double)(size_of(to) - size_of(from)));
}

coll_status select_price(struct select *s, int nranks, const uint64_t *host_of,
                         const struct select_model *model)
{
    const struct links links = {host_of, model};
    for (int a = 0; a < nplanned; a++) {
        const int stride = stride_of(&algos[a], nranks);
        for (int i = 0; i < SELECT_SIZES; i += stride) {
            const coll_status status = price(&algos[a], nranks, size_of(i),
                                             &links, &s->table[i].seconds[a]);
            if (status < 0)
                return fail(status, "select", "rehearsal of %s on %d ranks: %s",
                            algos[a].full_name, nranks, fail_sentence());
            if (i > 0)
                fill_between(s, a, i - stride, i);
        }
    }
    return COLL_OK;
}

/* The prediction for a size, on a straight line between the ladder's rungs. */
static double predict(const struct select *s, int a, size_t bytes)
{
    int i = 0;
    while (i + 2 < SELECT_SIZES && size_of(i + 1) <= bytes)
        i++;
    const double low = s->table[i].seconds[a],
                 high = s->table[i + 1].seconds[a];
    const double at = ((double)bytes - (double)size_of(i))
                      / (double)(size_of(i + 1) - size_of(i));
    return low < 0 ? low : low + fmax(at, 0) * (high - low);
}

static uint64_t allowed(const struct select *s, enum coll_kind kind,
                        size_t bytes)
{
    uint64_t all = ~0ull;
    for (int i = 0; i < s->nrules; i++)
        if (s->rules[i].kind == kind && bytes >= s->rules[i].min_bytes
            && bytes < s->rules[i].max_bytes)
            all &= s->rules[i].algos;
    return all;
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

/* The row of node/ for a size, or -1. Where one may serve, it is faster than
 * every plan. */
static int select_native(const struct select *s, enum coll_kind kind,
                         size_t bytes, uint64_t may)
{
    int found = -1;
    for (int a = nplanned; a < nalgos && s->node.nranks; a++) {
        const bool direct = algos[a].way == NODE_DIRECT;
        if (algos[a].kind != kind || !(may >> a & 1)
            || (!direct && bytes > NODE_INLINE_BYTES))
            continue;
        if (found < 0 || direct == (bytes > s->node.inline_bytes))
            found = a;
    }
    return found;
}

coll_status select_algorithm(const struct select *s, enum coll_kind kind,
                             int nranks, size_t bytes,
                             struct select_choice *choice)
{
    const uint64_t may = allowed(s, kind, bytes);
    const int variant = variant_of(bytes);
    int best = select_native(s, kind, bytes, may);
    double least = 0;
    if (best >= 0) {
        *choice = (struct select_choice){
            best, 0, node_seconds(&s->node, algos[best].way, bytes)};
        return COLL_OK;
    }
    for (int a = 0; a < nplanned; a++) {
        if (algos[a].kind != kind || !(may >> a & 1)
            || !algos[a].fits(&(struct plan_shape){0, nranks, 1 << variant}))
            continue;
        const double seconds = nranks == 1 ? 0 : predict(s, a, bytes);
        if (best < 0 || seconds < least) {
            best = a;
            least = seconds;
        }
    }
    if (best < 0)
        return fail(COLL_ERR_UNSUPPORTED, "select",
                    "the rules of COLL_ALGO forbid every algorithm for %s of "
                    "%zu bytes on %d ranks%s",
                    kind_names[kind], bytes, nranks,
                    s->node.nranks ? "" : " that are not all on one host");
    *choice = (struct select_choice){best, variant, least};
    return COLL_OK;
}

/* --- COLL_ALGO: [collective:]item[;item...], item = [from-to:][^]name[,name]
 * Sizes in bytes with K, M, G; an open end is left out ("4k-"). */

struct word {
    const char *at;
    size_t length;
};

static bool equals(struct word w, const char *text)
{
    return strlen(text) == w.length && !strncasecmp(w.at, text, w.length);
}

static struct word until(const char **at, const char *separators)
{
    struct word w = {*at, strcspn(*at, separators)};
    *at += w.length;
    return w;
}

static bool parse_size(const char **at, size_t *bytes)
{
    char *end;
    double x = strtod(*at, &end);
    if (end == *at || !isdigit((unsigned char)**at))
        return false;
    static const char units[] = "kmg";
    const char *unit =
        *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
    if (unit) {
        x *= pow(1024, (double)(unit - units + 1));
        end++;
    }
    *at = end;
    *bytes = (size_t)x;
    return true;
}

/* "4k-64k:", "4k-:", "-64k:", or nothing. */
static void parse_range(const char **at, struct select_rule *rule)
{
    const char *p = *at;
    size_t min = 0, max = SIZE_MAX;
    parse_size(&p, &min);
    if (*p++ != '-')
        return;
    parse_size(&p, &max);
    if (*p != ':' || min >= max)
        return;
    *at = p + 1;
    rule->min_bytes = min;
    rule->max_bytes = max;
}

static coll_status unknown_name(struct word w, enum coll_kind kind,
                                const char *source)
{
    char list[512] = "", word[64];
    const char *names[64];
    int n = 0;
    snprintf(word, sizeof(word), "%.*s", (int)(w.length < 63 ? w.length : 63),
             w.at);
    for (int a = 0; a < nalgos; a++)
        if (algos[a].kind == kind) {
            names[n++] = algos[a].name;
            snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
                     *list ? ", " : "", algos[a].name);
        }
    const char *near = nearest_name(word, names, n);
    return fail(COLL_ERR_INVALID, "select",
                "%s: \"%s\" is no algorithm for %s%s%s%s; valid are %s", source,
                word, kind_names[kind], near ? " (did you mean " : "",
                near ? near : "", near ? "?)" : "", list);
}

static coll_status parse_item(const char **at, enum coll_kind kind,
                              const char *source, struct select_rule *rule)
{
    *rule = (struct select_rule){.kind = kind, .max_bytes = SIZE_MAX};
    parse_range(at, rule);
    const bool forbids = **at == '^';
    *at += forbids;
    for (;;) {
        const struct word w = until(at, ",;");
        int found = -1;
        for (int a = 0; a < nalgos; a++)
            if (algos[a].kind == kind
                && (equals(w, algos[a].name) || equals(w, algos[a].full_name)))
                found = a;
        if (found < 0)
            return unknown_name(w, kind, source);
        rule->algos |= 1ull << found;
        if (**at != ',')
            break;
        ++*at;
    }
    if (forbids)
        rule->algos = ~rule->algos;
    return COLL_OK;
}

coll_status select_parse(struct select *s, const char *text, const char *source)
{
    struct select_rule rules[SELECT_MAX_RULES];
    int nrules = 0;
    enum coll_kind kind = ALLREDUCE;
    const char *at = text ? text : "";
    while (*at) {
        for (int k = 0; k < NKINDS; k++) {
            const size_t length = strlen(kind_names[k]);
            if (!strncasecmp(at, kind_names[k], length) && at[length] == ':') {
                kind = (enum coll_kind)k;
                at += length + 1;
                break;
            }
        }
        if (nrules == SELECT_MAX_RULES)
            return fail(COLL_ERR_INVALID, "select", "%s: more than %d rules",
                        source, SELECT_MAX_RULES);
        const coll_status status =
            parse_item(&at, kind, source, &rules[nrules++]);
        if (status < 0)
            return status;
        at += *at == ';';
    }
    memcpy(s->rules, rules, sizeof(rules[0]) * (size_t)nrules);
    s->nrules = nrules;
    return COLL_OK;
}
