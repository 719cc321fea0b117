/* SPDX-License-Identifier: MIT */
/* Ranks that go on without some others, who may be dead, rank 0 too.
 *
 * The hub may be gone, and so may be whoever knew how to reach whom. So each
 * rank has a refuge from the start: addresses at which it listens, and answers
 * nobody, which all ranks of the communicator know. The first rank that stays
 * has the new hub there. Its key is made of the refuge's and of who stays, so
 * that ranks which do not agree on that do not meet.
 */
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "comm/comm.h"
#include "comm/group.h"
#include "comm/owner.h"

/* Who dies takes the link to the hub with it, and what carried data may be
 * noticed a moment before that. */
enum { NEWS_SECONDS = 2, LEAVE_SECONDS = 2 };

struct shrink {
    coll_comm *parent;
    bool *gone; /* of each rank */
    int nranks, rank, first;
};

static coll_status mark(struct shrink *s, const int *exclude, int nexclude)
{
    const coll_comm *c = s->parent;
    for (int i = 0; i < nexclude; i++) {
        if (exclude[i] < 0 || exclude[i] >= c->nranks)
            return fail(COLL_ERR_INVALID, "comm",
                        "coll_comm_shrink: exclude[%d] is %d, valid are ranks "
                        "0 to %d",
                        i, exclude[i], c->nranks - 1);
        if (s->gone[exclude[i]])
            return fail(COLL_ERR_INVALID, "comm",
                        "coll_comm_shrink: rank %d is excluded twice",
                        exclude[i]);
        s->gone[exclude[i]] = true;
    }
    if (s->gone[c->rank])
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_comm_shrink: rank %d excludes itself; only ranks "
                    "that stay make the call",
                    c->rank);
    return COLL_OK;
}

static uint64_t now_and(int seconds)
{
    return record_nanoseconds(CLOCK_MONOTONIC)
           + (uint64_t)seconds * 1000000000u;
}

/* Waits for a moment; false: it is past that time. */
static bool pause_until(uint64_t until)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
    return record_nanoseconds(CLOCK_MONOTONIC) < until;
}

static int culprit_of(const coll_comm *c)
{
    const uint64_t until = now_and(NEWS_SECONDS);
    while (c->bootstrap && bootstrap_failure(c->bootstrap) == COLL_OK
           && pause_until(until))
        ;
    return c->bootstrap ? bootstrap_culprit(c->bootstrap) : BOOTSTRAP_NOBODY;
}

/* All ranks of the process of which the failure is; ranks may be threads. */
static coll_status mark_dead(struct shrink *s)
{
    const coll_comm *c = s->parent;
    if (comm_check(s->parent) != COLL_ERR_PEER)
        return COLL_OK;
    const int culprit = culprit_of(c);
    bool found = false;
    for (int r = 0; r < c->nranks; r++) {
        const struct rank_info *one = &c->ranks[r];
        const struct rank_info *dead = culprit < 0 ? NULL : &c->ranks[culprit];
        s->gone[r] = dead ? one->host == dead->host && one->pid == dead->pid
                          : culprit == BOOTSTRAP_HUB && one->has_hub;
        found |= s->gone[r];
    }
    if (!found || s->gone[c->rank])
        return fail(COLL_ERR_UNSUPPORTED, "comm",
                    "coll_comm_shrink: it is not known which rank is gone "
                    "(\"%.300s\"); name it in exclude",
                    c->sentence);
    return COLL_OK;
}

static void find_rank(struct shrink *s)
{
    s->first = -1;
    for (int r = 0; r < s->parent->nranks; r++) {
        if (s->gone[r])
            continue;
        s->rank += r < s->parent->rank;
        s->first = s->first < 0 ? r : s->first;
        s->nranks++;
    }
}

/* FNV-1a, of who stays. */
static uint64_t salt_of(const struct shrink *s)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int r = 0; r < s->parent->nranks; r++)
        hash = (hash ^ s->gone[r]) * 0x100000001b3u;
    return hash;
}

