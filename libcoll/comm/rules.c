/* SPDX-License-Identifier: MIT */
#include "comm/rules.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/nearest.h"
#include "base/plain.h"

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
    double x = plain_number(*at, &end);
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
static void parse_range(const char **at, struct rule *rule)
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

static void copy(struct word w, char word[64])
{
    snprintf(word, 64, "%.*s", (int)(w.length < 63 ? w.length : 63), w.at);
}

/* What stands before a colon. */
static coll_status unknown_prefix(struct word w, struct word before,
                                  const char *source)
{
    char word[64], prefix[64];
    copy(w, word);
    copy(before, prefix);
    const char *near = nearest_name(prefix, kind_names, NKINDS);
    return fail(COLL_ERR_INVALID, "select",
                "%s: \"%s\" begins with \"%s:\", which is no collective%s%s%s, "
                "nor a range of bytes, such as 4k-64k:",
                source, word, prefix, near ? " (did you mean " : "",
                near ? near : "", near ? "?)" : "");
}

static coll_status unknown_name(struct word w, enum coll_kind kind,
                                const char *source)
{
    char list[512] = "", word[64];
    const char *names[64];
    const char *colon = memchr(w.at, ':', w.length);
    int n = 0;
    const struct word before = {w.at, colon ? (size_t)(colon - w.at) : 0};
    bool collective = !colon;
    for (int k = 0; k < NKINDS; k++)
        collective |= equals(before, kind_names[k]);
    if (!collective)
        return unknown_prefix(w, before, source);
    copy(w, word);
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

/* The orders that "@by_hosts" means, and "" too; 0: none. With no algorithm
 * before it, it stands for all by hosts. */
static unsigned parse_order(struct word w, bool alone)
{
    unsigned orders = 0;
    if (!w.length)
        return (1u << NLINEUPS) - 1;
    for (int o = 0; o < NLINEUPS; o++)
        if (equals((struct word){w.at + 1, w.length - 1},
                   layout_order_names[o]))
            orders |= 1u << o;
    if (alone && orders == 1u << ORDER_HOSTS)
        for (int o = 0; o < NLINEUPS; o++)
            orders |= (unsigned)layout_by_hosts((enum layout_order)o) << o;
    return orders;
}

static coll_status unknown_order(struct word w, const char *source)
{
    char word[64];
    copy(w, word);
    return fail(COLL_ERR_INVALID, "select",
                "%s: \"%s\" is no order of ranks; valid are @%s, @%s, @%s, "
                "@%s and @%s",
                source, word, layout_order_names[0], layout_order_names[1],
                layout_order_names[2], layout_order_names[3],
                layout_order_names[4]);
}

/* Adds what "ring", "ring@by_hosts" or "@by_hosts" names. */
static coll_status parse_name(const char **at, enum coll_kind kind,
                              const char *source, struct rule *rule)
{
    const struct word name = until(at, "@,;"), order = until(at, ",;");
    const unsigned orders = parse_order(order, !name.length);
    bool named[NALGOS] = {false}, found = false;
    for (int a = 0; a < nalgos; a++) {
        named[a] =
            algos[a].kind == kind
            && ((!name.length && order.length) || equals(name, algos[a].name)
                || equals(name, algos[a].full_name));
        found |= named[a];
    }
    if (!found)
        return unknown_name(name, kind, source);
    if (!orders)
        return unknown_order(order, source);
    for (int o = 0; o < NLINEUPS; o++)
        for (int a = 0; a < nalgos && orders >> o & 1; a++)
            rule->may[o][a] |= named[a];
    return COLL_OK;
}

static coll_status parse_item(const char **at, enum coll_kind kind,
                              const char *source, struct rule *rule)
{
    *rule = (struct rule){.kind = kind, .max_bytes = SIZE_MAX};
    parse_range(at, rule);
    const bool forbids = **at == '^';
    *at += forbids;
    for (;;) {
        const coll_status status = parse_name(at, kind, source, rule);
        if (status < 0)
            return status;
        if (**at != ',')
            break;
        ++*at;
    }
    for (int o = 0; o < NLINEUPS && forbids; o++)
        for (int a = 0; a < nalgos; a++)
            rule->may[o][a] = !rule->may[o][a];
    return COLL_OK;
}

coll_status rules_parse(struct rules *rules, const char *text,
                        const char *source)
{
    struct rules all = {.n = 0};
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
        if (all.n == MAX_RULES)
            return fail(COLL_ERR_INVALID, "select", "%s: more than %d rules",
                        source, MAX_RULES);
        const coll_status status =
            parse_item(&at, kind, source, &all.rule[all.n++]);
        if (status < 0)
            return status;
        at += *at == ';';
    }
    *rules = all;
    return COLL_OK;
}

bool rules_allow(const struct rules *rules, int a, enum layout_order order,
                 size_t bytes)
{
    bool may = true;
    for (int i = 0; i < rules->n; i++) {
        const struct rule *r = &rules->rule[i];
        if (r->kind == algos[a].kind && bytes >= r->min_bytes
            && bytes < r->max_bytes)
            may &= r->may[order][a];
    }
    return may;
}

bool rules_alike(const struct rules *rules, enum coll_kind kind, size_t from,
                 size_t to)
{
    bool alike = true;
    for (int i = 0; i < rules->n; i++) {
        const struct rule *r = &rules->rule[i];
        alike &= r->kind != kind
                 || ((r->min_bytes <= from || r->min_bytes >= to)
                     && (r->max_bytes <= from || r->max_bytes >= to));
    }
    return alike;
}
