/* SPDX-License-Identifier: MIT */
#include "net/factor.h"

#include <assert.h>

/* The first of so many last layers with parameters. */
static int first_of(const struct net *net, int n)
{
    int i = net->nlayers;
    while (n > 0)
        n -= net->layers[--i].nparams > 0;
    return i;
}

static bool is_in(const struct net *net, struct factor_span span, int i)
{
    return net->layers[i].nparams && i >= first_of(net, span.n + span.after)
           && i < first_of(net, span.after);
}

int net_factorable(const struct net *net)
{
    int n = 0;
    for (int i = net->nlayers - 1; i >= 0; i--) {
        if (net->layers[i].nparams && !net->layers[i].ops->factor_floats)
            break;
        n += net->layers[i].nparams > 0;
    }
    return n;
}

struct factor_sizes net_factor_sizes(const struct net *net,
                                     struct factor_span span)
{
    struct factor_sizes s = {0};
    for (int i = 0; i < net->nlayers; i++)
        if (is_in(net, span, i)) {
            s.params += net->layers[i].nparams;
            s.floats += net->layers[i].ops->factor_floats(&net->layers[i]);
        }
    return s;
}

int net_factor(struct net *net, struct factor_span span, int nparts, int part)
{
    const struct factor_sizes s = net_factor_sizes(net, span);
    const size_t images = (size_t)net->input.n;
    struct arena grads = {0};
    assert(!net->factors.x && span.n > 0 && part < nparts);
    if (arena_alloc(&net->factors, (size_t)nparts * images * s.floats)
        || arena_alloc(&grads, net->params.count - s.params))
        return -1;
    arena_free(&net->grads);
    net->grads = grads;
    net->nfactored = s.params;
    net->factored_at =
        (size_t)(net->layers[first_of(net, span.n + span.after)].params
                 - net->params.x);
    float *at = net->factors.x + (size_t)part * images * s.floats;
    for (int i = 0; i < net->nlayers; i++) {
        struct layer *l = &net->layers[i];
        const size_t first = (size_t)(l->params - net->params.x);
        const bool factored = is_in(net, span, i);
        l->grads = factored ? NULL : grads.x + net_gradient_at(net, first);
        if (!factored)
            continue;
        l->factors = (struct factors){at, s.floats, net->input.n};
        at += l->ops->factor_floats(l);
    }
    return 0;
}

bool net_is_factored(const struct net *net, size_t param)
{
    return param >= net->factored_at
           && param - net->factored_at < net->nfactored;
}

size_t net_gradient_at(const struct net *net, size_t param)
{
    if (param <= net->factored_at)
        return param;
    return net_is_factored(net, param) ? net->factored_at
                                       : param - net->nfactored;
}

struct factors net_factors_of(const struct net *net, const struct layer *l)
{
    const size_t next = l->factors.next;
    size_t at = 0;
    for (const struct layer *k = net->layers; k < l; k++)
        at += k->factors.x ? k->ops->factor_floats(k) : 0;
    return (struct factors){net->factors.x + at, next,
                            (int)(net->factors.count / next)};
}
