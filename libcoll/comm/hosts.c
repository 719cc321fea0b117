/* SPDX-License-Identifier: MIT */
#include "comm/hosts.h"

#include <stdlib.h>

#include "base/log.h"

coll_status hosts_create(struct hosts *h, int nranks, const uint64_t *host_of)
{
    *h = (struct hosts){
        .nranks = nranks,
        .even = true,
        .host_of = malloc((size_t)nranks * sizeof(int)),
        .place_of = malloc((size_t)nranks * sizeof(int)),
    };
    int *count = calloc((size_t)nranks, sizeof(int));
    if (!h->host_of || !h->place_of || !count) {
        free(count);
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks", nranks);
    }
    h->n = layout_number_hosts(nranks, host_of, h->host_of);
    for (int r = 0; r < nranks; r++)
        h->place_of[r] = count[h->host_of[r]]++;
    for (int i = 0; i < h->n; i++) {
        h->even &= count[i] == count[0];
        h->most = count[i] > h->most ? count[i] : h->most;
    }
    free(count);
    return COLL_OK;
}

void hosts_free(struct hosts *h)
{
    if (h->layout.group_of)
        layout_free(&h->layout);
    free(h->host_of);
    free(h->place_of);
    *h = (struct hosts){.n = 0};
}

int hosts_rank(const struct hosts *h, int host, int place)
{
    for (int r = 0; r < h->nranks; r++)
        if (h->host_of[r] == host && h->place_of[r] == place)
            return r;
    return -1;
}

int hosts_leader(const struct hosts *h, int host, int root)
{
    return h->host_of[root] == host ? root : hosts_rank(h, host, 0);
}
