/* SPDX-License-Identifier: MIT */
/* How the ranks of a job find each other, and learn of each other's end.
 *
 * One process runs the hub, a thread that listens; each rank keeps one TCP
 * connection to it, watched by a thread that sleeps in poll(). The protocol
 * is in two state machines without I/O, hub.c and member.c; serve.c and link.c
 * feed them sockets and the clock. After the start the links carry nothing
 * until a rank ends, so they cost nothing; a link that closes without a
 * farewell is how the job learns of a death, whatever transports the data use.
 */
#ifndef BOOTSTRAP_BOOTSTRAP_H
#define BOOTSTRAP_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/coll.h"

struct bootstrap; /* this rank's link to the hub */

/* A fresh random id with this host's addresses (only those of `interfaces`,
 * a list such as "eth0,eth1", if it is not ""), and a hub for it in this
 * process. */
coll_status bootstrap_create_id(coll_unique_id *id, const char *interfaces,
                                double join_seconds);

/* The id that every rank derives from COLL_ROOT ("host:port", "[v6]:port")
 * and COLL_JOB_KEY. Resolves the host. */
coll_status bootstrap_id_from_root(const char *root, const char *key,
                                   coll_unique_id *id);

/* Starts a hub for id in this process, on the addresses in it. Rank 0 of a
 * job from the environment calls this before it joins. The hub ends by itself
 * when every rank has left or failed, or none came in join_seconds. */
coll_status bootstrap_serve(const coll_unique_id *id, double join_seconds);

/* Addresses of this host, `most` at most, at which nobody is heard yet, so that
 * others can be told beforehand where to meet once the hub is gone. *id is for
 * bootstrap_id_salted(). */
struct bootstrap_refuge;
coll_status bootstrap_open_refuge(struct bootstrap_refuge **,
                                  coll_unique_id *id, const char *interfaces,
                                  int most);
/* Starts a hub there, for an id that was made of the refuge's; again, once all
 * have joined an earlier one. One that has failed still listens for a while, to
 * tell late ranks: then a call may reach either, and is made again. */
coll_status bootstrap_serve_refuge(struct bootstrap_refuge *,
                                   const coll_unique_id *id,
                                   double join_seconds);
void bootstrap_close_refuge(struct bootstrap_refuge *); /* NULL: nothing */

/* The same addresses with another key, equal where salt is. */
coll_unique_id bootstrap_id_salted(const coll_unique_id *, uint64_t salt);

/* Whether the hub for id runs in this process. */
bool bootstrap_has_hub(const coll_unique_id *);

/* Returns once all nranks have joined. `about` (at most 255 bytes) is what
 * other ranks' error sentences call this one, such as "host a, pid 12". */
coll_status bootstrap_join(struct bootstrap **, const coll_unique_id *id,
                           int rank, int nranks, const char *about,
                           double join_seconds);

/* all[r] = what rank r gave; bytes (at most 64 MiB / nranks) equal on all
 * ranks. Rounds are collective and in order. The first form waits up to
 * join_seconds. The second starts a round that _test() ends: COLL_OK,
 * COLL_IN_PROGRESS or an error; mine is copied, all is written by _test(). */
coll_status bootstrap_allgather(struct bootstrap *, const void *mine, void *all,
                                size_t bytes);
coll_status bootstrap_allgather_start(struct bootstrap *, const void *mine,
                                      size_t bytes);
coll_status bootstrap_allgather_test(struct bootstrap *, void *all);
/* Sleeps until that would say something else than IN_PROGRESS, or so long. */
void bootstrap_allgather_nap(struct bootstrap *, double seconds);

/* COLL_OK, or why the job failed: one atomic load. PEER: a rank went away;
 * ABORTED: a rank aborted. The sentence names the rank and is valid until
 * bootstrap_leave(). Any thread. */
coll_status bootstrap_failure(const struct bootstrap *);
const char *bootstrap_failure_sentence(const struct bootstrap *);

/* The rank that went away, after PEER; NOBODY: not known; or the process that
 * has the hub, of which no word came. */
