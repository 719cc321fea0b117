/* SPDX-License-Identifier: MIT */
#include "net/fuse.h"

#include <string.h>

/* The layer that gives what layer i, of one input, reads, if nobody else reads
 * it; or NULL. */
static struct layer *only_for(struct net *net, int i)
{
    const int from = net->layers[i].from[0];
    int readers = 0;
    for (int j = 0; j < net->nlayers; j++)
        for (int k = 0; k < net->layers[j].ninputs; k++)
            readers += net->layers[j].from[k] == from;
    return from >= 0 && readers == 1 ? &net->layers[from] : NULL;
}

void net_fuse(struct net *net)
{
    for (int i = 0; i < net->nlayers; i++) {
        struct layer *l = &net->layers[i], *before = only_for(net, i);
        if (!before)
            continue;
        if (before->ops->can_relu && !strcmp(l->ops->name, "relu")) {
            before->relu = true;
            l->done = true;
        }
        if (before->ops->norm_scratch && !strcmp(l->ops->name, "batchnorm")) {
            before->norm = l;
            before->nscratch += before->ops->norm_scratch(before);
            l->folded = true;
        }
    }
}
