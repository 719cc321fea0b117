/* SPDX-License-Identifier: MIT */
/* A communicator's ranks and new ones, who have an id from outside. In two
 * rounds over the control plane, as in split.c: who has the id; whether all
 * have joined. Between them all go the way of any job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/agree.h"
#include "comm/group.h"
#include "comm/owner.h"

/* What each old rank tells all in a round. */
struct word {
    struct verdict verdict;
    int32_t nranks, has_id;
    coll_unique_id id;
};

struct grow {
    coll_comm *parent, *new;
    struct word mine, *all;
};

static coll_status tell(struct grow *g, coll_status status)
{
    return agree(g->parent, "grow", status, &g->mine, g->all, sizeof(g->mine));
}

static coll_status prepare(struct grow *g, int rank, const coll_config *config,
                           coll_comm *const *newcomm)
{
    coll_comm *c = g->parent;
    if (!newcomm)
        return fail(COLL_ERR_INVALID, "comm", "newcomm is NULL");
    if (rank != -1 && rank != c->rank)
        return fail(COLL_ERR_INVALID, "comm",
                    "rank %d: valid is -1 or %d, as ranks keep their numbers",
                    rank, c->rank);
    if (g->mine.nranks <= c->nranks)
        return fail(COLL_ERR_INVALID, "comm",
                    "nranks %d: valid is more than the %d that there are",
                    g->mine.nranks, c->nranks);
    return comm_create(&g->new, g->mine.nranks, c->rank, config, c);
}

/* The id that somebody has; the same on all ranks. */
static coll_status find_id(const struct grow *g, coll_unique_id *id)
{
    const struct word *from = NULL;
    for (int r = 0; r < g->parent->nranks; r++) {
        const struct word *w = &g->all[r];
        if (w->nranks != g->all[0].nranks)
            return fail(COLL_ERR_INVALID, "comm",
                        "coll_comm_grow: rank 0 wants %d ranks, rank %d %d",
                        g->all[0].nranks, r, w->nranks);
        if (w->has_id && from && memcmp(&w->id, &from->id, sizeof(*id)) != 0)
            return fail(COLL_ERR_INVALID, "comm",
                        "coll_comm_grow: rank %d has another id than rank %d",
                        r, (int)(from - g->all));
        if (w->has_id && !from)
            from = w;
    }
    if (!from)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_comm_grow: no rank has an id; one makes it by "
                    "coll_get_unique_id(), and new ranks get it from there");
    *id = from->id;
    return COLL_OK;
}

static coll_status join(struct grow *g)
{
    char why[sizeof(g->mine.verdict.reason)];
    coll_unique_id id;
    coll_status status = find_id(g, &id);
    if (status < 0) /* all found the same */
        return status;
    /* Without a parent, which new ranks have not: all take the same way. */
    status = comm_join(g->new, &id);
    const bool joined = status == COLL_OK;
    status = tell(g, status);
    if (status < 0 && joined) {
        snprintf(why, sizeof(why), "%s", fail_sentence());
        coll_comm_destroy(g->new);
        g->new = NULL;
        fail(status, "comm", "%s", why);
    }
    return status;
}

static coll_status grow(struct grow *g, int rank, const coll_config *config,
                        coll_comm **newcomm)
{
    g->all = calloc((size_t)g->parent->nranks, sizeof(*g->all));
    if (!g->all)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks",
                    g->parent->nranks);
    coll_status status = agree_begin(g->parent, "grow", CALLED_GROW);
    if (status == COLL_OK) {
        status = tell(g, prepare(g, rank, config, newcomm));
        if (status == COLL_OK)
            status = join(g);
        agree_end(g->parent, status);
    }
    if (status == COLL_OK)
        *newcomm = g->new;
    else if (g->new)
        comm_release(g->new, true);
    free(g->all);
    return status;
}

coll_status coll_comm_grow(coll_comm *comm, int nranks,
                           const coll_unique_id *id, int rank,
                           coll_comm **newcomm, const coll_config *config)
{
    if (!comm && !id)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_comm_grow: a new rank, which has no communicator, "
                    "needs an id");
    if (!comm)
        return coll_comm_init_rank_config(newcomm, nranks, *id, rank, config);
    struct grow g = {
        .parent = comm, .mine = {.nranks = nranks, .has_id = id != NULL}
    };
    if (id)
        g.mine.id = *id;
    coll_status status = group_check_unused(comm, "comm_grow");
    if (status == COLL_OK)
        status = comm_enter(comm, "comm_grow");
    if (status < 0)
        return status;
    status = grow(&g, rank, config, newcomm);
    comm_leave(comm);
    return status;
}
