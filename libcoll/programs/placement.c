/* SPDX-License-Identifier: MIT */
#include "programs/placement.h"

#include <stdlib.h>
#include <string.h>

#include "coll/coll.h"
#include "node/levels.h"

/* Where ranks go: PU and location of each, and the most ranks on a core. */
struct placement {
    int nranks, most;
    int *pus;
    coll_topo_location *where;
};

static struct placement place(const coll_topo *topo, int nranks)
{
    struct placement p = {.nranks = nranks};
    p.pus = malloc((size_t)p.nranks * sizeof(*p.pus));
    p.where = malloc((size_t)p.nranks * sizeof(*p.where));
    if (p.pus && p.where)
        p.most = coll_topo_place(topo, p.nranks, p.pus);
    if (!p.most) {
        fprintf(stderr, "coll_info: no usable CPU to place a rank on\n");
        exit(1);
    }
    for (int r = 0; r < p.nranks; r++)
        coll_topo_locate_pu(topo, p.pus[r], &p.where[r]);
    return p;
}

static void placement_free(struct placement *p)
{
    free(p->pus);
    free(p->where);
}

/* " numa 3", for what exists. */
static void show_part(const char *name, int index)
{
    if (index >= 0)
        printf(" %s %d", name, index);
}

/* "0-3 4-7": the groups with more than one rank. */
static void show_groups(const struct placement *p, coll_topo_share share)
{
    int *group = malloc((size_t)p->nranks * sizeof(int));
    if (!group
        || coll_topo_group(p->where, p->nranks, share, group, NULL)
               == p->nranks) {
        free(group);
        return;
    }
    printf("ranks that share a %s:", coll_topo_share_name(share));
    /* Neighbours are placed together, so a group is one run of ranks. */
    for (int r = 0, end; r < p->nranks; r = end) {
        for (end = r + 1; end < p->nranks && group[end] == group[r];)
            end++;
        if (end > r + 1)
            printf(" %d-%d", r, end - 1);
    }
    printf("\n");
    free(group);
}

/* How the ranks of one host, first and those behind it, are grouped; *end is
 * set to the first rank of the next host. */
static struct node_levels levels_of(const struct placement *p, int first,
                                    int *end)
{
    struct node_levels levels;
    *end = first + 1;
    while (*end < p->nranks && p->where[*end].host == p->where[first].host)
        ++*end;
    const int n = *end - first;
    struct node_place *places = malloc((size_t)n * sizeof(*places));
    for (int i = 0; places && i < n; i++) {
        const coll_topo_location *at = &p->where[first + i];
        places[i] = (struct node_place){at->package, at->numa, at->cache};
    }
    const coll_status status =
        places ? node_levels_build(&levels, places, n) : COLL_ERR_MEMORY;
    free(places);
    if (status) {
        fprintf(stderr, "coll_info: %d ranks on one host: %s\n", n,
                coll_status_string(status));
        exit(1);
    }
    return levels;
}

static char *levels_text(const struct placement *p, int first, int *end)
{
    struct node_levels levels = levels_of(p, first, end);
    const size_t length = node_levels_print(&levels, NULL, 0);
    char *text = malloc(length + 1);
    if (!text) {
        fprintf(stderr, "coll_info: no memory\n");
        exit(1);
    }
    node_levels_print(&levels, text, length + 1);
    node_levels_free(&levels);
    return text;
}

/* One line for neighbouring hosts that are alike; none for a rank alone. */
static void show_levels(const struct placement *p, bool hosts)
{
    for (int r = 0, end; r < p->nranks; r = end) {
        char *text = levels_text(p, r, &end);
        const bool alone = end == r + 1;
        int last = r;
        for (bool alike = true; alike && end < p->nranks;) {
            int after;
            char *next = levels_text(p, end, &after);
            alike = strcmp(text, next) == 0;
            free(next);
            if (alike) {
                last = end;
                end = after;
            }
        }
        if (!alone) {
            printf("small collectives");
            if (hosts)
                printf(", host%s %d", last > r ? "s" : "",
                       (int)p->where[r].host);
            if (last > r)
                printf("-%d", (int)p->where[last].host);
            printf(": %s\n", text);
        }
        free(text);
    }
}

void placement_text(const coll_topo *topo, int nranks)
{
    struct placement p = place(topo, nranks);
    const bool hosts = coll_topo_count(topo, COLL_TOPO_HOST) > 1;
    for (int r = 0; r < p.nranks; r++) {
        const coll_topo_location *at = &p.where[r];
        const int pu = coll_topo_pu(topo, p.pus[r]);
        printf("rank %d:", r);
        show_part("host", hosts ? (int)at->host : -1);
        show_part("package", at->package);
        show_part("numa", at->numa);
        show_part("cache", at->cache);
        show_part("core", at->core);
        show_part("cpu", coll_topo_get(topo, pu)->os_index);
        printf("\n");
    }
    if (p.most > 1)
        printf("there are more ranks than usable cores: up to %d on one\n",
               p.most);
    for (int s = COLL_TOPO_SHARE_CORE; s > COLL_TOPO_SHARE_NONE; s--)
        show_groups(&p, (coll_topo_share)s);
    show_levels(&p, hosts);
    placement_free(&p);
}

/* Every group of every host, with its ranks. */
static void write_levels(struct json *j, const struct placement *p)
{
    json_begin(j, "small_collectives", '[');
    for (int r = 0, end; r < p->nranks; r = end) {
        struct node_levels levels = levels_of(p, r, &end);
        json_begin(j, NULL, '{');
        json_number(j, "host", (double)p->where[r].host);
        json_begin(j, "levels", '[');
        for (int l = 0; l < levels.nlevels; l++) {
            const struct node_level *level = &levels.level[l];
            json_begin(j, NULL, '{');
            json_text(j, "by", level->what);
            json_begin(j, "groups", '[');
            for (int g = 0; g < level->ngroups; g++) {
                json_begin(j, NULL, '[');
                for (int i = level->first[g]; i < level->first[g + 1]; i++)
                    json_number(j, NULL, r + level->members[i]);
                json_end(j, ']');
            }
            json_end(j, ']');
            json_end(j, '}');
        }
        json_end(j, ']');
        json_end(j, '}');
        node_levels_free(&levels);
    }
    json_end(j, ']');
}

void placement_json(const coll_topo *topo, int nranks, struct json *j)
{
    struct placement p = place(topo, nranks);
    json_begin(j, "placement", '{');
    json_number(j, "ranks", p.nranks);
    json_number(j, "most_on_one_core", p.most);
    json_begin(j, "where", '[');
    for (int r = 0; r < p.nranks; r++) {
        const int pu = coll_topo_pu(topo, p.pus[r]);
        json_begin(j, NULL, '{');
        json_number(j, "rank", r);
        json_number(j, "host", (double)p.where[r].host);
        json_number(j, "package", p.where[r].package);
        json_number(j, "numa", p.where[r].numa);
        json_number(j, "cache", p.where[r].cache);
        json_number(j, "core", p.where[r].core);
        json_number(j, "cpu", coll_topo_get(topo, pu)->os_index);
        json_end(j, '}');
    }
    json_end(j, ']');
    write_levels(j, &p);
    json_end(j, '}');
    placement_free(&p);
}
