/* SPDX-License-Identifier: MIT */
#include "net/fuse.h"

#include <string.h>

static int readers_of(const struct net *net, int from)
{
    int readers = 0;
    for (int j = 0; j < net->nlayers; j++)
        for (int k = 0; k < net->layers[j].ninputs; k++)
            readers += net->layers[j].from[k] == from;
    return readers;
}

/* The layer that gives what layer i, of one input, reads, if nobody else reads
 * it; or NULL. */
static struct layer *only_for(struct net *net, int i)
{
    const int from = net->layers[i].from[0];
    return from >= 0 && readers_of(net, from) == 1 ? &net->layers[from] : NULL;
}

/* What an add reads later is a batchnorm's that nobody else reads. In
 * evaluation that is done by the layer before it, and the add by itself. */
static void fuse_sum(struct net *net, struct layer *add)
{
    if (strcmp(add->ops->name, "add") || add->ninputs != 2)
        return;
    const int a = add->from[0], b = add->from[1], later = a > b ? a : b;
    struct layer *norm = later < 0 ? NULL : &net->layers[later];
    if (!norm || a == b || !norm->folded || norm->relu
        || readers_of(net, later) != 1)
        return;
    norm->sum = add;
    add->summed = true;
}

static bool is_relu(const struct layer *l)
{
    return !strcmp(l->ops->name, "relu");
}

void net_fuse(struct net *net)
{
    for (int i = 0; i < net->nlayers; i++) {
        struct layer *l = &net->layers[i], *before = only_for(net, i);
        if (!before)
            continue;
        if (before->ops->can_relu && is_relu(l)) {
            before->relu = true;
            l->done = true;
        }
        if (l->ops->relu_first && is_relu(before) && !before->done
            && only_for(net, l->from[0])) {
            l->relu = true;
            before->done = true;
        }
        if (before->ops->norm_scratch && !strcmp(l->ops->name, "batchnorm")) {
            before->norm = l;
            before->nscratch += before->ops->norm_scratch(before);
            l->folded = true;
        }
    }
    for (int i = 0; i < net->nlayers; i++)
        fuse_sum(net, &net->layers[i]);
}

/* The first layer that reads output i, whose backward is the last. */
static struct layer *first_reader(struct net *net, int i)
{
    for (int j = i + 1; j < net->nlayers; j++)
        for (int k = 0; k < net->layers[j].ninputs; k++)
            if (net->layers[j].from[k] == i)
                return &net->layers[j];
    return NULL;
}

/* The layer in whose backward relu l's is, perhaps itself; or NULL. A
 * batchnorm's costs nothing, as it has to read x. */
static struct layer *does_relu(struct net *net, struct layer *l)
{
    struct layer *before = l->from[0] < 0 ? NULL : &net->layers[l->from[0]];
    if (!is_relu(l))
        return NULL;
    if (!l->done)
        return l;
    return before->relu && !strcmp(before->ops->name, "add") ? before : NULL;
}

void net_gate(struct net *net)
{
    for (int i = 0; i < net->nlayers; i++) {
        struct layer *l = &net->layers[i], *does = does_relu(net, l);
        struct layer *first = does ? first_reader(net, i) : NULL;
        if (!first || !first->ops->can_gate || !first->ops->can_gate(first))
            continue;
        first->gates = does->gated = true;
        struct layer *before = only_for(net, i);
        if (l->done || !before || !before->ops->can_relu_forward
            || !before->ops->can_relu_forward(before))
            continue;
        before->relu = true;
        l->done = true;
    }
}