static coll_status meet(struct shrink *s, coll_comm *new)
{
    coll_comm *c = s->parent;
    if (s->nranks > 1 && !c->ranks[s->first].has_refuge)
        return fail(COLL_ERR_UNSUPPORTED, "comm",
                    "coll_comm_shrink: rank %d, the first that stays, could "
                    "listen nowhere when the communicator was made "
                    "(COLL_LOG=info there says why)",
                    s->first);
    const coll_unique_id id =
        bootstrap_id_salted(&c->ranks[s->first].refuge, salt_of(s));
    coll_status status = COLL_OK;
    if (s->nranks > 1 && s->rank == 0)
        status = bootstrap_serve_refuge(c->refuge, &id, new->join_seconds);
    new->parent = c; /* which knows this rank's place */
    if (status == COLL_OK)
        status = comm_join(new, &id);
    new->parent = NULL;
    return status;
}

static coll_status shrink(struct shrink *s, bool marks, coll_comm **newcomm,
                          const coll_config *config)
{
    coll_comm *new = NULL;
    coll_status status = marks ? mark_dead(s) : COLL_OK;
    if (status < 0)
        return status;
    find_rank(s);
    status = comm_create(&new, s->nranks, s->rank, config, s->parent);
    if (status == COLL_OK)
        status = meet(s, new);
    if (status == COLL_OK)
        *newcomm = new;
    else if (new)
        comm_release(new, true);
    return status;
}

/* aborts: a thread that waits in the communicator leaves it. What this rank has
 * heard of a death comes first. */
static coll_status enter(coll_comm *c, bool aborts)
{
    const uint64_t until = now_and(LEAVE_SECONDS);
    coll_status status = group_check_unused(c, "comm_shrink");
    if (status < 0)
        return status;
    if (aborts && comm_check(c) == COLL_OK)
        coll_comm_abort_because(c, "it goes on without some ranks");
    do
        status = comm_enter(c, "comm_shrink");
    while (status == COLL_ERR_BUSY && aborts && pause_until(until));
    return status;
}

static coll_status check(const coll_comm *c, const int *exclude, int nexclude,
                         coll_comm *const *newcomm, int flags)
{
    if (!c || !newcomm)
        return fail(COLL_ERR_INVALID, "comm", "coll_comm_shrink: %s is NULL",
                    c ? "newcomm" : "the communicator");
    if (atomic_load_explicit(&c->finalized, memory_order_relaxed))
        return fail(COLL_ERR_INVALID, "comm", "coll_comm_shrink: %s",
                    c->sentence);
    if (nexclude < 0 || (nexclude && !exclude))
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_comm_shrink: nexclude is %d%s", nexclude,
                    nexclude < 0 ? ", valid is 0 or more"
                                 : ", but exclude is NULL");
    if (flags & ~COLL_SHRINK_ABORT)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_comm_shrink: flags 0x%x, valid are "
                    "COLL_SHRINK_DEFAULT and COLL_SHRINK_ABORT",
                    (unsigned)flags);
    return COLL_OK;
}

coll_status coll_comm_shrink(coll_comm *comm, const int *exclude, int nexclude,
                             coll_comm **newcomm, const coll_config *config,
                             int flags)
{
    coll_status status = check(comm, exclude, nexclude, newcomm, flags);
    if (status < 0)
        return status;
    struct shrink s = {.parent = comm,
                       .gone = calloc((size_t)comm->nranks, sizeof(bool))};
    if (!s.gone)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks",
                    comm->nranks);
    status = mark(&s, exclude, nexclude);
    if (status == COLL_OK)
        status = enter(comm, flags & COLL_SHRINK_ABORT);
    if (status == COLL_OK) {
        status = shrink(&s, !nexclude, newcomm, config);
        comm_leave(comm);
    }
    free(s.gone);
    return status;
}

coll_status coll_comm_revoke(coll_comm *comm, int flags)
{
    if (!comm || flags)
        return fail(COLL_ERR_INVALID, "comm",
                    comm ? "coll_comm_revoke: flags 0x%x, valid is 0"
                         : "coll_comm_revoke: the communicator is NULL",
                    (unsigned)flags);
    return coll_comm_abort_because(comm, "it was revoked");
}
