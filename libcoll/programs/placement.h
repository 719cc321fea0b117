/* SPDX-License-Identifier: MIT */
/* Where the ranks of a job would go, and whom they would meet. */
#ifndef PROGRAMS_PLACEMENT_H
#define PROGRAMS_PLACEMENT_H

#include "coll/topo.h"
#include "programs/json.h"

/* For people on standard output, and as "placement" of a JSON object. End the
 * program with status 1 if no rank can be placed. */
void placement_text(const coll_topo *, int nranks);
void placement_json(const coll_topo *, int nranks, struct json *);

#endif
