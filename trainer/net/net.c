/* SPDX-License-Identifier: MIT */
#include "net/net.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/conv.h"
#include "kernels/gemm.h"
#include "net/parse.h"
#include "net/place.h"
#include "random.h"

/* Views start on cache lines. Parameters do not: they are one vector. */
static size_t padded(size_t count)
{
    return (count + 15) / 16 * 16;
}

static int alloc_arenas(struct net *net)
{
    size_t nparams = 0, nstate = 0, nsaved = 0, nscratch = 0;
    for (int i = 0; i < net->nlayers; i++) {
        const struct layer *l = &net->layers[i];
        nparams += l->nparams;
        nstate += l->nstate;
        nsaved += padded(l->nsaved);
        nscratch = l->nscratch > nscratch ? l->nscratch : nscratch;
    }
    net->labels = calloc((size_t)net->input.n, sizeof(*net->labels));
    return !net->labels || arena_alloc(&net->params, nparams)
           || arena_alloc(&net->grads, nparams)
           || arena_alloc(&net->state, nstate)
           || arena_alloc(&net->saved, nsaved)
           || arena_alloc(&net->scratch, nscratch) || net_place(net);
}

static void set_views(struct net *net)
{
    size_t params = 0, state = 0, saved = 0;
    for (int i = 0; i < net->nlayers; i++) {
        struct layer *l = &net->layers[i];
        l->params = net->params.x + params;
        l->grads = net->grads.x + params;
        l->state = net->state.x + state;
        l->saved = net->saved.x + saved;
        l->scratch = net->scratch.x;
        params += l->nparams;
        state += l->nstate;
        saved += padded(l->nsaved);
    }
}

static struct arena *arena_of(struct net *net, int i)
{
    struct arena *const all[] = {&net->params, &net->grads, &net->state,
                                 &net->work,   &net->saved, &net->scratch,
                                 &net->spare,  NULL};
    return all[i];
}

int net_create(struct net *net, const char *text, int batch, char *error,
               size_t error_bytes)
{
    assert(batch > 0);
    *net = (struct net){0};
    gemm_threads(0);
    net->text = strdup(text);
    if (net_parse(net, text, batch, error, error_bytes))
        goto out;
    if (!net->text || alloc_arenas(net)) {
        snprintf(error, error_bytes,
                 "no memory for a net of %d layers and "
                 "%d images",
                 net->nlayers, batch);
        goto out;
    }
    set_views(net);
    return 0;
out:
    net_free(net);
    return -1;
}

void net_free(struct net *net)
{
    if (!net)
        return;
    for (int i = 0; arena_of(net, i); i++)
        arena_free(arena_of(net, i));
    free(net->labels);
    free(net->dy);
    free(net->y);
    free(net->layers);
    free(net->text);
    *net = (struct net){0};
}

size_t net_bytes(const struct net *net)
{
    struct net copy = *net;
    size_t bytes = 0;
    for (int i = 0; arena_of(&copy, i); i++)
        bytes += arena_bytes(arena_of(&copy, i)->count);
    return bytes;
}

void net_init(struct net *net, uint64_t seed)
{
    for (int i = 0; i < net->nlayers; i++) {
        struct layer *l = &net->layers[i];
        l->before_relu = false;
        for (int j = i + 1; j < net->nlayers; j++)
            for (int k = 0; k < net->layers[j].ninputs; k++)
                l->before_relu |= net->layers[j].from[k] == i
                                  && !strcmp(net->layers[j].ops->name, "relu");
        if (l->ops->init)
            l->ops->init(l, random_u64(seed, (uint64_t)i));
    }
}

/* The first n images of a view. */
static struct tensor head(struct tensor t, int n)
{
    t.shape.n = n;
    return t;
}

/* What layer i reads. */
static void inputs_of(const struct net *net, int i, struct tensor *x)
{
    const struct layer *l = &net->layers[i];
    for (int k = 0; k < l->ninputs; k++)
        x[k] = head(l->from[k] < 0 ? net->images : net->y[l->from[k]], net->n);
}

static const struct layer *loss_of(const struct net *net)
{
    return &net->layers[net->nlayers - 1];
}