enum { BOOTSTRAP_NOBODY = -1, BOOTSTRAP_HUB = -2 };
int bootstrap_culprit(const struct bootstrap *);

/* Tells every rank that this one gives up, and why; also fails this rank with
 * the same status. Never blocks; any thread. */
void bootstrap_abort(struct bootstrap *, coll_status status, const char *why);

/* What a rank has called, for bootstrap_inquire(). Numbers count up from 1 and
 * wrap; equal calls, after equal ones, have equal tags. */
struct bootstrap_call {
    uint32_t number, tag;
    char text[88];
};
enum { BOOTSTRAP_CALLS_MAX = 32 };
/* Writes this rank's last calls, the oldest first; returns how many. upto: none
 * of a higher number; NULL: of any. Called in the link's thread, at any time
 * until bootstrap_leave(). */
typedef int bootstrap_calls_fn(void *context, const uint32_t *upto,
                               struct bootstrap_call *);
void bootstrap_answer(struct bootstrap *, bootstrap_calls_fn *, void *context);

/* Has all ranks' last calls compared. If two differ the job fails with
 * MISMATCH, and a sentence that names both. Never blocks. */
void bootstrap_inquire(struct bootstrap *);

/* Says farewell and ends the thread: other ranks, and what they do, are of no
 * concern any more. What any thread may call still may be called. */
void bootstrap_depart(struct bootstrap *);
/* The same, unless it was done before, and frees. */
void bootstrap_leave(struct bootstrap *);

/* The addresses at the two ends of this rank's link, as they travel: 16 bytes,
 * the first 4 of which are an IPv4 address's. */
struct bootstrap_end {
    uint32_t family;
    unsigned char bytes[16];
};
void bootstrap_ends(const struct bootstrap *, struct bootstrap_end *mine,
                    struct bootstrap_end *hub);

/* Seconds from this rank to the hub and back, the least that there were; 0:
 * unknown. */
double bootstrap_round_trip(struct bootstrap *);

/* This host's network interface with that address, but for loopbacks; "": none.
 */
void bootstrap_interface_of(const struct bootstrap_end *, char *name,
                            size_t bytes);

/* Whether an interface of each name in a list such as "eth0,eth1" is up with an
 * address; "" is. Fails with INVALID, naming those there are. */
coll_status bootstrap_check_interface(const char *names);

/* An interface of this host by which others may reach it. */
struct bootstrap_interface {
    char name[32];
    struct bootstrap_end at; /* its first address that travels */
    uint64_t network; /* equal where family, length of prefix and prefix are */
};

/* Those that run, but for loopbacks and ends of tunnels, in the system's order;
 * at most so many. Returns how many. */
int bootstrap_interfaces(struct bootstrap_interface *, int most);

/* A door of this host on one interface, at which others knock, to see that
 * packets pass and how fast. Opening returns a descriptor, or -1: no door. */
struct bootstrap_door {
    struct bootstrap_end at;
    uint32_t port; /* 0: there is none */
};
int bootstrap_open_door(const char *interface, struct bootstrap_door *);

enum { BOOTSTRAP_VISITS_MAX = 16 };

/* What hosts ask of one another's doors, all at the same time. Each sends the
 * next one of a ring a stream. */
struct bootstrap_knock {
    struct bootstrap_door next, visited[BOOTSTRAP_VISITS_MAX];
    int nvisited;
    bool far; /* a round trip takes milliseconds */
    /* What is found. Of what came in at this host's own door, all or what half
     * a second brought; and the same without a pause for windows to open; 0: not
     * known. */
    double bytes_per_second, seconds_per_byte;
    /* Of the visited ones, as the kernels say, who answer at once; 0: not
     * known. */
    double round_trip[BOOTSTRAP_VISITS_MAX];
};

/* Returns 0 or errno, also ENOMEM of its own; waits so long for the next host
 * and those visited to answer, but no more than 0.4 s for others once the next
 * one has. */
int bootstrap_knock(int door, struct bootstrap_knock *, double seconds);
void bootstrap_close_door(int fd);

/* A datagram to nobody there, so that what leads to that host is found before
 * it is measured. */
void bootstrap_wave(const struct bootstrap_end *);

#endif
