/* SPDX-License-Identifier: MIT */
/* Runs libcoll's plans on SimGrid's network, and prints what they take there
 * beside what libcoll's own simulator says.
 *
 *   replay --cluster TEXT [--bytes N,...] [--gamma SECONDS_PER_BYTE]
 *          [--only ours|simgrid] [--overlap] CASE...
 *   replay --config
 *
 * CASE is ALGORITHM:ORDER[:SEGMENTS], or `chosen`, what the library would take.
 * One line of JSON is printed for each case and size. Every rank is an actor
 * that runs the executor of the library itself (exec/exec.c) over a transport
 * whose messages are SimGrid's. They follow the rules of transport/sim.h: match
 * in posting order, begin when both sides have posted them, go one after
 * another from one rank to another, and arrive alpha after their last byte has
 * left. So SimGrid is given no latencies here, but all of what is shared.
 * With --overlap, messages from one rank to another share the way instead.
 * --config prints SimGrid's settings, for smpirun to be given the same.
 */
#include <getopt.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>

#include "base/log.h"
#include "comm/price.h"
#include "comm/select.h"
#include "comms.h"
#include "exec/exec.h"
#include "network.h"

/* The plain fluid model. CM02 alone would share a link by the inverse of the
 * latencies of its flows, if they have any; a weight-S that is large beside
 * them makes all flows of a port nearly alike, as flows.h has them. The
 * default precision (1 ns) is a thousandth of a latency. */
static char *const config[] = {
    "--log=xbt_cfg.thres:warning",    "--cfg=network/model:CM02",
    "--cfg=network/crosstraffic:0",   "--cfg=network/TCP-gamma:1e18",
    "--cfg=network/latency-factor:1", "--cfg=network/bandwidth-factor:1",
    "--cfg=network/weight-S:1e10",    "--cfg=surf/precision:1e-12",
    "--cfg=maxmin/precision:1e-9",    "--cfg=contexts/stack-size:256",
};
enum { NCONFIG = sizeof(config) / sizeof(config[0]) };

/* So many messages the library rehearses, see comm/network.c. */
static const double max_messages = 2e5;

enum { MAX_BYTES = 32 };

struct job {
    struct network net;
    size_t bytes[MAX_BYTES];
    int nbytes;
    bool ours, simgrid;
    char **cases;
    int ncases;
    struct select select;
    bool priced;
};

struct candidate {
    const struct algo *algo;
    enum layout_order order;
    int segments;
};

/* --- One rank on SimGrid ------------------------------------------------- */

/* A transfer whose last byte has left: arrives alpha later. */
struct arrival {
    double at;
    struct transfer *transfer;
};

struct rank {
    struct transport base; /* first: a transport pointer is a rank pointer */
    struct stage *stage;
    int me;
    struct plan plan;
    struct exec exec;
    struct comms *comms;
    /* Sends in their order; one to the same rank as another waits for it. */
    struct transfer *sends;
    struct arrival arrivals[EXEC_WINDOW]; /* in no order */
    int narrivals;
    double over; /* virtual time */
};

struct stage { /* all ranks of one case */
    const struct sim_net *net;
    int nranks;
    bool overlap; /* of messages of one pair */
    struct rank *ranks;
    uint64_t messages;
};

static struct stage stage; /* the one that runs; actors only get texts */

static void send_it(struct transport *t, struct transfer *tx)
{
    struct rank *me = (struct rank *)t;
    struct transfer **at = &me->sends;
    bool alone = true;
    for (; *at; at = &(*at)->next)
        alone &= me->stage->overlap || (*at)->peer != tx->peer;
    *at = tx;
    tx->next = NULL;
    tx->handle = &me->sends; /* says that it is one of them */
    me->stage->messages++;
    if (alone)
        comms_put(me->comms, me->me, tx->peer, tx->bytes, tx);
}

static void receive_it(struct transport *t, struct transfer *rx)
{
    struct rank *me = (struct rank *)t;
    comms_get(me->comms, rx->peer, me->me, rx);
}

