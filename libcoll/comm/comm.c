/* SPDX-License-Identifier: MIT */
/* Communicators: create. */
#include "comm/comm.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "comm/calls.h"
#include "comm/config.h"
#include "comm/copy.h"
#include "comm/here.h"
#include "comm/inlined.h"
#include "comm/progress.h"
#include "comm/reach.h"
#include "comm/request.h"

/* With a processor for each rank: about two microseconds of empty polls. */
enum { SPINS = 400 };

static uint64_t hash_text(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3ull;
    return (h ^ 0xff) * 0x100000001b3ull;
}

/* One of two words: that one, or off. */
static coll_status read_switch(enum setting setting, const char *name,
                               const char *on, bool *is_on)
{
    const char *value = setting_text(setting);
    *is_on = !strcmp(value, on);
    if (!*is_on && strcmp(value, "off"))
        return fail(COLL_ERR_INVALID, "comm", "%s=%s is not %s or off", name,
                    value, on);
    return COLL_OK;
}

static bool helps_between_hosts(void)
{
    return !strcmp(setting_text(SETTING_PROGRESS), "hosts");
}

static coll_status read_progress(coll_comm *c)
{
    const char *value = setting_text(SETTING_PROGRESS);
    c->helped = !strcmp(value, "thread");
    if (c->helped || helps_between_hosts() || !strcmp(value, "off"))
        return COLL_OK;
    return fail(COLL_ERR_INVALID, "comm",
                "COLL_PROGRESS=%s is not hosts, thread or off", value);
}

static coll_status read_settings(coll_comm *c)
{
    coll_status status =
        setting_number(SETTING_JOIN_SECONDS, 0.01, 86400, &c->join_seconds);
    if (status == COLL_OK)
        status = setting_number(SETTING_OP_SECONDS, 0, 1e9, &c->op_seconds);
    bool single_copy;
    if (status == COLL_OK)
        status = read_switch(SETTING_SINGLE_COPY, "COLL_SINGLE_COPY", "auto",
                             &single_copy);
    if (status == COLL_OK)
        status = read_switch(SETTING_CALIBRATE, "COLL_CALIBRATE", "on",
                             &c->calibrates);
    if (status == COLL_OK)
        status = read_switch(SETTING_ADAPT, "COLL_ADAPT", "on", &c->adapts);
    if (status == COLL_OK)
        status = read_progress(c);
    if (status == COLL_OK)
        status = config_determinism(c, setting_text(SETTING_DETERMINISM),
                                    "COLL_DETERMINISM");
    double lanes = 1;
    if (status == COLL_OK)
        status =
            setting_number(SETTING_UCX_LANES, 1, TRANSPORT_LANES_MAX, &lanes);
    c->lanes = (int)lanes;
    const char *explain = setting_text(SETTING_EXPLAIN);
    c->explains = !strcmp(explain, "1");
    if (status == COLL_OK && !c->explains && strcmp(explain, "0"))
        status = fail(COLL_ERR_INVALID, "comm", "COLL_EXPLAIN=%s is not 0 or 1",
                      explain);
    if (status == COLL_OK)
        status = config_rules(c, setting_text(SETTING_ALGO), "COLL_ALGO");
    return status;
}

static coll_status describe(const coll_comm *c, struct rank_info *info)
{
    static const enum setting equal[] = {SETTING_TRANSPORT, SETTING_CLUSTER,
                                         SETTING_CALIBRATE, SETTING_ADAPT,
                                         SETTING_UCX_LANES};
    *info = (struct rank_info){
        .version = (uint32_t)coll_version(),
        .pid = (int32_t)getpid(),
        .described =
            c->parent ? c->parent->ranks[c->parent->rank].described : 0,
        .settings = hash_text(0xcbf29ce484222325ull, c->rules),
    };
    for (size_t i = 0; i < sizeof(equal) / sizeof(equal[0]); i++)
        info->settings = hash_text(info->settings, setting_text(equal[i]));
    info->settings =
        hash_text(info->settings, config_determinisms[c->determinism]);
    if (getrandom(&info->job, sizeof(info->job), 0) != sizeof(info->job))
        return fail(COLL_ERR_SYSTEM, "comm", "getrandom: %s", strerror(errno));
    info->job |= 1;
    here_fill(info);
    return COLL_OK;
}

static coll_status exchange(void *context, const void *mine, void *all,
                            size_t bytes)
{
    const coll_comm *c = context;
    return bootstrap_allgather(c->bootstrap, mine, all, bytes);
}

/* To look at the machine takes milliseconds. */
static void find_place(void *context, struct node_place *place, int local_rank,
                       int local_ranks)
{
    coll_comm *c = context;
    if (c->parent && c->parent->node && !*setting_text(SETTING_CLUSTER))
        *place = c->parent->place;
    else
        here_place(place, local_rank, local_ranks);
    c->place = *place;
}

