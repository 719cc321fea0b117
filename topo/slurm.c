/* SPDX-License-Identifier: MIT */
/* A cluster out of Slurm's topology.conf, as its plugin topology/tree reads it:
 *
 *   SwitchName=s0 Nodes=n[0-3]
 *   SwitchName=s1 Nodes=n[4-6]
 *   SwitchName=s2 Switches=s[0-1]  # LinkSpeed=... is ignored
 *
 * A line describes a switch: with nodes (a leaf) or with switches below it. The
 * tree is measured first, from the switches that are below no other, counting
 * only nodes that are wanted; then its counts are written level by level, for
 * machine_expand().
 */
#include "hostlist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "programs/options.h"

struct a_switch {
    bool leaf, below, seen; /* below another; met while measuring */
    int first, count;       /* slice of network.nodes or .children */
    int nodes;              /* wanted ones in it */
    int height;             /* switches down to a wanted node; 1: a leaf */
};

struct network {
    struct parser p;
    struct hostlist switches, nodes, children; /* switches[i] is table[i] */
    struct a_switch *table;
    int *child;   /* children[i] is table[child[i]] */
    bool *wanted; /* nodes[i] is */
};

/* Blanks, and line breaks behind a backslash. */
static void skip_blanks(struct parser *p)
{
    for (;;) {
        p->at += strspn(p->at, " \t\r");
        if (!strncmp(p->at, "\\\n", 2))
            p->at += 2;
        else if (!strncmp(p->at, "\\\r\n", 3))
            p->at += 3;
        else
            return;
    }
}

enum key { SWITCH_NAME, NODES, SWITCHES, LINK_SPEED, NKEYS };

static const char *const keys[NKEYS] = {"SwitchName", "Nodes", "Switches",
                                        "LinkSpeed"};

static bool unknown_key(struct parser *p, const struct word *word)
{
    char name[MAX_NAME];
    snprintf(name, sizeof(name), "%.*s", word->length, word->start);
    if (!strncasecmp(name, "Block", 5))
        return parse_fail(p, word->start,
                          "\"%s\" is of topology/block; only the lines of "
                          "topology/tree (SwitchName=) can be read",
                          name);
    const char *near = nearest_name(name, keys, NKEYS);
    return parse_fail(p, word->start,
                      "\"%s\" is none of SwitchName, Nodes, Switches and "
                      "LinkSpeed%s%s%s",
                      name, near ? ", did you mean " : "", near ? near : "",
                      near ? "?" : "");
}

/* "Nodes=", in any case of letters. */
static bool parse_key(struct parser *p, enum key *key)
{
    struct word word;
    char found[8];
    int k = 0;
    if (!parse_word(p, "SwitchName, Nodes, Switches or LinkSpeed", &word))
        return false;
    while (k < NKEYS
           && (strlen(keys[k]) != (size_t)word.length
               || strncasecmp(keys[k], word.start, (size_t)word.length) != 0))
        k++;
    if (k == NKEYS)
        return unknown_key(p, &word);
    skip_blanks(p);
    if (!parse_char(p, '='))
        return parse_fail(p, p->at, "expected '=' after %s, found %s", keys[k],
                          parse_found(p, found));
    skip_blanks(p);
    *key = (enum key)k;
    return true;
}

static bool parse_switch_name(struct network *n)
{
    struct parser *p = &n->p;
    const int before = n->switches.count;
    const char *start = p->at;
    if (!hostlist_parse(p, &n->switches))
        return false;
    return n->switches.count == before + 1
           || parse_fail(p, start, "a line describes one switch, not %d",
                         n->switches.count - before);
}

static bool parse_below(struct network *n, struct a_switch *s, bool leaf)
{
    struct hostlist *list = leaf ? &n->nodes : &n->children;
    if (s->count)
        return parse_fail(&n->p, n->p.at,
                          "a switch has either Nodes or Switches, and once");
    s->leaf = leaf;
    s->first = list->count;
    if (!hostlist_parse(&n->p, list))
        return false;
    s->count = list->count - s->first;
    return true;
}