/* Takes a send off the list and starts the next one to the same rank. */
static void sent(struct rank *me, const struct transfer *tx)
{
    struct transfer **at = &me->sends;
    while (*at != tx)
        at = &(*at)->next;
    *at = tx->next;
    struct transfer *next = tx->next;
    while (next && next->peer != tx->peer)
        next = next->next;
    if (next && !me->stage->overlap)
        comms_put(me->comms, me->me, next->peer, next->bytes, next);
}

static void left(struct rank *me, struct transfer *t)
{
    const struct sim_net *net = me->stage->net;
    const int level = sim_level_of(net, me->me, t->peer);
    if (t->handle == &me->sends)
        sent(me, t);
    me->arrivals[me->narrivals++] =
        (struct arrival){simgrid_get_clock() + net->level[level].link.alpha, t};
}

/* Ends what has arrived by now; returns whether anything did. */
static bool deliver(struct rank *me)
{
    const double now = simgrid_get_clock() * (1 + 1e-14) + 1e-13;
    const int before = me->narrivals;
    for (int i = 0; i < me->narrivals;)
        if (me->arrivals[i].at <= now) {
            me->arrivals[i].transfer->status = COLL_OK;
            me->arrivals[i] = me->arrivals[--me->narrivals];
        } else {
            i++;
        }
    return me->narrivals < before;
}

static double next_arrival(const struct rank *me)
{
    double at = me->narrivals ? INFINITY : -1;
    for (int i = 0; i < me->narrivals; i++)
        at = fmin(at, me->arrivals[i].at);
    return at;
}

static void work(struct transport *t, size_t bytes, bool reduces)
{
    const struct rank *me = (struct rank *)t;
    const double seconds = me->stage->net->gamma * (double)bytes;
    if (reduces && seconds > 0)
        sg_actor_sleep_for(seconds);
}

static const struct transport_ops ops = {
    .name = "simgrid", .send = send_it, .recv = receive_it, .work = work};

/* The actor of a rank. */
static void run_rank(int argc, char **argv)
{
    struct rank *me = &stage.ranks[atoi(argv[argc - 1])];
    while (exec_progress(&me->exec) == COLL_IN_PROGRESS)
        do {
            struct transfer *t = comms_wait(me->comms, next_arrival(me));
            if (t)
                left(me, t);
        } while (!deliver(me));
    me->over = simgrid_get_clock();
}

/* --- One case ------------------------------------------------------------ */

static coll_status set_up_rank(struct rank *r, const struct candidate *c,
                               const struct plan_shape *shape, const int *order,
                               size_t bytes)
{
    c->algo->plan(&r->plan, shape);
    if (r->plan.status != COLL_OK)
        return r->plan.status;
    plan_renumber(&r->plan, order);
    const coll_status status = exec_init(&r->exec, &r->plan, NULL);
    r->exec.meter = &r->base;
    if (status == COLL_OK)
        exec_start(&r->exec,
                   &(struct exec_call){.count = bytes, .elem_bytes = 1});
    return status;
}

static coll_status set_up(const struct network *net, const struct candidate *c,
                          size_t bytes)
{
    const int n = net->nranks;
    struct plan_tree tree = {0};
    int *order = malloc((size_t)n * sizeof(int));
    stage.nranks = n;
    stage.net = &net->layout->net;
    stage.messages = 0;
    stage.ranks = calloc((size_t)n, sizeof(*stage.ranks));
    coll_status status =
        order && stage.ranks
            ? layout_fill_order(net->layout, c->order, 0, order)
            : COLL_ERR_MEMORY;
    if (status == COLL_OK)
        status = layout_fill_tree(net->layout, order, &tree);
    for (int i = 0; i < n && status == COLL_OK; i++) {
        struct rank *r = &stage.ranks[order[i]];
        *r = (struct rank){
            .base = {&ops},
            .stage = &stage,
            .me = order[i],
            .comms = comms_create(),
            .over = NAN,
        };
        status = set_up_rank(
            r, c, &(struct plan_shape){i, n, c->segments, &tree, 0}, order, bytes);
    }
    layout_free_tree(&tree);
    free(order);
    return status;
}

static void tear_down(void)
{
    for (int r = 0; r < stage.nranks && stage.ranks; r++) {
        plan_free(&stage.ranks[r].plan);
        exec_free(&stage.ranks[r].exec);
        if (stage.ranks[r].comms)
            comms_free(stage.ranks[r].comms);
    }
    free(stage.ranks);
    stage.ranks = NULL;
}

