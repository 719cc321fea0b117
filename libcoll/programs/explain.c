/* SPDX-License-Identifier: MIT */
#include "programs/explain.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/coll.h"
#include "comm/price.h"

enum { MAX_CANDIDATES = PRICE_ROWS + 1 }; /* and a row of node/ */

static bool has_parts(const char *collective)
{
    return !strcmp(collective, "reduce_scatter")
           || !strcmp(collective, "allgather");
}

static void as_text(const struct explain_request *r,
                    const coll_candidate *candidates, int n)
{
    const size_t length = coll_explain_print(candidates, n, NULL, 0);
    char *text = malloc(length + 1);
    printf("%s of %zu bytes on %d ranks, %d a host, of %s (predicted)\n",
           r->collective, r->bytes, r->nranks, r->ranks_per_host, r->cluster);
    if (text) {
        coll_explain_print(candidates, n, text, length + 1);
        fputs(text, stdout);
    }
    free(text);
    if (r->nranks > r->ranks_per_host && r->nranks % r->ranks_per_host
        && has_parts(r->collective))
        printf("not by_hosts: a part for each rank needs as many ranks on each "
               "host; %d is no multiple of %d\n",
               r->nranks, r->ranks_per_host);
}

static void as_json(const struct explain_request *r, struct json *j,
                    const coll_candidate *candidates, int n)
{
    json_begin(j, "explain", '{');
    json_text(j, "cluster", r->cluster);
    json_text(j, "collective", r->collective);
    json_number(j, "bytes", (double)r->bytes);
    json_number(j, "nranks", r->nranks);
    json_number(j, "ranks_per_host", r->ranks_per_host);
    json_begin(j, "candidates", '[');
    for (int i = 0; i < n; i++) {
        const coll_candidate *c = &candidates[i];
        json_begin(j, NULL, '{');
        json_text(j, "algorithm", c->algorithm);
        json_text(j, "rank_order", c->rank_order);
        json_number(j, "segments", c->segments);
        json_number(j, "predicted_us",
                    c->predicted_seconds < 0 ? -1 : 1e6 * c->predicted_seconds);
        json_number(j, "latency_us", 1e6 * c->latency_seconds);
        json_number(j, "chosen", c->chosen);
        json_text(j, "why", c->why);
        json_end(j, '}');
    }
    json_end(j, ']');
    json_end(j, '}');
}

const char *explain_show(const struct explain_request *r, struct json *j)
{
    coll_candidate candidates[MAX_CANDIDATES];
    int n;
    if (coll_explain_cluster(r->cluster, r->nranks, r->ranks_per_host,
                             r->collective, r->bytes, candidates,
                             MAX_CANDIDATES, &n)
        < 0)
        return coll_last_error(NULL);
    if (j)
        as_json(r, j, candidates, n);
    else
        as_text(r, candidates, n);
    return NULL;
}
