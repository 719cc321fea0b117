/* SPDX-License-Identifier: MIT */
/* Communicators made of a communicator's ranks.
 *
 * All is agreed on over the parent's control plane, in three rounds: who goes
 * with whom; the id that the first rank of each group has made; whether all
 * have joined. What fails at one rank so fails at all, with its sentence, and
 * the parent is as good as before. Between the last two each group goes the way
 * of any job.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "comm/agree.h"
#include "comm/calls.h"
#include "comm/owner.h"

/* What each rank tells all in a round. */
struct word {
    struct verdict verdict;
    int32_t color, key;
    coll_unique_id id;
};

struct split {
    const char *call;        /* "split", "dup" */
    int called;              /* CALLED_SPLIT, CALLED_DUP */
    coll_comm *parent, *new; /* new: NULL of who is in no group */
    struct word mine, *all;  /* [nranks of the parent] */
    int nranks, rank, first; /* the group's; of its first rank the old number */
    bool same; /* the group is the parent's ranks in their order */
};

/* status: how this rank fares. */
static coll_status tell(struct split *s, coll_status status)
{
    return agree(s->parent, s->call, status, &s->mine, s->all, sizeof(s->mine));
}

static bool comes_before(const struct word *all, int a, int b)
{
    return all[a].key < all[b].key || (all[a].key == all[b].key && a < b);
}

static void find_group(struct split *s)
{
    const struct word *all = s->all;
    const int me = s->parent->rank;
    s->nranks = s->rank = 0;
    s->first = me;
    for (int r = 0; r < s->parent->nranks; r++) {
        if (all[r].color != all[me].color)
            continue;
        s->nranks++;
        s->rank += comes_before(all, r, me);
        if (comes_before(all, r, s->first))
            s->first = r;
    }
    s->same = s->nranks == s->parent->nranks;
    for (int r = 1; r < s->nranks && s->same; r++)
        s->same = all[r - 1].key <= all[r].key;
}

/* Between hosts an id has this one's addresses on the network by which ranks
 * have met before. */
static coll_status make_id(struct split *s)
{
    const coll_comm *c = s->parent;
    const char *set = setting_text(SETTING_INTERFACE);
    return bootstrap_create_id(&s->mine.id,
                               *set || c->nhosts == 1 ? set : c->interface,
                               c->join_seconds);
}

/* After the first round. */
static coll_status gather_groups(struct split *s)
{
    coll_comm *new = s->new;
    coll_status status = COLL_OK;
    bool joined = false;
    find_group(s);
    if (new && s->nranks > 1 && s->rank == 0)
        status = make_id(s);
    status = tell(s, status);
    if (status == COLL_OK) {
        if (new) {
            new->rank = s->rank;
            new->nranks = s->nranks;
            new->parent = s->parent;
            new->same = s->same;
            status = comm_join(new, &s->all[s->first].id);
            new->parent = NULL;
            joined = status == COLL_OK;
        }
        status = tell(s, status);
    }
    if (status < 0 && joined) {
        char why[sizeof(s->mine.verdict.reason) + 64];
        snprintf(why, sizeof(why), "%s", fail_sentence());
        coll_comm_destroy(new);
        s->new = NULL;
        fail(status, "comm", "%s", why);
    }
    return status;
}

/* Of the lowest rank that shares memory with this one; no rank can say it. */
static int host_color(const coll_comm *c)
{
    int r = c->node ? 0 : c->rank;
    while (c->host_of[r] != c->host_of[c->rank])
        r++;
    return COLL_SPLIT_HOST - 1 - r;
}

/* The new one does not know yet how many ranks it has: so whatever this rank
 * does wrong is told in the first round. */
static coll_status prepare(struct split *s, const coll_config *config,
                           coll_comm *const *newcomm)
{
    const int color = s->mine.color;
    if (!newcomm)
        return fail(COLL_ERR_INVALID, "comm", "newcomm is NULL");
    if (color < 0 && color != COLL_SPLIT_NOCOLOR && color != COLL_SPLIT_HOST)
        return fail(COLL_ERR_INVALID, "comm",
                    "color %d: valid is 0 or more, COLL_SPLIT_NOCOLOR or "
                    "COLL_SPLIT_HOST",
                    color);
    if (color == COLL_SPLIT_HOST)
        s->mine.color = host_color(s->parent);
    return color == COLL_SPLIT_NOCOLOR
               ? COLL_OK
               : comm_create(&s->new, 1, 0, config, s->parent);
}

/* The rounds, of who is alone in the parent. */
static coll_status part_off(struct split *s, const coll_config *config,
                            coll_comm **newcomm)
{
    coll_comm *comm = s->parent;
    s->all = calloc((size_t)comm->nranks, sizeof(*s->all));
    if (!s->all)
        return fail(COLL_ERR_MEMORY, "comm",
                    "coll_comm_%s: no memory for %d ranks", s->call,
                    comm->nranks);
    coll_status status = agree_begin(comm, s->call, s->called);
    if (status == COLL_OK) {
        status = tell(s, prepare(s, config, newcomm));
        if (status == COLL_OK)
            status = gather_groups(s);
        agree_end(comm, status);
    }
    if (status == COLL_OK)
        *newcomm = s->new;
    else if (s->new)
        comm_release(s->new, true);
    free(s->all);
    return status;
}

static coll_status enter(struct split *s, const coll_config *config,
                         coll_comm **newcomm)
{
    char call[16];
    if (!s->parent)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_comm_%s: the communicator is NULL", s->call);
    snprintf(call, sizeof(call), "comm_%s", s->call);
    coll_status status = comm_enter(s->parent, call);
    if (status < 0)
        return status;
    status = part_off(s, config, newcomm);
    comm_leave(s->parent);
    return status;
}

coll_status coll_comm_split(coll_comm *comm, int color, int key,
                            coll_comm **newcomm, const coll_config *config)
{
    struct split s = {
        .call = "split",
        .called = CALLED_SPLIT,
        .parent = comm,
        .mine = {.color = color, .key = key},
    };
    return enter(&s, config, newcomm);
}

coll_status coll_comm_dup(coll_comm *comm, coll_comm **newcomm)
{
    struct split s = {.call = "dup", .called = CALLED_DUP, .parent = comm};
    return enter(&s, NULL, newcomm);
}