/* On SimGrid, from an actor of its own. */
static coll_status replay(const struct network *net, const struct candidate *c,
                          size_t bytes, double *seconds)
{
    const int n = net->nranks;
    const double begun = simgrid_get_clock();
    sg_actor_t *actors = calloc((size_t)n, sizeof(sg_actor_t));
    coll_status status = actors ? set_up(net, c, bytes) : COLL_ERR_MEMORY;
    for (int r = 0; r < n && status == COLL_OK; r++) {
        char host[32], number[16];
        snprintf(host, sizeof(host), "host-%d", r);
        snprintf(number, sizeof(number), "%d", r);
        char *argv[] = {number, NULL};
        actors[r] = sg_actor_init(number, sg_host_by_name(host));
        sg_actor_ref(actors[r]);
        sg_actor_start(actors[r], run_rank, 1, argv);
    }
    *seconds = 0;
    for (int r = 0; r < n && status == COLL_OK; r++) {
        sg_actor_join(actors[r], -1);
        sg_actor_unref(actors[r]);
        *seconds = fmax(*seconds, stage.ranks[r].over - begun);
    }
    tear_down();
    free(actors);
    return status;
}

/* What the library takes without rules, before it has learned anything. */
static coll_status choose(struct job *job, size_t bytes, struct candidate *c)
{
    struct select_choice choice;
    coll_status status = COLL_OK;
    const struct price_limits limits = {.messages = max_messages,
                                        .seconds = 1e9};
    if (!job->priced)
        status = price_within(&job->select.prices, job->net.layout, &limits);
    if (status == COLL_OK && !job->priced)
        status = select_rules(&job->select, "", "replay");
    job->priced = status == COLL_OK;
    if (job->priced)
        status = select_best(&job->select, ALLREDUCE, bytes, &choice);
    if (status == COLL_OK)
        *c = (struct candidate){&algos[choice.algo], choice.order,
                                1 << choice.variant};
    return status;
}

/* NULL, or what is wrong. */
static const char *parse_case(const char *text, struct candidate *c)
{
    char algo[64] = "", order[16] = "";
    *c = (struct candidate){.segments = 1};
    if (sscanf(text, "%63[^:]:%15[^:]:%d", algo, order, &c->segments) < 2)
        return "is not ALGORITHM:ORDER[:SEGMENTS]";
    c->algo = algo_find(ALLREDUCE, algo);
    if (!c->algo)
        return "names no algorithm";
    while (c->order < NORDERS && strcmp(layout_order_names[c->order], order))
        c->order++;
    if (c->order == NORDERS)
        return "names no order: given, block or round_robin";
    return c->segments < 1 || c->segments > PLAN_SEGMENTS_MAX
               ? "has too many segments"
               : NULL;
}

static double wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void print_figure(const char *name, bool known, double x)
{
    known ? printf(", \"%s\": %.9g", name, x) : printf(", \"%s\": null", name);
}

static void run_case(struct job *job, const char *text, size_t bytes)
{
    struct candidate c;
    double ours = NAN, simgrid = NAN;
    const bool chosen = strcmp(text, "chosen") == 0;
    coll_status status = COLL_OK;
    if (chosen)
        status = choose(job, bytes, &c);
    else
        parse_case(text, &c);
    const double t0 = wall();
    if (status == COLL_OK && job->ours)
        status = price_one(job->net.layout, c.algo, c.order, c.segments, bytes,
                           NULL, &ours);
    const double t1 = wall();
    if (status == COLL_OK && job->simgrid)
        status = replay(&job->net, &c, bytes, &simgrid);
    const double t2 = wall();
    if (status < 0) {
        fprintf(stderr, "replay: %s: %s\n", text, fail_sentence());
        exit(1);
    }
    printf("{\"case\": \"%s\", \"algorithm\": \"%s\", \"order\": \"%s\", "
           "\"segments\": %d, \"ranks\": %d, \"bytes\": %zu",
           text, c.algo->name, layout_order_names[c.order], c.segments,
           job->net.nranks, bytes);
    print_figure("ours", job->ours, ours);
    print_figure("simgrid", job->simgrid, simgrid);
    print_figure("ratio", job->ours && job->simgrid, ours / simgrid);
    print_figure("messages", job->simgrid, (double)stage.messages);
    print_figure("ours_wall", job->ours, t1 - t0);
    print_figure("simgrid_wall", job->simgrid, t2 - t1);
    printf("}\n");
    fflush(stdout);
}

