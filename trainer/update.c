/* SPDX-License-Identifier: MIT */
#include "update.h"

#include <string.h>

static float *array(const struct update *u, const struct net *net, int i)
{
    return u->state.x + (size_t)i * net->params.count;
}

static float *mean(const struct update *u, const struct net *net)
{
    return array(u, net, u->optim->nstate);
}

int update_open(struct update *u, const struct net *net)
{
    const size_t arrays = (size_t)u->optim->nstate + (u->average > 0);
    if (arena_alloc(&u->state, arrays * net->params.count))
        return -1;
    if (u->average > 0)
        memcpy(mean(u, net), net->params.x, net->params.count * sizeof(float));
    return 0;
}

void update_close(struct update *u)
{
    arena_free(&u->state);
}

struct stroke {
    const struct update *update;
    struct net *net;
    double lr;
    long number;
};

static void move(const struct stroke *s, size_t first, size_t n, bool vector)
{
    const struct update *u = s->update;
    struct optim_part p = {
        .w = s->net->params.x + first,
        .g = s->net->grads.x + first,
        .n = n,
        .vector = vector,
    };
    for (int i = 0; i < u->optim->nstate; i++)
        p.state[i] = array(u, s->net, i) + first;
    u->optim->step(&u->settings, s->lr, s->number, p);
    if (u->average <= 0)
        return;
    const float stays = (float)u->average, comes = (float)(1 - u->average);
    float *m = mean(u, s->net) + first;
    for (size_t i = 0; i < n; i++)
        m[i] = stays * m[i] + comes * p.w[i];
}

static void move_share(void *context, int i, int n)
{
    const struct stroke *s = context;
    size_t first;
    const size_t count = crew_floats(s->net->params.count, i, n, &first);
    move(s, first, count, false);
}

/* The tensors of a layer lie one after another. */
static void move_layer(const struct stroke *s, const struct layer *l)
{
    enum { MOST = 8 };
    struct layer_param tensors[MOST] = {0};
    size_t at = 0;
    l->ops->describe(l, tensors, MOST);
    for (int i = 0; i < MOST && tensors[i].name && at < l->nparams; i++) {
        size_t n = 1;
        for (int d = 0; d < tensors[i].ndims; d++)
            n *= (size_t)tensors[i].dims[d];
        move(s, (size_t)(l->params - s->net->params.x) + at, n,
             tensors[i].ndims < 2);
        at += n;
    }
}

static void clip(const struct update *u, struct net *net)
{
    const double norm = optim_norm(net->grads.x, net->grads.count);
    if (norm <= u->clip_norm)
        return;
    const float factor = (float)(u->clip_norm / norm);
    for (size_t i = 0; i < net->grads.count; i++)
        net->grads.x[i] *= factor;
}

void update_step(struct update *u, struct net *net, double lr, long number)
{
    struct stroke s = {u, net, lr, number};
    if (u->clip_norm > 0)
        clip(u, net);
    if (!u->optim->by_tensor) {
        crew_run(net->crew, move_share, &s);
        return;
    }
    for (int i = 0; i < net->nlayers; i++)
        if (net->layers[i].nparams)
            move_layer(&s, &net->layers[i]);
}

void update_swap(struct update *u, struct net *net)
{
    if (u->average <= 0)
        return;
    float *m = mean(u, net), *w = net->params.x;
    for (size_t i = 0; i < net->params.count; i++) {
        const float kept = w[i];
        w[i] = m[i];
        m[i] = kept;
    }
}
