/* SPDX-License-Identifier: MIT */
#include "net/half.h"

#include <string.h>

static unsigned halves(const struct layer *l)
{
    return l->ops->halves ? l->ops->halves(l) : 0;
}

/* Parts of gradients that a layer does not add itself wait as floats. */
static bool reads_half(const struct layer *l, int k)
{
    return halves(l) & HALF_X && (!l->adds[k] || layer_adds(l));
}

static bool can(const struct net *net, int i)
{
    const struct layer *l = &net->layers[i];
    bool read = false;
    if (!l->learns || !(halves(l) & HALF_Y))
        return false;
    for (int j = i + 1; j < net->nlayers; j++)
        for (int k = 0; k < net->layers[j].ninputs; k++) {
            if (net->layers[j].from[k] != i)
                continue;
            if (!reads_half(&net->layers[j], k))
                return false;
            read = true;
        }
    return read;
}

/* Of what must be alike, all or none; whether something changed. */
static bool settle(struct net *net, struct layer *l)
{
    bool all = l->half, any = l->half;
    if (!(halves(l) & HALF_ALIKE))
        return false;
    for (int k = 0; k < l->ninputs; k++) {
        const bool half = l->from[k] >= 0 && net->layers[l->from[k]].half;
        all &= half;
        any |= half;
    }
    if (all || !any)
        return false;
    l->half = false;
    for (int k = 0; k < l->ninputs; k++)
        if (l->from[k] >= 0)
            net->layers[l->from[k]].half = false;
    return true;
}

/* In evaluation a batchnorm's output is written by the layer before it; if that
 * can write floats only, the batchnorm works there as well. */
static void unfold(struct net *net, struct layer *norm)
{
    if (!norm->folded || !norm->half)
        return;
    struct layer *before = &net->layers[norm->from[0]];
    if (halves(before) & HALF_Y)
        return;
    before->norm = NULL;
    norm->folded = false;
}

static bool has_halves(const struct net *net)
{
    for (int i = 0; i < net->nlayers; i++)
        if (!strcmp(net->layers[i].ops->name, "conv")
            && halves(&net->layers[i]))
            return true;
    return false;
}

void net_halve(struct net *net)
{
    if (!has_halves(net))
        return;
    for (int i = 0; i < net->nlayers; i++)
        net->layers[i].half = can(net, i);
    for (int i = 0; i < net->nlayers;)
        i = settle(net, &net->layers[i]) ? 0 : i + 1;
    for (int i = 0; i < net->nlayers; i++) {
        struct layer *l = &net->layers[i];
        l->half_x = l->from[0] >= 0 && net->layers[l->from[0]].half;
        unfold(net, l);
    }
}
