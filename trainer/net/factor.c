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

struct factor_sizes net_factor_sizes(const struct net *net, int n)
{
    struct factor_sizes s = {0};
    for (int i = first_of(net, n); i < net->nlayers; i++)
        if (net->layers[i].nparams) {
            s.params += net->layers[i].nparams;
            s.floats += net->layers[i].ops->factor_floats(&net->layers[i]);
        }
    return s;
}

int net_factor(struct net *net, int n, int nparts, int part)
{
    const struct factor_sizes s = net_factor_sizes(net, n);
    const size_t images = (size_t)net->input.n;
    struct arena grads = {0};
    assert(!net->factors.x && part < nparts);
    if (arena_alloc(&net->factors, (size_t)nparts * images * s.floats)
        || arena_alloc(&grads, net->params.count - s.params))
        return -1;
    arena_free(&net->grads);
    net->grads = grads;
    net->first_factored = first_of(net, n);
    float *at = net->factors.x + (size_t)part * images * s.floats;
    for (int i = 0; i < net->nlayers; i++) {
        struct layer *l = &net->layers[i];
        const bool factored = i >= net->first_factored && l->nparams;
        l->grads = factored ? NULL : grads.x + (l->params - net->params.x);
        if (!factored)
            continue;
        l->factors = (struct factors){at, s.floats, net->input.n};
        at += l->ops->factor_floats(l);
    }
    return 0;
}

struct factors net_factors_of(const struct net *net, const struct layer *l)
{
    const size_t next = l->factors.next;
    size_t at = 0;
    for (const struct layer *k = net->layers + net->first_factored; k < l; k++)
        at += k->nparams ? k->ops->factor_floats(k) : 0;
    return (struct factors){net->factors.x + at, next,
                            (int)(net->factors.count / next)};
}
