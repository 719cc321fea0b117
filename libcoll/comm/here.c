/* SPDX-License-Identifier: MIT */
#include "comm/here.h"

#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "coll/topo.h"

void here_fill(struct rank_info *info)
{
    char error[256];
    coll_topo *topo;
    coll_topo_location at = {.package = -1, .numa = -1, .cache = -1};
    gethostname(info->hostname, sizeof(info->hostname) - 1);
    if (coll_topo_discover(&topo, error, sizeof(error)) == COLL_OK) {
        coll_topo_locate(topo, &at);
        coll_topo_free(topo);
    } else {
        log_line(COLL_LOG_WARN, "topo", "this machine's layout is unknown: %s",
                 error);
    }
    info->host = coll_topo_host_id();
    info->package = at.package;
    info->numa = at.numa;
    info->cache = at.cache;
}

int here_cpus(void)
{
    return coll_topo_usable_cpus();
}

/* What a message and a byte cost where nothing better is known: shared memory
 * within a host, TCP on 10 Gbit/s between hosts, a sum at 8 GB/s. */
static const struct select_model assumed = {
    .local_alpha = 0.5e-6,
    .local_beta = 1 / 8e9,
    .remote_alpha = 15e-6,
    .remote_beta = 1 / 1.1e9,
    .gamma = 1 / 8e9,
};

coll_status here_model(struct select_model *model, int nhosts)
{
    const char *spec = setting_text(SETTING_CLUSTER);
    char error[512];
    coll_topo *topo;
    coll_topo_link link = {0, 0};
    *model = assumed;
    if (!*spec)
        return COLL_OK;
    const coll_status status =
        coll_topo_load(&topo, spec, "COLL_CLUSTER", error, sizeof(error));
    if (status < 0)
        return fail(status, "topo", "%s", error);
    /* The farthest pair: what an algorithm over all hosts has to cross. */
    const int last = coll_topo_count(topo, COLL_TOPO_PU) - 1;
    if (nhosts > 1 && last > 0
        && coll_topo_link_between(topo, 0, last, &link) == COLL_OK) {
        if (link.latency_seconds > 0)
            model->remote_alpha = link.latency_seconds;
        if (link.bytes_per_second > 0)
            model->remote_beta = 1 / link.bytes_per_second;
    }
    coll_topo_free(topo);
    return COLL_OK;
}
