/* SPDX-License-Identifier: MIT */
/* coll_info --explain: what would run on a described cluster, and why. */
#ifndef PROGRAMS_EXPLAIN_H
#define PROGRAMS_EXPLAIN_H

#include <stddef.h>

#include "programs/json.h"

struct explain_request {
    const char *cluster, *collective;
    size_t bytes;
    int nranks, ranks_per_host;
};

/* For people on standard output, or with json as "explain" of an object. Returns
 * NULL, or a sentence about what is wrong with the request (thread's own). */
const char *explain_show(const struct explain_request *, struct json *);

#endif
