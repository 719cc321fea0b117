/* SPDX-License-Identifier: MIT */
/* How to store into lines that another processor has in its cache. */
#ifndef NODE_STORES_H
#define NODE_STORES_H

#include "node/node.h"

/* Whether non-temporal stores reach another rank's vector sooner than ordinary
 * ones even where it would fit into the caches. Takes well under a millisecond;
 * all ranks of the host have to call it, the first one gets the answer. */
bool stores_measure(struct node *node);

#endif
