/* SPDX-License-Identifier: MIT */
#include "comm/described.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static bool is_called(const char *hostname, const char *name)
{
    const size_t n = strlen(name);
    return !strncmp(hostname, name, n)
           && (hostname[n] == '\0' || hostname[n] == '.');
}

/* From the one after the last found on, where it mostly is. */
static int find_name(const coll_topo *topo, const char *hostname, int from)
{
    const int n = coll_topo_count(topo, COLL_TOPO_HOST);
    for (int i = 0; i < n; i++) {
        const int at = (from + i) % n;
        if (is_called(hostname, coll_topo_host_name(topo, at)))
            return at;
    }
    return -1;
}

static coll_status find_names(const coll_topo *topo, int nhosts,
                              const char *const *hostnames, int *host_at)
{
    for (int h = 0; h < nhosts; h++) {
        const char *name = hostnames[h];
        host_at[h] = find_name(topo, name, h ? host_at[h - 1] + 1 : 0);
        if (host_at[h] < 0)
            return fail(COLL_ERR_INVALID, "topo",
                        "COLL_CLUSTER does not describe host %s, but %d others "
                        "such as %s",
                        name, coll_topo_count(topo, COLL_TOPO_HOST),
                        coll_topo_host_name(topo, 0));
        for (int i = 0; i < h; i++)
            if (host_at[i] == host_at[h])
                return fail(COLL_ERR_INVALID, "topo",
                            "COLL_CLUSTER tells hosts by their names, and two "
                            "of the job's are called %s",
                            coll_topo_host_name(topo, host_at[h]));
    }
    return COLL_OK;
}

coll_status described_find(const coll_topo *topo, int nhosts,
                           const char *const *hostnames, int *host_at)
{
    if (topo && nhosts > 1 && coll_topo_host_name(topo, 0))
        return find_names(topo, nhosts, hostnames, host_at);
    for (int h = 0; h < nhosts; h++)
        host_at[h] = h;
    return COLL_OK;
}

coll_status described_hosts(coll_comm *c, const coll_topo *topo, int **host_at)
{
    const size_t n = (size_t)c->nhosts;
    int *host = malloc((size_t)c->nranks * sizeof(*host));
    int *at = malloc(n * sizeof(*at));
    const char **names = malloc(n * sizeof(*names));
    coll_status status = COLL_OK;
    if (!host || !at || !names) {
        status =
            fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks", c->nranks);
        goto out;
    }
    layout_number_hosts(c->nranks, c->host_of, host);
    for (int r = c->nranks - 1; r >= 0; r--) {
        names[host[r]] = c->ranks[r].hostname;
        at[host[r]] = c->ranks[r].described;
    }
    if (!c->parent)
        status = described_find(topo, c->nhosts, names, at);
    for (int r = 0; r < c->nranks && status == COLL_OK; r++)
        c->ranks[r].described = at[host[r]];
out:
    free(host);
    free(names);
    if (status == COLL_OK)
        *host_at = at;
    else
        free(at);
    return status;
}
