/* SPDX-License-Identifier: MIT */
/* Where the ranks of a job sit: groups inside groups, what messages between
 * them cost, and the orders in which a plan may line them up.
 *
 * Levels come from a description of the cluster (COLL_CLUSTER, Slurm, probing)
 * and from which ranks share a host. A level that tells no ranks apart is left
 * out. Hosts are numbered in the order of their lowest ranks.
 */
#ifndef COMM_LAYOUT_H
#define COMM_LAYOUT_H

#include "coll/topo.h"
#include "plan/plan.h"
#include "transport/sim.h"

/* What is measured or assumed where a description gives no figures. */
struct layout_costs {
    struct sim_link local;  /* messages inside a host */
    struct sim_link remote; /* between hosts */
    double gamma;           /* seconds per byte reduced, in the caches */
    double copy;            /* seconds per byte copied there; 0: not counted */
    double memory; /* seconds per byte that comes from memory or goes there */
    size_t cache;  /* vectors longer than this do not stay in the caches;
                      0: all do */
};

/* Groups of hosts that were found by measuring, see probe.h; ngroups 0 or 1:
 * none. */
struct layout_groups {
    int ngroups;
    const int *group_of; /* per host, numbered by their lowest ranks */
    struct sim_link link;
    double shared; /* seconds per byte of a group's link; 0: not shared */
};

struct layout {
    int nranks;
    struct sim_net net; /* for vectors that fit the caches */
    double memory;      /* as in struct layout_costs */
    size_t cache;
    char level_name[SIM_LEVELS][24];
    int *group_of;   /* [net.nlevels][nranks]: what net points to */
    int *machine_of; /* [nranks], the same; or NULL */
    int by_hosts;    /* ranks on the largest host, if plans by hosts can serve;
                        0: they cannot. See ORDER_HOSTS */
};

/* How positions of a plan become ranks. */
enum layout_order {
    ORDER_GIVEN,       /* as the ranks are numbered */
    ORDER_BLOCK,       /* ranks of one group next to one another */
    ORDER_ROUND_ROBIN, /* dealt over the groups, of each level in turn */
    NORDERS,
    /* Or a position is a host: its ranks combine in memory, one rank a host, or
     * each for a slice, runs the plan: see staged.h. */
    ORDER_HOSTS = NORDERS, /* hosts of one group next to one another */
    ORDER_HOSTS_DEALT,     /* hosts dealt over the groups */
    NLINEUPS
};
extern const char *const layout_order_names[NLINEUPS];

static inline bool layout_by_hosts(enum layout_order order)
{
    return order >= ORDER_HOSTS;
}
/* Of those two, how the hosts stand; an order of ranks is what it is. */
static inline enum layout_order layout_of_positions(enum layout_order order)
{
    return order == ORDER_HOSTS         ? ORDER_BLOCK
           : order == ORDER_HOSTS_DEALT ? ORDER_ROUND_ROBIN
                                        : order;
}

/* Numbers hosts in the order of their lowest ranks; returns how many. */
int layout_number_hosts(int nranks, const uint64_t *host_of, int *host);

/* host_of: per rank, equal for ranks of one host; NULL: a host for each. topo
 * and groups may be NULL; the i-th host is the i-th that topo describes. What
 * topo describes goes before what was measured. A level that it gives no
 * figures takes those between the measured groups, if none of these lies in two
 * of its own, and else those inside them. Fails with INVALID (fewer hosts
 * described than there are), MEMORY. */
coll_status layout_create(struct layout *, int nranks, const uint64_t *host_of,
                          const coll_topo *topo, const struct layout_groups *,
                          const struct layout_costs *);

/* The same with any hosts of the description, see described.h. */
struct layout_cluster {
    const coll_topo *topo;
    const int *host_at; /* per host: its logical index there; NULL: in order */
};
coll_status layout_create_on(struct layout *, int nranks,
                             const uint64_t *host_of, struct layout_cluster,
                             const struct layout_groups *,
                             const struct layout_costs *);
void layout_free(struct layout *);
coll_status layout_copy(struct layout *,
                        const struct layout *from); /* MEMORY */

/* The network for a vector of so many bytes. A sum takes as long as the adding
 * or as the memory, whichever is slower: two vectors read and one written, of a
 * copy one each (the roofline of Williams, Waterman and Patterson, 2009). */
struct sim_net layout_net(const struct layout *, size_t bytes);

/* Ranks that take turns on the processors of their machines: as in struct
 * sim_net. */
struct crowd {
    int nmachines, nprocessors; /* on each machine, the fewest; nmachines 0:
                                   nobody has to take turns */
    int *machine_of;            /* per rank */
    double machine, turn;
};

/* machine_of is copied. Fails with MEMORY. */
coll_status layout_crowd(struct layout *, const struct crowd *);

/* The same groups with one rank a host, its lowest; of several hosts. Numbered
 * as by layout_number_hosts(). Fails with MEMORY. */
coll_status layout_of_hosts(const struct layout *, struct layout *hosts);

/* How many there are; of several hosts. */
int layout_hosts(const struct layout *);

/* Whether each has a run of ranks, in the order of the hosts; of several. */
bool layout_hosts_are_runs(const struct layout *);

/* Whether each has a run of as many, a power of two, but for the last one,
 * which may have fewer; where plans by hosts can serve. */
bool layout_hosts_pair_up(const struct layout *);

/* Whether each has as many ranks; where plans by hosts can serve. */
bool layout_even(const struct layout *);

/* Equal for equal groups of the same ranks. */
uint64_t layout_digest(const struct layout *);

/* order[i]: the rank at position i; root at position 0. */
coll_status layout_fill_order(const struct layout *, enum layout_order,
                              int root, int *order);

/* The groups as runs of positions of an order. Levels whose groups are single
 * ranks are left out, and those whose groups are not runs: of an ORDER_BLOCK
 * order none, of ORDER_GIVEN those whose ranks were not numbered group by
 * group. The tree's numbers are one allocation, which the caller frees with
 * layout_free_tree(). */
coll_status layout_fill_tree(const struct layout *, const int *order,
                             struct plan_tree *);
void layout_free_tree(struct plan_tree *);

#endif
