/* SPDX-License-Identifier: MIT */
/* The communicator, for inside comm/. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <pthread.h>
#include <stdatomic.h>

#include "bootstrap/bootstrap.h"
#include "coll/coll.h"
#include "comm/called.h"
#include "comm/hosts.h"
#include "comm/links.h"
#include "comm/record.h"
#include "comm/select.h"
#include "comm/staged.h"
#include "exec/exec.h"
#include "node/node.h"
#include "op/handle.h"
#include "transport/transport.h"

enum { MAX_TRANSPORTS = 8, SENTENCE_BYTES = 1024 };

/* What every rank tells every other at start. Fixed widths: it travels. */
struct rank_info {
    uint64_t host;     /* see struct transport_job */
    uint64_t job;      /* rank 0's counts */
    uint64_t settings; /* hash of what must be equal on all ranks */
    uint64_t cpus[16]; /* bit i: may run on CPU i */
    uint64_t machine;  /* equal where the kernel is; hosts may be namespaces */
    struct bootstrap_end own, hub; /* of its link to the hub */
    coll_unique_id refuge;         /* where others would meet it, see shrink.c */
    int32_t quota;            /* CPUs that its cgroups grant; 0: all */
    int32_t described;        /* of a split: which host of COLL_CLUSTER its
                                 host is; of the job: set once all have met */
    int32_t pid;
    uint32_t version;
    int32_t has_hub;    /* the hub is in its process */
    int32_t has_refuge; /* or it could listen nowhere */
    char hostname[64];
};

/* One plan with its executor; plans are built at first use and kept. */
struct prepared {
    struct prepared *next; /* of the same algorithm */
    int algo, variant, root;
    enum layout_order order;
    bool keeps; /* positions are ranks: for a reduce in rank order */
    struct plan plan;
    struct exec exec;
};

/* Which call this rank waits for, when it next inquires, and how long after. */
struct doubt {
    uint32_t begun;
    double at, pause;
};

enum { RECENT_CALLS = 8 };

/* COLL_DETERMINISM, the least first. */
enum determinism {
    DETERMINISM_OFF,
    DETERMINISM_RUN,
    DETERMINISM_LAYOUT,
    DETERMINISM_FULL,
    NDETERMINISMS
};

/* A call of a kind, kept so that one like it need not be looked up. */
struct recent {
    bool known;  /* there was one */
    bool uneven; /* a v-call */
    coll_dtype dtype;
    coll_op op;
    int root;
    size_t count;
    enum algo_way way;
    int node_algo; /* the row of node/; else chosen anew each time */
    const struct combine *combine; /* NULL where nothing is reduced */
    const struct red_op *scaled;
    enum algo_order in_order; /* as in struct reduction, see red_op.h */
    bool flat;
    size_t elem_bytes;
    uint32_t fingerprint;
};

/* What was done of one kind, counted where its records are written. */
struct tally {
    uint64_t operations, failures;
    uint64_t bytes_read, bytes_written;
    uint64_t messages;     /* sent */
    uint64_t vector_bytes; /* of what one rank holds in full */
    uint64_t ticks;        /* of the recorder's clock */
};

struct coll_comm {
    _Atomic int owner;        /* see owner.h */
    _Atomic int callers;      /* that wait for the helper to leave */
    bool helped;              /* by the thread of progress.h */
    bool listed;              /* the helper knows of it, */
    _Atomic bool outstanding; /* and has something to do for it */
    coll_comm *next_helped;
    int rank, nranks;
    struct bootstrap *bootstrap; /* NULL for one rank alone */
    struct bootstrap_refuge *refuge; /* likewise */
    struct rank_info *ranks;
    uint64_t *host_of;
    int nhosts, local_ranks; /* hosts of the job; ranks on this host */

