/* SPDX-License-Identifier: MIT */
/* The network of a description, in figures that SimGrid can be given: for the
 * platform, which is C++ and cannot read libcoll's own headers, and for
 * replay.c. Ranks sit on a host each. */
#ifndef SIMGRID_NETWORK_H
#define SIMGRID_NETWORK_H

#ifdef __cplusplus
extern "C" {
#endif

enum { NETWORK_LEVELS = 6 };

struct network_level {
    const int *group_of; /* per rank, from 0 */
    int ngroups;
    double alpha;  /* seconds from end to end, between groups of this level */
    double shared; /* bytes per second of a group's link; 0: has none */
};

struct network {
    int nranks, nlevels; /* outermost first; the last are the hosts */
    struct network_level level[NETWORK_LEVELS];
    double port; /* bytes per second of a host, in each direction */
    struct layout *layout;
};

/* What `cluster` (a text, a file or a name, as COLL_CLUSTER) describes, with
 * gamma seconds per byte reduced. Returns NULL, or what is wrong, until the
 * next call; a level without `shared` at which hosts are slower than their
 * ports is, as links of a platform cannot say it. */
const char *network_open(struct network *, const char *cluster, double gamma);
void network_close(struct network *);

#ifdef __cplusplus
}
#endif
#endif