/* One line, up to its end. */
static bool parse_line(struct network *n, struct a_switch *s)
{
    struct parser *p = &n->p;
    const char *start = p->at;
    enum key key = SWITCH_NAME;
    *s = (struct a_switch){.leaf = false};
    for (bool first = true; *p->at && !strchr("\n#", *p->at); first = false) {
        const char *place = p->at;
        if (!parse_key(p, &key))
            return false;
        if (first != (key == SWITCH_NAME))
            return parse_fail(p, place,
                              "a line has SwitchName= once, at its beginning");
        if (key == LINK_SPEED)
            p->at += strcspn(p->at, " \t\r\n#");
        else if (key == SWITCH_NAME ? !parse_switch_name(n)
                                    : !parse_below(n, s, key == NODES))
            return false;
        skip_blanks(p);
    }
    return s->count
           || parse_fail(p, start, "a switch with neither Nodes nor Switches");
}

static bool parse_lines(struct network *n)
{
    int capacity = 0;
    for (parse_space(&n->p); *n->p.at; parse_space(&n->p)) {
        if (n->switches.count == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            void *more =
                realloc(n->table, (size_t)capacity * sizeof(n->table[0]));
            if (!more)
                return parse_fail(&n->p, n->p.at, "no memory for %d switches",
                                  capacity);
            n->table = more;
        }
        if (!parse_line(n, &n->table[n->switches.count]))
            return false;
    }
    return n->switches.count
           || parse_fail(&n->p, n->p.at,
                         "no switch is described; a line such as "
                         "SwitchName=s0 Nodes=n[0-3] is valid");
}

/* No name stands twice in the list. */
static bool check_unique(struct parser *p, const struct hostlist *list,
                         const struct host_entry sorted[],
                         const char *complaint)
{
    for (int i = 1; i < list->count; i++)
        if (!strcmp(sorted[i - 1].text, sorted[i].text))
            return parse_fail(p, list->names[sorted[i].index].place, complaint,
                              sorted[i].text);
    return true;
}

static bool unknown_switch(struct network *n, const struct host_name *child)
{
    const char *near = NULL;
    const char **names = malloc((size_t)n->switches.count * sizeof(*names));
    for (int i = 0; names && i < n->switches.count; i++)
        names[i] = n->switches.names[i].text;
    if (names)
        near = nearest_name(child->text, names, n->switches.count);
    free(names);
    return parse_fail(&n->p, child->place, "there is no switch %s%s%s%s",
                      child->text, near ? ", did you mean " : "",
                      near ? near : "", near ? "?" : "");
}

/* Finds each switch that stands below another, which only one may say. */
static bool resolve_children(struct network *n,
                             const struct host_entry sorted[])
{
    n->child = malloc(((size_t)n->children.count + 1) * sizeof(int));
    if (!n->child)
        return parse_fail(&n->p, n->p.text, "no memory");
    for (int i = 0; i < n->children.count; i++) {
        const struct host_name *child = &n->children.names[i];
        n->child[i] = hostlist_find(sorted, n->switches.count, child->text);
        if (n->child[i] < 0)
            return unknown_switch(n, child);
        if (n->table[n->child[i]].below)
            return parse_fail(&n->p, child->place,
                              "switch %s is below another already",
                              child->text);
        n->table[n->child[i]].below = true;
    }
    return true;
}

static bool resolve_switches(struct network *n)
{
    struct host_entry *sorted = hostlist_sort(&n->switches);
    const bool ok = sorted ? check_unique(&n->p, &n->switches, sorted,
                                          "switch %s is described twice")
                                 && resolve_children(n, sorted)
                           : parse_fail(&n->p, n->p.text, "no memory");
    free(sorted);
    return ok;
}

