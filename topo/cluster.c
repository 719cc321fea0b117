/* SPDX-License-Identifier: MIT */
/* A cluster as text: levels from outer to inner, each with the link that
 * leaves one of its objects, then the inside of a node (inside.c).
 *
 *   supernode:4 (3us 3GB/s) node:256 (1us 12GB/s) machine:sw26010
 *
 * The last level's objects are the hosts. Without levels it is one host, and
 * without an inside a host has one core.
 */
#include "parse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/options.h"

/* A long word that is almost one of a machine's is rather a slip than the name
 * of a level; short ones are too near to each other to tell. */
static bool check_name(struct parser *p, const struct word *word,
                       const struct level levels[], int nlevels)
{
    char name[MAX_NAME];
    snprintf(name, sizeof(name), "%.*s", word->length, word->start);
    const char *near = nearest_name(name, inside_words, ninside_words);
    if (near && word->length >= 5)
        return parse_fail(p, word->start,
                          "\"%s\" is too much like %s to name "
                          "a level; did you mean %s?",
                          name, near, near);
    for (int l = 0; l < nlevels; l++)
        if (!strcmp(levels[l].name, name))
            return parse_fail(p, word->start, "two levels have the name %s",
                              name);
    return true;
}

/* After the name: ":count (latency bandwidth)". */
static bool parse_level(struct parser *p, const struct word *word,
                        struct level *level)
{
    char found[8];
    if (!parse_char(p, ':'))
        return parse_fail(p, p->at,
                          "expected ':' and a count after %.*s, found "
                          "%s",
                          word->length, word->start, parse_found(p, found));
    *level = (struct level){.count = 1};
    if (!parse_count(p, "count", 1, MAX_COUNT, &level->count))
        return false;
    snprintf(level->name, sizeof(level->name), "%.*s", word->length,
             word->start);
    parse_space(p);
    return !parse_char(p, '(') || parse_link(p, &level->link);
}

/* All levels; stops before the inside of a node, or at the end. */
static bool parse_levels(struct parser *p, struct level levels[], int *nlevels)
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
        if (*nlevels == MAX_LEVELS)
            return parse_fail(p, start, "more than %d levels", MAX_LEVELS);
        if (!check_name(p, &word, levels, *nlevels)
            || !parse_level(p, &word, &levels[*nlevels]))
            return false;
        ++*nlevels;
    }
    return true;
}

/* The host that a level without an inside has. */
static bool one_core(struct parser *p, coll_topo **host)
{
    struct parser core = {.text = "{core}", .at = "{core}"};
    parse_inside(&core, host);
    p->status = core.status;
    return !p->status;
}

coll_status coll_topo_parse(coll_topo **topo, const char *text,
                            const char *where, char *error, size_t error_bytes)
{
    struct parser p = {.text = text,
                       .at = text,
                       .where = where,
                       .error = error,
                       .error_bytes = error_bytes};
    struct level levels[MAX_LEVELS];
    int nlevels = 0;
    coll_topo *host = NULL;
    if (!parse_levels(&p, levels, &nlevels))
        return p.status;
    if (!*p.at && !nlevels) {
        parse_fail(&p, p.at,
                   "an empty description; one such as node:4 (1us "
                   "12GB/s) package:2 core:16 is valid");
        return p.status;
    }
    if (!(*p.at ? parse_inside(&p, &host) : one_core(&p, &host)))
        return p.status;
    if (!nlevels) {
        *topo = host;
        return COLL_OK;
    }
    char sentence[256];
    const coll_status status =
        machine_expand(topo, host, levels, nlevels, sentence, sizeof(sentence));
    coll_topo_free(host);
    if (status == COLL_ERR_INVALID)
        parse_fail(&p, text, "%s", sentence);
    else if (status)
        topo_fail(status, error, error_bytes, "%s: %s", where, sentence);
    return status;
}

enum { MAX_FILE_BYTES = 1 << 20 };

coll_status coll_topo_load(coll_topo **topo, const char *spec,
                           const char *where, char *error, size_t error_bytes)
{
    FILE *file = fopen(spec, "re");
    if (!file && (!*spec || strpbrk(spec, ":{")))
        return coll_topo_parse(topo, spec, where, error, error_bytes);
    if (!file)
        return topo_fail(COLL_ERR_SYSTEM, error, error_bytes,
                         "%s: cannot read %s: %s", where, spec,
                         strerror(errno));
    char *text = malloc(MAX_FILE_BYTES + 1);
    const size_t length = text ? fread(text, 1, MAX_FILE_BYTES + 1, file) : 0;
    const bool broken = ferror(file) != 0;
    coll_status status;
    fclose(file);
    if (!text) {
        status = topo_fail(COLL_ERR_MEMORY, error, error_bytes,
                           "no memory to read %s", spec);
    } else if (broken || length > MAX_FILE_BYTES) {
        status = topo_fail(broken ? COLL_ERR_SYSTEM : COLL_ERR_INVALID, error,
                           error_bytes, "%s: %s", spec,
                           broken ? "cannot be read" : "is longer than 1 MiB");
    } else {
        text[length] = '\0';
        status = strlen(text) == length
                     ? coll_topo_parse(topo, text, spec, error, error_bytes)
                     : topo_fail(COLL_ERR_INVALID, error, error_bytes,
                                 "%s: is not text", spec);
    }
    free(text);
    return status;
}
