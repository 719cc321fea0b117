/* SPDX-License-Identifier: MIT */
#include "net/net.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/gemm.h"
#include "net/parse.h"
#include "random.h"

/* Views start on cache lines. Parameters do not: they are one vector. */
static size_t padded(size_t count)
{
    return (count + 15) / 16 * 16;
}

static int alloc_arenas(struct net *net)
{
    size_t nparams = 0, nsaved = 0, nscratch = 0, nacts = 0;
    for (int i = 0; i < net->nlayers; i++) {
        const struct layer *l = &net->layers[i];
        nparams += l->nparams;
        nsaved += padded(l->nsaved);
        nscratch = l->nscratch > nscratch ? l->nscratch : nscratch;
        nacts += padded(shape_count(l->out));
    }
    const size_t nimages = padded(shape_count(net->input));
    net->y = calloc((size_t)net->nlayers, sizeof(*net->y));
    net->dy = calloc((size_t)net->nlayers, sizeof(*net->dy));
    net->labels = calloc((size_t)net->input.n, sizeof(*net->labels));
    return !net->y || !net->dy || !net->labels
           || arena_alloc(&net->params, nparams)
           || arena_alloc(&net->grads, nparams)
           || arena_alloc(&net->acts, nimages + nacts)
           || arena_alloc(&net->dacts, nacts)
           || arena_alloc(&net->saved, nsaved)
           || arena_alloc(&net->scratch, nscratch);
}

static void set_views(struct net *net)
{
    size_t params = 0, saved = 0, acts = 0;
    const size_t nimages = padded(shape_count(net->input));
    net->images = net->acts.x;
    for (int i = 0; i < net->nlayers; i++) {
        struct layer *l = &net->layers[i];
        l->params = net->params.x + params;
        l->grads = net->grads.x + params;
        l->saved = net->saved.x + saved;
        l->scratch = net->scratch.x;
        net->y[i] = (struct tensor){l->out, net->acts.x + nimages + acts};
        net->dy[i] = (struct tensor){l->out, net->dacts.x + acts};
        params += l->nparams;
        saved += padded(l->nsaved);
        acts += padded(shape_count(l->out));
    }
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
    arena_free(&net->scratch);
    arena_free(&net->saved);
    arena_free(&net->dacts);
    arena_free(&net->acts);
    arena_free(&net->grads);
    arena_free(&net->params);
    free(net->labels);
    free(net->dy);
    free(net->y);
    free(net->layers);
    free(net->text);
    *net = (struct net){0};
}

void net_init(struct net *net, uint64_t seed)
{
    for (int i = 0; i < net->nlayers; i++) {
        struct layer *l = &net->layers[i];
        l->before_relu =
            i + 1 < net->nlayers && !strcmp(l[1].ops->name, "relu");
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

/* What layer i reads; for the first one that is the images. */
static struct tensor input_of(const struct net *net, int i)
{
    const struct tensor images = {net->input, net->images};
    return head(i ? net->y[i - 1] : images, net->n);
}

/* Sums -y at the labels, and counts where no class has a larger y. */
static double count_loss(const struct net *net, int *ncorrect)
{
    const float *y = net->y[net->nlayers - 1].x;
    double loss = 0;
    int right = 0;
    for (int i = 0; i < net->n; i++, y += net->nclasses) {
        int best = 0;
        for (int c = 1; c < net->nclasses; c++)
            best = y[c] > y[best] ? c : best;
        right += best == net->labels[i];
        loss -= y[net->labels[i]];
    }
    if (ncorrect)
        *ncorrect = right;
    return loss;
}

static void keep_batch(struct net *net, const float *images, const int *labels,
                       int n)
{
    assert(n >= 0 && n <= net->input.n);
    for (int i = 0; i < n; i++)
        assert(labels[i] >= 0 && labels[i] < net->nclasses);
    net->n = n;
    if (!n)
        return;
    memcpy(net->images, images,
           shape_count(input_of(net, 0).shape) * sizeof(float));
    memcpy(net->labels, labels, (size_t)n * sizeof(int));
}

double net_forward(struct net *net, const float *images, const int *labels,
                   int n, bool training, uint64_t seed, uint64_t first_image,
                   int *ncorrect)
{
    keep_batch(net, images, labels, n);
    for (int i = 0; i < net->nlayers; i++) {
        struct layer *l = &net->layers[i];
        l->training = training;
        l->seed = random_u64(seed, (uint64_t)i);
        l->first_image = first_image;
        l->ops->forward(l, input_of(net, i), head(net->y[i], n));
    }
    return count_loss(net, ncorrect);
}

static void start_backward(struct net *net, float scale)
{
    float *dy = net->dy[net->nlayers - 1].x;
    memset(net->grads.x, 0, net->grads.count * sizeof(float));
    memset(dy, 0, (size_t)net->n * (size_t)net->nclasses * sizeof(float));
    for (int i = 0; i < net->n; i++)
        dy[(size_t)i * net->nclasses + net->labels[i]] = -scale;
}

void net_backward(struct net *net, float scale, grads_ready_fn *ready,
                  void *context)
{
    /* Nobody needs the gradient of what comes before the first parameters. */
    int lowest = 0;
    while (lowest < net->nlayers && !net->layers[lowest].nparams)
        lowest++;
    start_backward(net, scale);
    for (int i = net->nlayers - 1; i >= lowest; i--) {
        struct layer *l = &net->layers[i];
        const struct tensor none = {0};
        l->ops->backward(l, input_of(net, i), head(net->y[i], net->n),
                         head(net->dy[i], net->n),
                         i > lowest ? head(net->dy[i - 1], net->n) : none);
        if (l->nparams && ready)
            ready(context, (size_t)(l->grads - net->grads.x), l->nparams);
    }
}