    char interface[32]; /* by which this host is reached; "": unknown */
    int lanes;          /* COLL_UCX_LANES */
    struct transport_rail rails[TRANSPORT_RAILS_MAX]; /* of the job */
    struct transport_job job;
    struct nearby_pair *ways; /* as reach.h says; NULL: not known */
    struct transport *open[MAX_TRANSPORTS];
    int nopen;
    struct transport **to; /* per rank; NULL for this one */
    struct node *node;     /* the ranks of this host; NULL: messages only */
    struct hosts hosts;    /* of a job on several; n 0: of others */
    struct staged staged;  /* the running operation, if it goes by hosts */
    bool remote;           /* some messages do not go through shared memory */

    struct layout layout;
    struct links links; /* as this job measured them, or zeros */
    bool moved; /* rank 0: twice, and other ones than the store has */
    struct select select;
    /* The last operation that was timed: what it ran, and how long it took this
     * rank. See news.h. */
    enum coll_kind last_kind;
    struct select_choice last;
    uint16_t news;
    struct prepared **prepared; /* [nalgos] */
    struct recent recent[NKINDS][RECENT_CALLS];
    void *tmp; /* scratch of the running operation */
    size_t tmp_bytes;
    void *shared; /* and what ranks of this host can reach; NULL: none yet */
    size_t shared_bytes;

    struct uneven *uneven; /* of blocking v-calls; NULL: there was none yet */

    coll_request *first, **last_request; /* in order; the first one runs */
    coll_request *meeting;               /* may be put before it, see news.h */
    uint32_t history;                    /* tag of the last one begun */
    struct doubt doubt;
    uint32_t finished; /* so many: each has its own deadline */
    struct asked {
        double last, seconds; /* when, and for how long, as comm_asked() says */
        uint32_t finished;    /* before what is asked after */
    } asked;
    struct patience {
        double deadline; /* of who waits; 0: from the next look at the clock */
        uint32_t finished; /* before what it waits for */
    } patience;
    coll_comm *also;            /* waited for together with this one */
    struct tally tally[NKINDS]; /* for coll_stats() */
    struct recorder recorder;   /* the last operations, in order */

    struct red_op *red_op[OP_HANDLES]; /* by their number; NULL: none */
    bool red_op_is_scaled[OP_HANDLES];
    void *scaled; /* inputs that were multiplied first */
    size_t scaled_bytes;

    enum determinism determinism;
    struct p2p *p2p; /* sends and receives; NULL: nothing of them yet */
    uint32_t points; /* of them finished; wraps */

    bool adapts, calibrates, explains; /* COLL_ADAPT and so on */
    bool meets;                        /* waits in comm_meet() */
    bool crowded;      /* some machine has more ranks than processors */
    unsigned spins;    /* empty polls before the processor is given up */
    double op_seconds; /* deadline of one operation; 0: none */
    double join_seconds;

    char *rules;             /* of COLL_ALGO, or what was put in its place */
    struct node_place place; /* of this rank, where it has a node */
    /* While it is split off: from which, whose figures it may take over, and
     * whether it has the same ranks in the same order. Else NULL. */
    const coll_comm *parent;
    bool same;

    _Atomic int failed;     /* a coll_status; set once, under the mutex */
    _Atomic bool finalized; /* nothing has failed, but it refuses all calls */
    _Atomic int aborting;   /* calls of coll_comm_abort() under way */
    pthread_mutex_t mutex;
    char sentence[SENTENCE_BYTES];
};

/* comm.c. Reads the settings; without a parent's word theirs, and the config's
 * before both, count. config, parent: may be NULL. */
coll_status comm_create(coll_comm **, int nranks, int rank, const coll_config *,
                        const coll_comm *parent);
/* Meets the others; an error of one is an error of all, with its reason. id:
 * NULL for one rank alone. comm_release() even after a failure. */
coll_status comm_join(coll_comm *, const coll_unique_id *id);
coll_status comm_check_shape(coll_comm **, int nranks, int rank);
/* in_order: nothing failed, so the record of it has done its work. */
void comm_release(coll_comm *, bool in_order); /* end.c */

