/* SPDX-License-Identifier: MIT */
/* The inside of a host as text, in one of three forms:
 *
 *   machine:NAME or machine:FILE.xml      a row of machines.def, hwloc's XML
 *   package:2 l3:4(size=32MB) core:8      hwloc's synthetic form
 *   {package:2{numa=64GB{core:8{pu:2}}}}  object by object; what is printed
 *
 * The first two are in synthetic.c. In the third a count repeats an object
 * with all inside, @N gives the system's index of a single one, =SIZE memory or
 * cache, and ! marks a PU that may not be used.
 */
#include "parse.h"

#include <string.h>

/* What { } may hold. */
static const coll_topo_kind tree_kinds[] = {
    COLL_TOPO_PACKAGE, COLL_TOPO_NUMA, COLL_TOPO_GROUP, COLL_TOPO_L3,
    COLL_TOPO_L2,      COLL_TOPO_CORE, COLL_TOPO_PU};

static bool parse_kind(struct parser *p, coll_topo_kind *kind)
{
    struct word word;
    char buffer[64];
    if (!parse_word(p, "a part of a machine or '}'", &word))
        return false;
    for (size_t i = 0; i < sizeof(tree_kinds) / sizeof(tree_kinds[0]); i++)
        if (word_is(&word, coll_topo_kind_name(*kind = tree_kinds[i])))
            return true;
    return parse_fail(p, word.start,
                      "\"%.*s\" is none of package, numa, group, "
                      "l3, l2, core and pu%s",
                      word.length, word.start,
                      parse_hint(&word, buffer, sizeof(buffer)));
}

/* What may stand in a core, and that a pu stands only there. */
static bool check_nesting(struct parser *p, const char *place,
                          const coll_topo *host, int parent,
                          coll_topo_kind kind)
{
    const coll_topo_kind around = host->objects[parent].kind;
    if (around == COLL_TOPO_CORE && kind != COLL_TOPO_PU)
        return parse_fail(p, place, "a core can hold only pu, not %s",
                          coll_topo_kind_name(kind));
    if (around != COLL_TOPO_CORE && kind == COLL_TOPO_PU)
        return parse_fail(p, place, "a pu must be inside a core");
    return true;
}

static bool full(struct parser *p, const char *place)
{
    return parse_fail(p, place, "more than %d objects, or no memory",
                      MAX_OBJECTS);
}

/* ":count", "@index", "=size" and "!", all optional. */
static bool parse_details(struct parser *p, coll_topo *host, int index,
                          int *count)
{
    coll_topo_object *o = &host->objects[index];
    *count = 1;
    if (parse_char(p, ':') && !parse_count(p, "count", 1, MAX_COUNT, count))
        return false;
    const char *place = p->at;
    if (parse_char(p, '@')) {
        if (o->os_index != OS_AUTO || *count > 1)
            return parse_fail(p, place,
                              "an index is for one package, numa, "
                              "core or pu");
        if (!parse_count(p, "index", 0, MAX_OS_INDEX, &o->os_index))
            return false;
    }
    place = p->at;
    if (parse_char(p, '=')) {
        if (o->kind != COLL_TOPO_NUMA && o->kind != COLL_TOPO_L3
            && o->kind != COLL_TOPO_L2)
            return parse_fail(p, place, "only numa, l3 and l2 have a size");
        if (!parse_bytes(p, &o->bytes))
            return false;
    }
    place = p->at;
    if (parse_char(p, '!')) {
        if (o->kind != COLL_TOPO_PU)
            return parse_fail(p, place, "only a pu can be marked unusable");
        o->usable = 0;
    }
    return true;
}

static bool parse_tree(struct parser *p, coll_topo *host, int parent,
                       int depth);

static bool parse_object(struct parser *p, coll_topo *host, int parent,
                         int depth)
{
    const char *start = p->at;
    coll_topo_kind kind;
    int count;
    if (!parse_kind(p, &kind) || !check_nesting(p, start, host, parent, kind))
        return false;
    const bool counted =
        kind != COLL_TOPO_GROUP && kind != COLL_TOPO_L3 && kind != COLL_TOPO_L2;
    const int index =
        machine_open(host, parent, kind, counted ? OS_AUTO : -1, 0);
    if (index < 0)
        return full(p, start);
    if (!parse_details(p, host, index, &count))
        return false;
    parse_space(p);
    if (parse_char(p, '{')) {
        if (kind == COLL_TOPO_PU)
            return parse_fail(p, p->at - 1, "nothing is inside a pu");
        if (!parse_tree(p, host, index, depth + 1))
            return false;
    } else if (kind == COLL_TOPO_CORE) {
        if (machine_open(host, index, COLL_TOPO_PU, OS_AUTO, 0) < 0)
            return full(p, start);
    } else if (kind != COLL_TOPO_PU && kind != COLL_TOPO_NUMA) {
        return parse_fail(p, start, "a %s without a core inside",
                          coll_topo_kind_name(kind));
    }
    machine_close(host, index);
    return machine_repeat(host, index, count - 1) || full(p, start);
}

/* After the '{'; up to its '}'. */
static bool parse_tree(struct parser *p, coll_topo *host, int parent, int depth)
{
    const char *start = p->at - 1;
    const int first = host->nobjects;
    bool pu = false;
    if (depth > MAX_DEPTH)
        return parse_fail(p, start, "more than %d levels of { }", MAX_DEPTH);
    for (parse_space(p); !parse_char(p, '}'); parse_space(p)) {
        if (!*p->at)
            return parse_fail(p, start, "this { has no }");
        if (!parse_object(p, host, parent, depth))
            return false;
    }
    for (int i = first; i < host->nobjects && !pu; i++)
        pu = host->objects[i].kind == COLL_TOPO_PU;
    return pu || parse_fail(p, start, "no core inside this { }");
}

static bool parse_braces(struct parser *p, coll_topo **out)
{
    const char *start = p->at - 1;
    char found[8], sentence[128];
    coll_topo *host = machine_new();
    bool ok = host ? parse_tree(p, host, 0, 1) : full(p, start);
    if (ok && *(parse_space(p), p->at))
        ok = parse_fail(p, p->at, "nothing may follow the machine, found %s",
                        parse_found(p, found));
    if (ok && machine_finish(host, sentence, sizeof(sentence)))
        ok = parse_fail(p, start, "%s", sentence);
    if (ok)
        *out = host;
    else
        coll_topo_free(host);
    return ok;
}

bool parse_inside(struct parser *p, coll_topo **host)
{
    if (parse_char(p, '{'))
        return parse_braces(p, host);
    if (!strncmp(p->at, "machine:", 8)) {
        p->at += 8;
        return parse_named(p, host);
    }
    return parse_synthetic(p, host);
}