/* Reads node_list, whose errors count in its own text. */
static bool read_wanted(struct network *n, const struct host_entry sorted[],
                        const char *node_list)
{
    char where[512];
    struct hostlist list = {.names = NULL};
    struct parser p = n->p;
    char found[8];
    snprintf(where, sizeof(where), "%s: list of nodes", n->p.where);
    p.text = p.at = node_list;
    p.where = where;
    parse_space(&p);
    bool ok = hostlist_parse(&p, &list);
    parse_space(&p);
    if (ok && *p.at)
        ok = parse_fail(&p, p.at, "nothing may follow the nodes, found %s",
                        parse_found(&p, found));
    for (int i = 0; ok && i < list.count; i++) {
        const int node =
            hostlist_find(sorted, n->nodes.count, list.names[i].text);
        if (node >= 0)
            n->wanted[node] = true;
        else
            ok = parse_fail(&p, list.names[i].place, "no switch has node %s",
                            list.names[i].text);
    }
    hostlist_free(&list);
    n->p.status = p.status;
    return ok;
}

static bool resolve_nodes(struct network *n, const char *node_list)
{
    struct host_entry *sorted = hostlist_sort(&n->nodes);
    n->wanted = calloc((size_t)n->nodes.count + 1, sizeof(bool));
    bool ok = sorted && n->wanted
                  ? check_unique(&n->p, &n->nodes, sorted,
                                 "node %s is on another switch already")
                  : parse_fail(&n->p, n->p.text, "no memory");
    if (ok && node_list)
        ok = read_wanted(n, sorted, node_list);
    for (int i = 0; ok && !node_list && i < n->nodes.count; i++)
        n->wanted[i] = true;
    free(sorted);
    return ok;
}

/* Sets nodes and height of a switch and all below it. */
static bool measure(struct network *n, int index, int depth)
{
    struct a_switch *s = &n->table[index];
    s->seen = true;
    s->height = s->leaf;
    if (depth > MAX_LEVELS)
        return parse_fail(&n->p, n->switches.names[index].place,
                          "more than %d switches above each other", MAX_LEVELS);
    for (int i = s->first; i < s->first + s->count; i++) {
        if (s->leaf) {
            s->nodes += n->wanted[i];
            continue;
        }
        const struct a_switch *below = &n->table[n->child[i]];
        if (!measure(n, n->child[i], depth + 1))
            return false;
        s->nodes += below->nodes;
        if (below->nodes && s->height <= below->height)
            s->height = below->height + 1;
    }
    return true;
}

static bool measure_all(struct network *n)
{
    for (int i = 0; i < n->switches.count; i++)
        if (!n->table[i].below && !measure(n, i, 1))
            return false;
    for (int i = 0; i < n->switches.count; i++)
        if (!n->table[i].seen)
            return parse_fail(&n->p, n->switches.names[i].place,
                              "switch %s is below itself",
                              n->switches.names[i].text);
    return true;
}

/* What a level has: a count for each object outside it. */
struct counts {
    int *of;
    int n;
};

/* level[0] is outside of everything, level[height] has the hosts. */
struct writing {
    struct network *network;
    struct counts level[MAX_LEVELS + 1];
    int height;
    char **names; /* of the hosts, taken from network->nodes */
    int nhosts;
};

static void push(struct writing *w, int level, int count)
{
    w->level[level].of[w->level[level].n++] = count;
}

/* The switch as an object of a level, with all that is wanted below it. */
static void write_switch(struct writing *w, int index, int level)
{
    const struct network *n = w->network;
    const struct a_switch *s = &n->table[index];
    int count = 0;
    if (s->height < w->height - level) {
        push(w, level + 1, 1);
        write_switch(w, index, level + 1);
        return;
    }
    for (int i = s->first; i < s->first + s->count; i++)
        count += s->leaf ? n->wanted[i] : n->table[n->child[i]].nodes > 0;
    push(w, level + 1, count);
    for (int i = s->first; i < s->first + s->count; i++) {
        if (s->leaf && n->wanted[i]) {
            w->names[w->nhosts++] = n->nodes.names[i].text;
            n->nodes.names[i].text = NULL;
        } else if (!s->leaf && n->table[n->child[i]].nodes) {
            write_switch(w, n->child[i], level + 1);
        }
    }
}