/* join.c: transports and who is where, once the ranks have met. */
coll_status comm_exchange(coll_comm *, const struct rank_info *mine);
coll_status comm_connect(coll_comm *);

/* fail.c: the first failure of a communicator wins and stays. */
coll_status comm_fail(coll_comm *, coll_status, const char *sentence);
coll_status comm_fail_with_job(coll_comm *); /* which has failed */
/* COLL_OK, or the failure of this communicator or its job. */
static inline coll_status comm_check(coll_comm *c)
{
    /* Pairs with the store in comm_fail(). */
    const int failed = atomic_load_explicit(&c->failed, memory_order_acquire);
    if (failed)
        return (coll_status)failed;
    return c->bootstrap && bootstrap_failure(c->bootstrap) != COLL_OK
               ? comm_fail_with_job(c)
               : COLL_OK;
}
/* From now on comm_check() says INVALID; not after a failure, which it returns.
 */
coll_status comm_finalize(coll_comm *);

/* wait.c: every wait of the library goes through here, so every wait has a
 * deadline and ends when the job fails. step is called until it says something
 * other than COLL_IN_PROGRESS. seconds 0: no deadline. what: "a collective",
 * for the sentence of a timeout, which fails the communicator. */
coll_status comm_wait(coll_comm *, coll_status (*step)(void *context),
                      void *context, double seconds, const char *what);
/* The same for several, from *comms on by `also`. step may take some off that
 * list, and says something other than COLL_IN_PROGRESS before it is empty. An
 * error is one of them's. */
coll_status comm_wait_several(coll_comm *const *comms,
                              coll_status (*step)(void *context), void *context,
                              double seconds, const char *what);
/* Puts the descriptors into fds that turn readable when the communicator has
 * something to do, and returns how many; or it cannot be said so, or there is
 * something now. */
enum { COMM_WATCH_CANNOT = -1, COMM_WATCH_READY = -2 };
struct pollfd;
int comm_watch(coll_comm *, struct pollfd *fds, int max);
/* coll_test()'s part of it: TIMEOUT, which fails the communicator, once the
 * caller has asked after the running operation for op_seconds; a pause between
 * two questions counts for a tenth of that at most, as the operation may well
 * have needed this rank meanwhile. Else IN_PROGRESS. */
coll_status comm_asked(coll_comm *, const char *what);
/* All transports, and sends and receives; whether anything moved. */
bool comm_progress(coll_comm *);
/* meet.c: a round of the bootstrap's allgather, in which this rank's messages
 * go on. what: as above. The deadline is COLL_JOIN_SECONDS. */
coll_status comm_meet(coll_comm *, const void *mine, void *all, size_t bytes,
                      const char *what);
/* To see that all ranks have made the same calls so far, with none outstanding.
 * MISMATCH, which fails the communicator, where they have not. */
coll_status comm_meet_alike(coll_comm *, const char *what);
bool comm_on_node(const coll_comm *); /* the running operation needs none */
double comm_clock(void);              /* seconds, monotonic */

/* prepare.c: what root's call needs, made at first use. All fail with MEMORY.
 */
coll_status comm_prepare(coll_comm *, const struct select_choice *, int root,
                         struct prepared **);
coll_status comm_reserve(coll_comm *, size_t bytes);        /* tmp */
coll_status comm_reserve_shared(coll_comm *, size_t bytes); /* shared */
void comm_free_prepared(coll_comm *); /* both, and the call's numbers */

/* network.c: what the network looks like and costs, and the prices of all
 * candidates; equal on all ranks. */
coll_status comm_price(coll_comm *);

/* request.c */
coll_status comm_drain(coll_comm *); /* waits for collectives outstanding */
void comm_end_requests(coll_comm *, coll_status); /* after a failure */
/* Ends all transfers: their memory is the caller's again. Nothing can be sent
 * afterwards. */
void comm_cancel(coll_comm *);
/* " 1, 3": whose messages the running operation lacks, or "". */
void comm_awaited(const coll_comm *, char *text, size_t bytes);

#endif