/* The cross entropy of an image, whose classes have these log probabilities. */
static double cross_entropy(const struct net *net, const float *y, int label)
{
    const double smoothing = loss_of(net)->option.loss.smoothing;
    double all = 0;
    for (int c = 0; smoothing > 0 && c < net->nclasses; c++)
        all += y[c];
    return -(1 - smoothing) * y[label] - smoothing * all / net->nclasses;
}

/* Also counts where no class is more likely than the label. */
static double count_loss(const struct net *net, int *ncorrect)
{
    const float *y = net->y[net->nlayers - 1].x;
    double loss = 0;
    int right = 0;
    for (int i = 0; i < net->n; i++, y += image_floats(loss_of(net)->out)) {
        int best = 0;
        for (int c = 1; c < net->nclasses; c++)
            best = y[c] > y[best] ? c : best;
        right += best == net->labels[i];
        loss += cross_entropy(net, y, net->labels[i]);
    }
    if (ncorrect)
        *ncorrect = right;
    return loss;
}

static void keep_batch(struct net *net, const float *images, const int *labels,
                       int n)
{
    const struct shape s = net->input;
    assert(n >= 0 && n <= s.n);
    for (int i = 0; i < n; i++)
        assert(labels[i] >= 0 && labels[i] < net->nclasses);
    net->n = n;
    if (!n)
        return;
    if (net->plain)
        memcpy(net->images.x, images,
               shape_count(head(net->images, n).shape) * sizeof(float));
    else
        conv_to_blocked(images, net->images.x, n, s.c, s.h, s.w);
    memcpy(net->labels, labels, (size_t)n * sizeof(int));
}

double net_forward(struct net *net, const float *images, const int *labels,
                   int n, bool training, uint64_t seed, uint64_t first_image,
                   int *ncorrect)
{
    keep_batch(net, images, labels, n);
    for (int i = 0; i < net->nlayers; i++) {
        struct layer *l = &net->layers[i];
        struct tensor x[LAYER_INPUTS];
        inputs_of(net, i, x);
        l->training = training;
        l->seed = random_u64(seed, (uint64_t)i);
        l->first_image = first_image;
        l->ops->forward(l, x, head(net->y[i], n));
    }
    return count_loss(net, ncorrect);
}

static void start_backward(struct net *net, float scale)
{
    const size_t row = image_floats(loss_of(net)->out);
    const float smoothing = loss_of(net)->option.loss.smoothing;
    float *dy = net->dy[net->nlayers - 1].x;
    memset(net->grads.x, 0, net->grads.count * sizeof(float));
    memset(dy, 0, (size_t)net->n * row * sizeof(float));
    for (int i = 0; i < net->n; i++, dy += row) {
        for (int c = 0; smoothing > 0 && c < net->nclasses; c++)
            dy[c] = -scale * smoothing / (float)net->nclasses;
        dy[net->labels[i]] -= scale * (1 - smoothing);
    }
}

/* Gradients of what layer i reads go to where they belong, or, if a later layer
 * has been there, to `spare` first. */
static void backward(struct net *net, int i)
{
    struct layer *l = &net->layers[i];
    struct tensor x[LAYER_INPUTS], dx[LAYER_INPUTS] = {0};
    float *spare = net->spare.x;
    inputs_of(net, i, x);
    for (int k = 0; k < l->ninputs; k++) {
        if (l->from[k] < 0 || !net->layers[l->from[k]].learns)
            continue;
        dx[k] = head(net->dy[l->from[k]], net->n);
        if (l->adds[k]) {
            dx[k].x = spare;
            spare += shape_floats(l->ins[k]);
        }
    }
    l->ops->backward(l, x, head(net->y[i], net->n), head(net->dy[i], net->n),
                     dx);
    for (int k = 0; k < l->ninputs; k++) {
        float *sum = dx[k].x ? net->dy[l->from[k]].x : NULL;
        const size_t count =
            sum && sum != dx[k].x ? shape_floats(dx[k].shape) : 0;
        for (size_t j = 0; j < count; j++)
            sum[j] += dx[k].x[j];
    }
}

void net_backward(struct net *net, float scale, grads_ready_fn *ready,
                  void *context)
{
    start_backward(net, scale);
    for (int i = net->nlayers - 1; i >= 0; i--) {
        const struct layer *l = &net->layers[i];
        if (l->learns)
            backward(net, i);
        if (l->nparams && ready)
            ready(context, (size_t)(l->grads - net->grads.x), l->nparams);
    }
}
