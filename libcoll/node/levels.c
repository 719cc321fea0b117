/* SPDX-License-Identifier: MIT */
/* Chooses the groups. Each of cache, NUMA node and package may become a
 * level or be left out: all eight ways are built and priced, the cheapest is
 * taken.
 *
 * A rule such as "group by every level that hwloc has" makes four ranks on two
 * caches pay for two levels, and 64 of them for four; what is best depends on
 * how many ranks a level leaves over, and prices say that in one place.
 */
#include "node/levels.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const node_span_names[SPANS] = {"cache", "numa", "package",
                                            "machine"};

/* The price of a cache line from a member, in lines from within a cache, and of
 * the first, for which one waits, in lines that follow it. Assumed, not
 * measured: some 30 ns within a cache and 150 ns between packages. */
const int node_line_price[SPANS] = {1, 2, 3, 5};
enum { FIRST_LINE = 3 };

/* Which ranks share what. */
struct spans {
    int n;
    int nclasses[SPANS];
    bool known[SPANS];    /* of all ranks */
    int *class_of[SPANS]; /* of a rank */
};

struct sitting {
    int where[SPAN_MACHINE]; /* by enum node_span */
    int rank;
};

static int by_place(const void *a, const void *b)
{
    const struct sitting *x = a, *y = b;
    for (int s = SPAN_PACKAGE; s >= SPAN_CACHE; s--)
        if (x->where[s] != y->where[s])
            return x->where[s] < y->where[s] ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int index_or_unknown(int index)
{
    return index < 0 ? -1 : index;
}

/* Ranks are in one class if they are so for all outer spans too; those whose
 * place is unknown are a class in whatever is known of them. */
static void classify(struct spans *s, struct sitting *sorted,
                     const struct node_place places[])
{
    for (int r = 0; r < s->n; r++)
        sorted[r] = (struct sitting){
            .where = {[SPAN_CACHE] = index_or_unknown(places[r].cache),
                      [SPAN_NUMA] = index_or_unknown(places[r].numa),
                      [SPAN_PACKAGE] = index_or_unknown(places[r].package)},
            .rank = r,
        };
    qsort(sorted, (size_t)s->n, sizeof(*sorted), by_place);
    for (int i = 0; i < s->n; i++) {
        const int r = sorted[i].rank;
        bool fresh = i == 0;
        for (int span = SPAN_MACHINE; span >= SPAN_CACHE; span--) {
            if (span < SPAN_MACHINE) {
                const int where = sorted[i].where[span];
                fresh = fresh || where != sorted[i - 1].where[span];
                s->known[span] = s->known[span] && where >= 0;
            }
            s->nclasses[span] += fresh;
            s->class_of[span][r] = s->nclasses[span] - 1;
        }
    }
}

static coll_status spans_make(struct spans *s, const struct node_place places[],
                              int n)
{
    const size_t ranks = (size_t)n;
    struct sitting *sorted = malloc(ranks * sizeof(*sorted));
    int *memory = malloc(SPANS * ranks * sizeof(int));
    *s = (struct spans){.n = n};
    for (int span = 0; span < SPANS; span++)
        s->known[span] = true;
    if (!sorted || !memory) {
        free(sorted);
        free(memory);
        return COLL_ERR_MEMORY;
    }
    for (int span = 0; span < SPANS; span++)
        s->class_of[span] = memory + (size_t)span * ranks;
    classify(s, sorted, places);
    free(sorted);
    return COLL_OK;
}

static void spans_free(struct spans *s)
{
    free(s->class_of[0]);
}

/* Whether a level of this kind could differ from one of the next outer kind;
 * classes are nested, so equal numbers mean equal classes. */
static bool useful(const struct spans *s, int span)
{
    return s->nclasses[span] > s->nclasses[span + 1];
}

/* Members of a class may share more than it says: a package with one cache. */
static int price_within(const struct spans *s, int span)
{
    while (span > 0 && s->known[span - 1] && !useful(s, span - 1))
        span--;
    return node_line_price[span];
}

/* A hierarchy in the making: what is done, and who goes on. */
struct building {
    const struct spans *spans;
    struct node_levels *levels;
    int *members, nmembers; /* in rank order */
    int *label, *scratch;
    int max_levels, price;
};

static bool levels_alloc(struct node_levels *levels, int n)
{
    const size_t ranks = (size_t)n, each = 3 * ranks + 1;
    int *memory = malloc(NODE_LEVELS_MAX * each * sizeof(int));
    *levels = (struct node_levels){.n = n, .memory = memory};
    for (size_t l = 0; memory && l < NODE_LEVELS_MAX; l++)
        levels->level[l] = (struct node_level){
            .group_of = memory + l * each,
            .members = memory + l * each + ranks,
            .first = memory + l * each + 2 * ranks,
        };
    return memory;
}

void node_levels_free(struct node_levels *levels)
{
    free(levels->memory);
    *levels = (struct node_levels){0};
}

/* Puts those members into one group whose ranks have the same label, which is
 * from 0 to n - 1. Returns the size of the largest group. */
static int group_by(struct building *b, struct node_level *level,
                    const int label[])
{
    int *group_with = b->scratch, *next = b->scratch, largest = 0;
    level->nmembers = b->nmembers;
    level->ngroups = 0;
    for (int r = 0; r < b->spans->n; r++)
        level->group_of[r] = group_with[r] = -1;
    for (int i = 0; i < b->nmembers; i++) {
        const int r = b->members[i];
        int *group = &group_with[label[r]];
        if (*group < 0)
            level->first[ *group = level->ngroups++] = 0;
        level->group_of[r] = *group;
        level->first[*group]++;
    }
    /* From sizes to beginnings. */
    for (int g = 0, begin = 0; g < level->ngroups; g++) {
        const int size = level->first[g];
        largest = size > largest ? size : largest;
        level->first[g] = next[g] = begin;
        begin += size;
    }
    level->first[level->ngroups] = b->nmembers;
    for (int i = 0; i < b->nmembers; i++) {
        const int r = b->members[i];
        level->members[next[level->group_of[r]]++] = r;
    }
    return largest;
}

/* How large the parts of a group of `size` are: its square root where two
 * levels do, else the root that keeps all levels alike. */
static int part_size(int size)
{
    int depth = 0, part = 0;
    for (int64_t fits = 1; fits < size; fits *= NODE_GROUP_MAX)
        depth++;
    for (int64_t fits = 0; fits < size;) {
        part++;
        fits = 1;
        for (int d = 0; d < depth; d++)
            fits *= part;
    }
    return part;
}

/* Labels the members by group, and in groups that are too large by part. */
static void label_parts(const struct node_level *level, int label[])
{
    int labels = 0;
    for (int g = 0; g < level->ngroups; g++) {
        const int *members = &level->members[level->first[g]];
        const int size = level->first[g + 1] - level->first[g];
        int parts = 1;
        if (size > NODE_GROUP_MAX)
            parts = (size + part_size(size) - 1) / part_size(size);
        for (int i = 0; i < size; i++)
            label[members[i]] = labels + i * parts / size;
        labels += parts;
    }
}

static void go_on_with_leaders(struct building *b,
                               const struct node_level *level)
{
    b->nmembers = level->ngroups;
    for (int g = 0; g < level->ngroups; g++)
        b->members[g] = level->members[level->first[g]];
}

/* Below the top one waits twice: for the members, then for the result. */
static int price_of(int largest, bool top, int line)
{
    return ((top ? 1 : 2) * FIRST_LINE + largest - 1) * line;
}

/* Adds a level of this kind, and below it others where groups are too large.
 * False: there are too many levels. */
static bool add_level(struct building *b, int span)
{
    const int line = price_within(b->spans, span);
    for (bool split = true; split;) {
        if (b->levels->nlevels == b->max_levels)
            return false;
        struct node_level *level = &b->levels->level[b->levels->nlevels];
        int largest = group_by(b, level, b->spans->class_of[span]);
        split = largest > NODE_GROUP_MAX;
        if (split) {
            label_parts(level, b->label);
            largest = group_by(b, level, b->label);
        }
        level->what = split ? "part" : node_span_names[span];
        b->price += price_of(largest, !split && span == SPAN_MACHINE, line);
        b->levels->nlevels++;
        go_on_with_leaders(b, level);
    }
    return true;
}

/* Bit s of choice: span s becomes a level. The machine always does. */
static bool build(struct building *b, unsigned choice)
{
    const int n = b->spans->n;
    b->levels->nlevels = b->price = 0;
    b->nmembers = n;
    for (int r = 0; r < n; r++)
        b->members[r] = r;
    for (int span = SPAN_CACHE; span < SPAN_MACHINE; span++)
        if ((choice >> span & 1) && !add_level(b, span))
            return false;
    return add_level(b, SPAN_MACHINE);
}

static unsigned useful_spans(const struct spans *s)
{
    unsigned all = 0;
    for (int span = SPAN_CACHE; span < SPAN_MACHINE; span++)
        all |= (unsigned)useful(s, span) << span;
    return all;
}

/* Tries every choice; of equals the first wins, which is flat before deep.
 * Choice 0 always fits: of NODE_GROUP_MAX^k ranks it makes k levels. */
static void choose(struct building *b)
{
    const unsigned all = useful_spans(b->spans);
    unsigned best = 0;
    int lowest = INT32_MAX;
    for (unsigned choice = 0; choice <= all; choice++) {
        if ((choice & ~all) || !build(b, choice) || b->price >= lowest)
            continue;
        best = choice;
        lowest = b->price;
    }
    build(b, best);
}

coll_status node_levels_build(struct node_levels *levels,
                              const struct node_place places[], int n)
{
    struct spans spans;
    struct node_levels made;
    assert(n > 0);
    if (n > NODE_RANKS_MAX)
        return COLL_ERR_UNSUPPORTED;
    const coll_status status = spans_make(&spans, places, n);
    if (status < 0)
        return status;
    int *memory = malloc(3 * (size_t)n * sizeof(int));
    const bool room = levels_alloc(&made, n) && memory;
    if (room) {
        struct building b = {.spans = &spans,
                             .levels = &made,
                             .members = memory,
                             .label = memory + n,
                             .scratch = memory + 2 * n,
                             .max_levels = n <= 4096 ? 3 : NODE_LEVELS_MAX};
        choose(&b);
        *levels = made;
    } else {
        node_levels_free(&made);
    }
    free(memory);
    spans_free(&spans);
    return room ? COLL_OK : COLL_ERR_MEMORY;
}

int node_levels_of(const struct node_levels *levels, int rank,
                   struct node_membership at[NODE_LEVELS_MAX])
{
    int k = 0;
    for (; k < levels->nlevels && levels->level[k].group_of[rank] >= 0; k++) {
        const struct node_level *level = &levels->level[k];
        const int *first = &level->first[level->group_of[rank]];
        at[k] = (struct node_membership){
            .members = &level->members[first[0]],
            .nmembers = first[1] - first[0],
            .leads = level->members[first[0]] == rank,
        };
    }
    return k;
}

/* The part of a text that fits, and the length of all of it. */
struct text {
    char *start;
    size_t bytes, length;
};

__attribute__((__format__(__printf__, 2, 3))) static void
append(struct text *t, const char *format, ...)
{
    va_list args;
    const size_t at = t->length < t->bytes ? t->length : t->bytes;
    va_start(args, format);
    t->length += (size_t)vsnprintf(t->bytes ? t->start + at : NULL,
                                   t->bytes - at, format, args);
    va_end(args);
}

/* "4 groups of 4"; "2 groups of 5 and 2 of 4"; "7 groups of 9 to 4". */
static void append_groups(struct text *t, const struct node_level *level)
{
    int most = 0, least = INT32_MAX, nmost = 0, nleast = 0;
    for (int g = 0; g < level->ngroups; g++) {
        const int size = level->first[g + 1] - level->first[g];
        nmost = size > most ? 1 : nmost + (size == most);
        nleast = size < least ? 1 : nleast + (size == least);
        most = size > most ? size : most;
        least = size < least ? size : least;
    }
    const bool two = most > least && nmost + nleast == level->ngroups;
    const int first = two ? nmost : level->ngroups;
    append(t, "%d group%s of %d", first, first == 1 ? "" : "s", most);
    if (two)
        append(t, " and %d of %d", nleast, least);
    else if (most > least)
        append(t, " to %d", least);
    append(t, " (%s)", level->what);
}

size_t node_levels_print(const struct node_levels *levels, char *text,
                         size_t bytes)
{
    struct text t = {.start = text, .bytes = bytes};
    append(&t, "%d rank%s: ", levels->n, levels->n == 1 ? "" : "s");
    for (int l = 0; l < levels->nlevels; l++) {
        append(&t, "%s", l ? " / " : "");
        append_groups(&t, &levels->level[l]);
    }
    return t.length;
}