static struct job job;

/* The actor that starts the others, one case after the other. */
static void run_all(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    for (int b = 0; b < job.nbytes; b++)
        for (int i = 0; i < job.ncases; i++)
            run_case(&job, job.cases[i], job.bytes[b]);
}

/* --- Command line -------------------------------------------------------- */

static void refuse(const char *what, const char *why)
{
    fprintf(stderr, "replay: %s %s\n", what, why);
    exit(2);
}

static void print_config(void)
{
    for (int i = 0; i < NCONFIG; i++)
        puts(config[i]);
    exit(0);
}

static void take_bytes(const char *text)
{
    while (*text) {
        char *end;
        const unsigned long long n = strtoull(text, &end, 10);
        if (end == text || n == 0 || job.nbytes == MAX_BYTES
            || (*end && *end != ','))
            refuse(text, "is no list of bytes");
        job.bytes[job.nbytes++] = n;
        text = *end ? end + 1 : end;
    }
}

static const char *take_options(int argc, char **argv, double *gamma)
{
    static const struct option options[] = {
        {"cluster",          required_argument, NULL, 'c'},
        {"bytes",              required_argument, NULL, 'b'},
        {"gamma",                  required_argument, NULL, 'g'},
        {"only",required_argument, NULL, 'o'},
        {"overlap",               no_argument, NULL, 'v'},
        {"config",            no_argument, NULL, 'p'},
        {0             }
    };
    const char *cluster = NULL;
    job.ours = job.simgrid = true;
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;)
        if (o == 'c')
            cluster = optarg;
        else if (o == 'b')
            take_bytes(optarg);
        else if (o == 'g')
            *gamma = atof(optarg);
        else if (o == 'o' && strcmp(optarg, "ours") == 0)
            job.simgrid = false;
        else if (o == 'o' && strcmp(optarg, "simgrid") == 0)
            job.ours = false;
        else if (o == 'v')
            stage.overlap = true;
        else if (o == 'p')
            print_config();
        else
            refuse("usage:", "replay --cluster TEXT [--bytes N,...] "
                             "[--gamma SECONDS] [--only ours|simgrid] "
                             "[--overlap] CASE...");
    job.cases = argv + optind;
    job.ncases = argc - optind;
    if (!cluster)
        refuse("--cluster", "is missing");
    if (!job.nbytes)
        take_bytes("1048576");
    return cluster;
}

/* The platform lies beside the program. */
static void load_platform(const char *cluster)
{
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
    if (n < 0)
        refuse("/proc/self/exe", "cannot be read");
    path[n] = 0;
    strcat(dirname(path), "/simgrid_platform.so");
    setenv("COLL_CLUSTER", cluster, 1);
    setenv("SIMGRID_LATENCY", "0", 1);
    simgrid_load_platform(path);
}

static void start_engine(char *program)
{
    int argc = 1 + NCONFIG;
    char *argv[2 + NCONFIG] = {program};
    memcpy(argv + 1, config, sizeof(config));
    simgrid_init(&argc, argv);
}

int main(int argc, char **argv)
{
    double gamma = 0;
    const char *cluster = take_options(argc, argv, &gamma);
    const char *wrong = network_open(&job.net, cluster, gamma);
    if (wrong)
        refuse(wrong, "");
    for (int i = 0; i < job.ncases; i++) {
        struct candidate c;
        if (strcmp(job.cases[i], "chosen") != 0
            && (wrong = parse_case(job.cases[i], &c)))
            refuse(job.cases[i], wrong);
    }
    start_engine(argv[0]);
    load_platform(cluster);
    sg_actor_create("cases", sg_host_by_name("host-0"), run_all, 0, NULL);
    simgrid_run();
    network_close(&job.net);
    return 0;
}
