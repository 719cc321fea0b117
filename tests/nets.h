/* SPDX-License-Identifier: MIT */
/* Small nets, and batches for them. */
#ifndef TESTS_NETS_H
#define TESTS_NETS_H

#include "net/net.h"

enum { SEED = 20 };

/* Layers in a row. */
extern const char small_net[];
/* Branches that part and meet: gradients of what several lines read are added
 * up, and nothing lies on what is still needed. */
extern const char branched_net[];

/* With its first weights, by SEED. net_free() ends it. */
void make_net(struct net *, const char *text, int batch);
/* n images from -1 to 1 and their labels. */
void make_batch(const struct net *, float *images, int *labels, int n);

#endif