/* Room for the counts of all levels, and for the names. */
static bool prepare(struct writing *w)
{
    struct network *n = w->network;
    bool ok = true;
    for (int i = 0; i < n->switches.count; i++)
        if (!n->table[i].below && n->table[i].height > w->height)
            w->height = n->table[i].height;
    for (int l = 0; l <= w->height; l++) {
        w->level[l].of = malloc((size_t)n->switches.count * sizeof(int));
        ok = ok && w->level[l].of;
    }
    w->names = calloc((size_t)n->nodes.count + 1, sizeof(char *));
    return (ok && w->names) || parse_fail(&n->p, n->p.text, "no memory");
}

static void write_all(struct writing *w)
{
    const struct network *n = w->network;
    int tops = 0;
    for (int i = 0; i < n->switches.count; i++)
        tops += !n->table[i].below && n->table[i].nodes > 0;
    push(w, 0, tops);
    for (int i = 0; i < n->switches.count; i++)
        if (!n->table[i].below && n->table[i].nodes)
            write_switch(w, i, 0);
}

/* Level l of nlevels from counts, which it takes where they differ. */
static void set_level(struct shape *shape, int l, int nlevels,
                      struct counts *counts)
{
    struct level *level = &shape->levels[l];
    const int above = nlevels - 1 - l;
    bool alike = true;
    if (above > 1)
        snprintf(level->name, sizeof(level->name), "switch%d", above);
    else
        snprintf(level->name, sizeof(level->name), above ? "switch" : "node");
    for (int i = 1; i < counts->n; i++)
        alike &= counts->of[i] == counts->of[0];
    level->count = alike ? counts->of[0] : 0;
    if (!alike) {
        shape->counts[l] = counts->of;
        counts->of = NULL;
    }
}

/* A switch that holds all hosts is the root, and no level. */
static bool set_shape(struct writing *w, struct shape *shape)
{
    int first = 0;
    while (first < w->height && w->level[first].n == 1
           && w->level[first].of[0] == 1)
        first++;
    const int nlevels = w->height + 1 - first;
    if (nlevels > MAX_LEVELS)
        return parse_fail(&w->network->p, w->network->p.text,
                          "more than %d switches above each other",
                          MAX_LEVELS - 1);
    for (int l = 0; l < nlevels; l++)
        set_level(shape, l, nlevels, &w->level[l + first]);
    shape->nlevels = nlevels;
    return true;
}

static bool build(struct network *n, coll_topo **topo)
{
    struct writing w = {.network = n};
    struct shape shape = {.nlevels = 0};
    char sentence[256];
    coll_topo *host = NULL, *cluster = NULL;
    bool ok = prepare(&w);
    if (ok)
        write_all(&w);
    ok = ok && set_shape(&w, &shape) && parse_one_core(&n->p, &host);
    if (ok
        && machine_expand(&cluster, host, &shape, sentence, sizeof(sentence)))
        ok = parse_fail(&n->p, n->p.text, "%s", sentence);
    if (ok) {
        cluster->host_names = w.names;
        *topo = cluster;
    }
    for (int i = 0; !ok && i < w.nhosts; i++)
        free(w.names[i]);
    if (!ok)
        free(w.names);
    for (int l = 0; l <= MAX_LEVELS; l++)
        free(w.level[l].of);
    shape_free(&shape);
    coll_topo_free(host);
    return ok;
}

coll_status coll_topo_parse_slurm(coll_topo **topo,
                                  const char *topology_conf_text,
                                  const char *node_list, const char *where,
                                  char *error, size_t error_bytes)
{
    struct network n = {
        .p = {.text = topology_conf_text,
              .at = topology_conf_text,
              .where = where,
              .error = error,
              .error_bytes = error_bytes}
    };
    const bool ok = parse_lines(&n) && resolve_switches(&n)
                    && resolve_nodes(&n, node_list) && measure_all(&n)
                    && build(&n, topo);
    hostlist_free(&n.switches);
    hostlist_free(&n.nodes);
    hostlist_free(&n.children);
    free(n.table);
    free(n.child);
    free(n.wanted);
    return ok ? COLL_OK : n.p.status;
}