static coll_status make_node(coll_comm *c)
{
    const struct node_job job = {
        .rank = c->rank,
        .nranks = c->nranks,
        .host_of = c->host_of,
        .job = c->job.job,
        .allgather = exchange,
        .context = c,
        .place = find_place,
        .crowded = c->spins == 0,
    };
    const bool wanted = strcmp(setting_text(SETTING_TRANSPORT), "ucx") != 0;
    const coll_status status = c->nranks > c->nhosts && wanted
                                   ? node_create(&c->node, &job)
                                   : COLL_OK;
    c->job.node = c->node;
    if (c->node && c->nhosts == 1)
        c->select.node = (struct select_node){c->nranks, c->node->inline_bytes,
                                              c->node->inline_bytes};
    return status;
}

/* Of a job on several hosts some of which have several ranks: whether all of
 * those share memory, so that operations may go by hosts. */
static coll_status make_hosts(coll_comm *c)
{
    if (c->nhosts == 1 || c->nhosts == c->nranks)
        return COLL_OK;
    coll_status status = hosts_create(&c->hosts, c->nranks, c->host_of);
    if (status < 0)
        return status;
    unsigned char mine = c->node || c->local_ranks == 1;
    unsigned char *all = malloc((size_t)c->nranks);
    if (!all)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks",
                    c->nranks);
    status = bootstrap_allgather(c->bootstrap, &mine, all, 1);
    c->layout.by_hosts = c->hosts.most;
    for (int r = 0; r < c->nranks && status == COLL_OK; r++)
        if (!all[r])
            c->layout.by_hosts = 0;
    free(all);
    return status;
}

/* A rank beside the hub meets it over an address of its own host, which may be
 * any: there, what ranks of other hosts have reached counts. */
static void find_interface(coll_comm *c, const struct bootstrap_end *mine)
{
    const struct bootstrap_end *end = mine;
    for (int r = 0; r < c->nranks; r++)
        if (c->host_of[c->rank] == c->host_of[0]
            && c->host_of[r] != c->host_of[0]) {
            end = &c->ranks[r].hub;
            break;
        }
    bootstrap_interface_of(end, c->interface, sizeof(c->interface));
}

static void open_recorder(coll_comm *c)
{
    const struct rank_info *mine = &c->ranks[c->rank];
    int first = 0; /* rank of this host */
    while (c->host_of[first] != mine->host)
        first++;
    recorder_open(&c->recorder, &(struct record_job){
                                    .rank = c->rank,
                                    .nranks = c->nranks,
                                    .job = c->job.job,
                                    .machine = mine->machine,
                                    .host = mine->hostname,
                                    .cleans = first == c->rank,
                                });
}

/* Without one all is well, until others would meet this rank there. */
static void open_refuge(coll_comm *c, struct rank_info *mine)
{
    const char *set = setting_text(SETTING_INTERFACE);
    /* Of a communicator's communicators it is known how they may meet, and there
     * may be many: a file each. */
    if (c->parent && !*set)
        set = c->parent->nhosts == 1 ? "lo" : c->parent->interface;
    const coll_status status = bootstrap_open_refuge(
        &c->refuge, &mine->refuge, set, c->parent ? 1 : INT_MAX);
    mine->has_refuge = status == COLL_OK;
    if (status < 0)
        log_line(COLL_LOG_INFO, "comm",
                 "rank %d cannot be the first of a smaller communicator: %s",
                 c->rank, fail_sentence());
}

static coll_status set_up(coll_comm *c, const coll_unique_id *id)
{
    struct rank_info mine;
    coll_status status = describe(c, &mine);
    if (c->bootstrap) {
        bootstrap_ends(c->bootstrap, &mine.own, &mine.hub);
        mine.has_hub = bootstrap_has_hub(id);
    }
    if (status == COLL_OK && c->bootstrap)
        open_refuge(c, &mine);
    if (status == COLL_OK)
        status = comm_exchange(c, &mine);
    if (status < 0)
        return status;
    find_interface(c, &mine.own);
    c->job = (struct transport_job){
        .rank = c->rank,
        .nranks = c->nranks,
        .host_of = c->host_of,
        .lanes = c->lanes,
        .job = c->ranks[0].job,
    };
    c->spins = here_is_crowded(c, c->rank) ? 0 : SPINS;
    for (int r = 0; r < c->nranks && !c->crowded; r++)
        c->crowded = (r == 0 || c->host_of[r] != c->host_of[r - 1])
                     && here_is_crowded(c, r);
    c->prepared = calloc((size_t)nalgos, sizeof(struct prepared *));
    c->meeting = calloc(1, sizeof(*c->meeting));
    if (!c->prepared || !c->meeting)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for plans");
    status = make_node(c);
    if (status == COLL_OK)
        status = make_hosts(c);
    c->helped |= c->nhosts > 1 && helps_between_hosts();
    if (status == COLL_OK && c->nhosts > 1)
        status = c->parent && c->same ? copy_rails(c) : comm_reach(c);
    if (status == COLL_OK)
        status = comm_connect(c);
    if (status == COLL_OK)
        status = inlined_measure(c);
    if (status == COLL_OK)
        status = comm_price(c);
    if (status == COLL_OK)
        open_recorder(c);
    return status;
}

