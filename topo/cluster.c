/* SPDX-License-Identifier: MIT */
/* A cluster as text: levels from outer to inner, each with the link that
 * leaves one of its objects, then the inside of a node (inside.c).
 *
 *   supernode:4 (3us 3GB/s) node:256 (1us 12GB/s) machine:sw26010
 *   rack:3 (2us 5GB/s shared) node:16*2,12 (1us 1.25GB/s)
 *
 * The last level's objects are the hosts. Without levels it is one host, and
 * without an inside a host has one core. A list of counts has one for each
 * object of the level outside; N*TIMES stands for so many of them.
 */
#include "parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/options.h"

/* A long word that is almost one of a machine's is rather a slip than the name
 * of a level; short ones are too near to each other to tell. */
static bool check_name(struct parser *p, const struct word *word,
                       const struct shape *shape)
{
    char name[MAX_NAME];
    snprintf(name, sizeof(name), "%.*s", word->length, word->start);
    const char *near = nearest_name(name, inside_words, ninside_words);
    if (near && word->length >= 5)
        return parse_fail(p, word->start,
                          "\"%s\" is too much like %s to name "
                          "a level; did you mean %s?",
                          name, near, near);
    for (int l = 0; l < shape->nlevels; l++)
        if (!strcmp(shape->levels[l].name, name))
            return parse_fail(p, word->start, "two levels have the name %s",
                              name);
    return true;
}

/* Objects of the level outside the next one. */
static int64_t objects_outside(const struct shape *shape)
{
    int64_t n = 1;
    for (int l = 0; l < shape->nlevels && n <= MAX_OBJECTS; l++)
        n = shape_objects(shape, l, n);
    return n;
}

/* One item of a list, of which n counts are there and `most` may be. */
static bool parse_item(struct parser *p, int counts[], int64_t *n, int64_t most)
{
    const char *start = p->at;
    int count = 1, times = 1;
    if (!parse_count(p, "count", 1, MAX_COUNT, &count)
        || (parse_char(p, '*')
            && !parse_count(p, "number of times", 1, MAX_COUNT, &times)))
        return false;
    if (*n + times > most)
        return parse_fail(p, start,
                          "more counts than the level outside has objects "
                          "(%lld)",
                          (long long)most);
    for (int i = 0; i < times; i++)
        counts[(*n)++] = count;
    return true;
}

/* "4,3*2,5", for the level that is to be added; alike counts become one. */
static bool parse_list(struct parser *p, struct shape *shape)
{
    const char *start = p->at;
    const int64_t outside = objects_outside(shape);
    struct level *level = &shape->levels[shape->nlevels];
    int64_t n = 0;
    if (outside > MAX_OBJECTS)
        return parse_fail(p, start, "more than %d objects", MAX_OBJECTS);
    int *counts = malloc((size_t)outside * sizeof(int));
    bool ok = counts || parse_fail(p, start, "no memory"), alike = true;
    do
        ok = ok && parse_item(p, counts, &n, outside);
    while (ok && parse_char(p, ','));
    if (ok && n < outside)
        ok = parse_fail(p, start,
                        "%lld counts, but the level outside has %lld objects",
                        (long long)n, (long long)outside);
    for (int64_t i = 1; ok && i < n; i++)
        alike &= counts[i] == counts[0];
    level->count = ok && alike ? counts[0] : 0;
    if (ok && !alike)
        shape->counts[shape->nlevels] = counts;
    else
        free(counts);
    return ok;
}

/* After the name: ":count (latency bandwidth)". */
static bool parse_level(struct parser *p, const struct word *word,
                        struct shape *shape)
{
    struct level *level = &shape->levels[shape->nlevels];
    char found[8];
    if (!parse_char(p, ':'))
        return parse_fail(p, p->at,
                          "expected ':' and a count after %.*s, found "
                          "%s",
                          word->length, word->start, parse_found(p, found));
    const char *counts = p->at;
    if (!parse_count(p, "count", 1, MAX_COUNT, &level->count))
        return false;
    if (*p->at == ',' || *p->at == '*') {
        p->at = counts;
        if (!parse_list(p, shape))
            return false;
    }
    snprintf(level->name, sizeof(level->name), "%.*s", word->length,
             word->start);
    shape->nlevels++;
    parse_space(p);
    return !parse_char(p, '(') || parse_link(p, &level->link);
}

/* All levels; stops before the inside of a node, or at the end. */
static bool parse_levels(struct parser *p, struct shape *shape)
{
    struct word word;
    for (parse_space(p); *p->at && *p->at != '{'; parse_space(p)) {
        const char *start = p->at;
        if (!parse_word(p, "a level (node:256) or a part of a machine", &word))
            return false;
        if (inside_begins(&word)) {
            p->at = start;
            return true;
        }
        if (shape->nlevels == MAX_LEVELS)
            return parse_fail(p, start, "more than %d levels", MAX_LEVELS);
        if (!check_name(p, &word, shape) || !parse_level(p, &word, shape))
            return false;
    }
    return true;
}

bool parse_one_core(struct parser *p, coll_topo **host)
{
    struct parser core = {.text = "{core}", .at = "{core}"};
    parse_inside(&core, host);
    p->status = core.status;
    return !p->status;
}

/* The hosts of the shape, each like host, which is freed. */
static coll_status expand(struct parser *p, const struct shape *shape,
                          coll_topo *host, coll_topo **topo)
{
    char sentence[256];
    const coll_status status =
        machine_expand(topo, host, shape, sentence, sizeof(sentence));
    coll_topo_free(host);
    if (status == COLL_ERR_INVALID)
        parse_fail(p, p->text, "%s", sentence);
    else if (status)
        p->status = topo_fail(status, p->error, p->error_bytes, "%s: %s",
                              p->where, sentence);
    return p->status;
}

coll_status coll_topo_parse(coll_topo **topo, const char *text,
                            const char *where, char *error, size_t error_bytes)
{
    if (!topo || !text || !where)
        return topo_fail(COLL_ERR_INVALID, error, error_bytes,
                         "coll_topo_parse: topo, text or where is NULL");
    struct parser p = {.text = text,
                       .at = text,
                       .where = where,
                       .error = error,
                       .error_bytes = error_bytes};
    struct shape shape = {.nlevels = 0};
    coll_topo *host = NULL;
    if (!parse_levels(&p, &shape))
        goto out;
    if (!*p.at && !shape.nlevels) {
        parse_fail(&p, p.at,
                   "an empty description; one such as node:4 (1us "
                   "12GB/s) package:2 core:16 is valid");
        goto out;
    }
    if (!(*p.at ? parse_inside(&p, &host) : parse_one_core(&p, &host)))
        goto out;
    if (shape.nlevels)
        expand(&p, &shape, host, topo);
    else
        *topo = host;
out:
    shape_free(&shape);
    return p.status;
}
