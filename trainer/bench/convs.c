/* SPDX-License-Identifier: MIT */
#include "bench/convs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layer/conv.h"
#include "net/fuse.h"
#include "net/parse.h"
#include "net/place.h"

static bool same(const struct net_conv *a, const struct net_conv *b)
{
    const struct conv *x = &a->conv, *y = &b->conv;
    return x->n == y->n && x->c == y->c && x->h == y->h && x->w == y->w
           && x->k == y->k && x->groups == y->groups
           && x->kernel_h == y->kernel_h && x->kernel_w == y->kernel_w
           && x->stride_h == y->stride_h && x->stride_w == y->stride_w
           && x->pad_h == y->pad_h && x->pad_w == y->pad_w
           && x->dilation_h == y->dilation_h && x->dilation_w == y->dilation_w
           && x->plain == y->plain && x->half_x == y->half_x
           && x->half_y == y->half_y && a->bias == b->bias
           && a->data_gradient == b->data_gradient;
}

static void add(struct net_convs *to, const struct net_conv *c)
{
    int i = 0;
    while (i < to->count && !same(&to->all[i], c))
        i++;
    if (i == to->count)
        to->all[to->count++] = *c;
    to->all[i].times++;
    to->convolutions++;
}

static void collect(struct net *net, struct net_convs *to)
{
    net_fuse(net);
    net_lay_out(net);
    for (int i = 0; i < net->nlayers; i++) {
        struct layer *l = &net->layers[i];
        bool below = false; /* something before it learns */
        for (int k = 0; k < l->ninputs; k++)
            below |= l->from[k] >= 0 && net->layers[l->from[k]].learns;
        if (strcmp(l->ops->name, "conv"))
            continue;
        struct net_conv c = {.conv = conv_of(l, l->in.n),
                             .bias = !l->option.window.no_bias,
                             .data_gradient = below};
        c.conv.half_x = l->half_x;
        c.conv.half_y = l->half;
        if (*l->name)
            snprintf(c.layer, sizeof(c.layer), "%s", l->name);
        else
            snprintf(c.layer, sizeof(c.layer), "%d.conv", i);
        add(to, &c);
    }
}

int convs_read(struct net_convs *to, const char *text, int batch, char *error,
               size_t error_bytes)
{
    struct net net = {0};
    int failed = net_parse(&net, text, batch, error, error_bytes);
    *to = (struct net_convs){0};
    if (!failed) {
        to->all = calloc((size_t)net.nlayers, sizeof(*to->all));
        if (to->all)
            collect(&net, to);
        else
            failed = -1;
        if (failed)
            snprintf(error, error_bytes, "no memory for %d layers",
                     net.nlayers);
    }
    free(net.layers);
    return failed;
}