/* What is measured, or takes long, must not change an algorithm. */
static void settle(coll_comm *c)
{
    const bool layout = c->determinism == DETERMINISM_LAYOUT;
    c->adapts = c->adapts && !layout && c->determinism != DETERMINISM_RUN;
    c->calibrates = c->calibrates && !layout;
}

coll_status comm_create(coll_comm **comm, int nranks, int rank,
                        const coll_config *config, const coll_comm *parent)
{
    coll_comm *c = calloc(1, sizeof(*c));
    if (!c)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for a communicator");
    progress_prepare();
    c->rank = rank;
    c->nranks = nranks;
    c->last_request = &c->first;
    c->last.candidate = -1;
    pthread_mutex_init(&c->mutex, NULL);
    coll_status status = recorder_init(&c->recorder);
    if (status == COLL_OK)
        status = read_settings(c);
    if (status == COLL_OK && parent)
        status = config_inherit(c, parent);
    if (status == COLL_OK)
        status = config_apply(c, config);
    settle(c);
    if (status < 0) {
        comm_release(c, true);
        return status;
    }
    *comm = c;
    return COLL_OK;
}

coll_status comm_join(coll_comm *c, const coll_unique_id *id)
{
    char about[160], host[64] = "?";
    gethostname(host, sizeof(host) - 1);
    snprintf(about, sizeof(about), "host %s, pid %d", host, (int)getpid());
    coll_status status = COLL_OK;
    if (c->nranks > 1 || (id && bootstrap_has_hub(id))) /* which ends with it */
        status = bootstrap_join(&c->bootstrap, id, c->rank, c->nranks, about,
                                c->join_seconds);
    if (status == COLL_OK)
        status = set_up(c, id);
    if (status == COLL_OK && c->bootstrap)
        bootstrap_answer(c->bootstrap, calls_tell, &c->recorder);
    if (status < 0 && c->bootstrap) {
        const coll_status first = bootstrap_failure(c->bootstrap);
        if (first < 0)
            status = fail(first, "comm", "%s",
                          bootstrap_failure_sentence(c->bootstrap));
        else
            bootstrap_abort(c->bootstrap, status, fail_sentence());
    }
    return status;
}

coll_status comm_check_shape(coll_comm **comm, int nranks, int rank)
{
    if (!comm)
        return fail(COLL_ERR_INVALID, "comm", "comm is NULL");
    if (nranks < 1 || rank < 0 || rank >= nranks)
        return fail(COLL_ERR_INVALID, "comm",
                    "rank %d of %d: nranks must be at least 1 and rank from 0 "
                    "to nranks - 1",
                    rank, nranks);
    return COLL_OK;
}

coll_status coll_comm_init_rank(coll_comm **comm, int nranks, coll_unique_id id,
                                int rank)
{
    return coll_comm_init_rank_config(comm, nranks, id, rank, NULL);
}

coll_status coll_comm_init_rank_config(coll_comm **comm, int nranks,
                                       coll_unique_id id, int rank,
                                       const coll_config *config)
{
    coll_comm *c = NULL;
    coll_status status = comm_check_shape(comm, nranks, rank);
    if (status == COLL_OK)
        status = comm_create(&c, nranks, rank, config, NULL);
    if (status < 0)
        return status;
    status = comm_join(c, &id);
    if (status < 0)
        comm_release(c, true);
    else
        *comm = c;
    return status;
}

coll_status coll_get_unique_id(coll_unique_id *id)
{
    double seconds;
    if (!id)
        return fail(COLL_ERR_INVALID, "comm", "coll_get_unique_id: id is NULL");
    coll_status status =
        setting_number(SETTING_JOIN_SECONDS, 0.01, 86400, &seconds);
    if (status == COLL_OK)
        status =
            bootstrap_create_id(id, setting_text(SETTING_INTERFACE), seconds);
    return status;
}

int coll_comm_count(const coll_comm *comm)
{
    return comm ? comm->nranks : 0;
}

int coll_comm_user_rank(const coll_comm *comm)
{
    return comm ? comm->rank : -1;
}

int coll_version(void)
{
    return COLL_VERSION;
}
