/* SPDX-License-Identifier: MIT */
#include "net/net.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "kernels/conv.h"
#include "kernels/gemm.h"
#include "kernels/lanes.h"
#include "net/fuse.h"
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
    struct arena *const all[] = {
        &net->params,  &net->grads, &net->state,   &net->work,    &net->saved,
        &net->scratch, &net->spare, &net->partial, &net->factors, NULL};
    return all[i];
}

int net_create(struct net *net, const char *text, int batch, char *error,
               size_t error_bytes)
{
    assert(batch > 0);
    *net = (struct net){0};
    gemm_alone();
    lanes(); /* chooses the instruction set, before there are threads */
    net->text = strdup(text);
    if (net_parse(net, text, batch, error, error_bytes))
        goto out;
    net_fuse(net);
    if (!net->text || alloc_arenas(net)) {
        snprintf(error, error_bytes,
                 "no memory for a net of %d layers and "
                 "%d images",
                 net->nlayers, batch);
        goto out;
    }
    set_views(net);
    net->factored_at = net->params.count;
    return 0;
out:
    net_free(net);
    return -1;
}

void net_free(struct net *net)
{
    if (!net)
        return;
    crew_free(net->crew);
    for (int i = 0; arena_of(net, i); i++)
        arena_free(arena_of(net, i));
    free(net->labels);
    free(net->dy);
    free(net->y);
    free(net->layers);
    free(net->text);
    *net = (struct net){0};
}

/* For sums over so many parts of the images: those of all but the first. */
static int alloc_partial(const struct net *net, int nparts,
                         struct arena *partial)
{
    size_t nparams = 0;
    for (int i = 0; i < net->nlayers; i++) {
        const struct layer *l = &net->layers[i];
        if (!l->ops->whole)
            nparams = l->nparams > nparams ? l->nparams : nparams;
    }
    return arena_alloc(partial, (size_t)(nparts - 1) * padded(nparams));
}

int net_fix_sums(struct net *net, char *error, size_t error_bytes)
{
    const int nparts = net->input.n < CREW_PARTS ? net->input.n : CREW_PARTS;
    assert(!net->crew && !net->nparts);
    if (alloc_partial(net, nparts, &net->partial)) {
        snprintf(error, error_bytes, "no memory for sums of %d parts", nparts);
        return -1;
    }
    net->nparts = nparts;
    return 0;
}

int net_use_threads(struct net *net, int nthreads, const int *cpus, char *error,
                    size_t error_bytes)
{
    size_t nscratch = 0;
    assert(nthreads > 0 && !net->crew);
    if (nthreads == 1)
        return 0;
    for (int i = 0; i < net->nlayers; i++) {
        const struct layer *l = &net->layers[i];
        nscratch = l->nscratch > nscratch ? l->nscratch : nscratch;
    }
    struct arena scratch = {0}, partial = {0};
    struct crew *crew = crew_create(nthreads, cpus);
    if (!crew || arena_alloc(&scratch, (size_t)nthreads * padded(nscratch))
        || (!net->nparts && alloc_partial(net, nthreads, &partial))) {
        snprintf(error, error_bytes, "no memory for %d threads, or none left",
                 nthreads);
        arena_free(&scratch);
        crew_free(crew);
        return -1;
    }
    arena_free(&net->scratch);
    net->scratch = scratch;
    if (!net->nparts)
        net->partial = partial;
    net->crew = crew;
    for (int i = 0; i < net->nlayers; i++) {
        net->layers[i].scratch = scratch.x;
        net->layers[i].crew = net->layers[i].ops->whole ? crew : NULL;
    }
    return 0;
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

/* A pass of a layer; dx: of backward. */
struct job {
    struct layer *l;
    enum layer_pass pass;
    const struct tensor *x, *dx;
    struct tensor y, dy;
};

static void call_layer(const struct job *j)
{
    switch (j->pass) {
    case LAYER_FORWARD:
        j->l->ops->forward(j->l, j->x, j->y);
        break;
    case LAYER_GRADIENTS:
        j->l->ops->gradients(j->l, j->x, j->dy);
        break;
    case LAYER_BACKWARD:
        j->l->ops->backward(j->l, j->x, j->y, j->dy, j->dx);
        break;
    }
}

/* It brings gradients. */
static bool sums_up(const struct job *j)
{
    return j->l->nparams
           && (j->pass == LAYER_GRADIENTS
               || (j->pass == LAYER_BACKWARD && !j->l->ops->gradients));
}

/* Floats of an image of what an input is. */
static size_t input_floats(const struct net *net, const struct layer *l, int k)
{
    struct shape s = l->ins[k];
    s.n = 1;
    if (l->from[k] < 0)
        return net->plain ? shape_count(s) : shape_floats(s);
    return shape_floats(s) >> net->layers[l->from[k]].half;
}

/* Images first to first + n - 1, of so many floats. */
static struct tensor slice(struct tensor t, size_t image, int first, int n)
{
    if (t.x)
        t.x += (size_t)first * image;
    t.shape.n = n;
    return t;
}

/* A layer's gradients are added up from 0, but for those that it writes. */
static void clear_gradients(const struct layer *l)
{
    for (size_t i = layer_grads_written(l); i < l->nparams; i++)
        l->grads[i] = 0;
}

struct shared {
    const struct net *net;
    const struct job *job;
    int nparts; /* of the images */
};

float *net_scratch(const struct net *net, int thread)
{
    return net->scratch.x
           + (size_t)thread
                 * (net->scratch.count / (size_t)crew_size(net->crew));
}

/* The first part's gradients are the layer's own. */
static void run_part(const struct shared *s, int part, int thread)
{
    const struct job *whole = s->job;
    int first;
    const int count = crew_part(whole->y.shape.n, part, s->nparts, &first);
    struct layer l = *whole->l;
    const size_t image = image_floats(l.out) >> layer_writes(&l)->half;
    struct tensor x[LAYER_INPUTS], dx[LAYER_INPUTS] = {0};
    struct job own = {&l,
                      whole->pass,
                      x,
                      dx,
                      slice(whole->y, image, first, count),
                      slice(whole->dy, image, first, count)};
    for (int k = 0; k < l.ninputs; k++) {
        const size_t floats = input_floats(s->net, &l, k);
        x[k] = slice(whole->x[k], floats, first, count);
        if (whole->dx)
            dx[k] = slice(whole->dx[k], floats, first, count);
    }
    l.scratch = net_scratch(s->net, thread);
    if (l.nsaved)
        l.saved += l.nsaved / (size_t)l.in.n * (size_t)first;
    l.first_image += (uint64_t)first;
    if (part && sums_up(whole))
        l.grads = s->net->partial.x + (size_t)(part - 1) * padded(l.nparams);
    if (sums_up(whole))
        clear_gradients(&l);
    call_layer(&own);
}

static void run_share(void *context, int i, int n)
{
    const struct shared *s = context;
    int part;
    for (int left = crew_part(s->nparts, i, n, &part); left > 0; left--)
        run_part(s, part++, i);
}

static void run_output_share(void *context, int i, int n)
{
    const struct shared *s = context;
    struct job own = *s->job;
    struct layer l = *own.l;
    own.l = &l;
    l.share = i;
    l.shares = n;
    l.scratch = net_scratch(s->net, i);
    call_layer(&own);
}

/* to += the first array, the second and so on, `next` floats apart. */
struct addition {
    float *to;
    const float *arrays;
    size_t count, next;
    int narrays;
};

static void add_part(void *context, int i, int n)
{
    enum { NEAR = 4096 }; /* floats that the first cache holds */
    const struct addition *a = context;
    size_t first, some;
    const size_t count = crew_floats(a->count, i, n, &first);
    for (size_t at = first; at < first + count; at += some) {
        const size_t left = first + count - at;
        some = left < NEAR ? left : NEAR;
        for (int j = 0; j < a->narrays; j++) {
            const float *from = a->arrays + (size_t)j * a->next + at;
            for (size_t k = 0; k < some; k++)
                a->to[at + k] += from[k];
        }
    }
}

/* A part for each thread, but of sums as many as are fixed. */
static int parts_of(const struct net *net, const struct job *j)
{
    const bool fixed = net->nparts && sums_up(j);
    const int n = fixed ? net->nparts : crew_size(net->crew);
    return j->l->ops->whole ? 1 : n < j->y.shape.n ? n : j->y.shape.n;
}

static bool by_outputs(const struct net *net, const struct job *j)
{
    const int threads = crew_size(net->crew);
    return threads > 1 && j->l->ops->by_outputs && !(net->nparts && sums_up(j))
           && j->l->ops->by_outputs(j->l, j->pass, net->n, threads);
}

static void run_layer(struct net *net, const struct job *j)
{
    const int nparts = parts_of(net, j);
    const bool shares = by_outputs(net, j);
    if (nparts <= 1 || shares) {
        if (sums_up(j))
            clear_gradients(j->l);
        if (shares)
            crew_run(net->crew, run_output_share,
                     &(struct shared){net, j, nparts});
        else
            call_layer(j);
        return;
    }
    crew_run(net->crew, run_share, &(struct shared){net, j, nparts});
    if (sums_up(j))
        crew_run(net->crew, add_part,
                 &(struct addition){
                     .to = j->l->grads,
                     .arrays = net->partial.x,
                     .count = j->l->nparams,
                     .next = padded(j->l->nparams),
                     .narrays = nparts - 1,
                 });
}

/* Of a layer, or the images (-1). */
static struct tensor output(const struct net *net, int i)
{
    return head(i < 0 ? net->images : net->y[i], net->n);
}

/* What layer i reads, and a batchnorm the other input of the sum it does. */
static void inputs_of(const struct net *net, int i, struct tensor *x)
{
    const struct layer *l = &net->layers[i];
    for (int k = 0; k < l->ninputs; k++)
        x[k] = output(net, l->from[k]);
    if (l->sum)
        x[1] = output(net, l->sum->from[l->sum->from[0] == i]);
}

/* Where it writes: what does a batchnorm's work has its output, and a batchnorm
 * that of the sum it does. */
static struct tensor output_of(const struct net *net, const struct layer *l)
{
    return output(net, (int)(layer_writes(l) - net->layers));
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
        if (l->done || (training ? l->summed : l->folded))
            continue;
        inputs_of(net, i, x);
        l->training = training;
        l->seed = random_u64(seed, (uint64_t)i);
        l->first_image = first_image;
        if (net->need && training && l->nparams)
            net->need->tell(net->need->context,
                            (size_t)(l->params - net->params.x), l->nparams);
        if (net->clock)
            net->clock->forward[i].start = clock_now();
        run_layer(net, &(struct job){.l = l,
                                     .pass = LAYER_FORWARD,
                                     .x = x,
                                     .y = output_of(net, l)});
        if (net->clock)
            net->clock->forward[i].end = clock_now();
    }
    return count_loss(net, ncorrect);
}

static void start_backward(struct net *net, float scale)
{
    const size_t row = image_floats(loss_of(net)->out);
    const float smoothing = loss_of(net)->option.loss.smoothing;
    float *dy = net->dy[net->nlayers - 1].x;
    memset(dy, 0, (size_t)net->n * row * sizeof(float));
    for (int i = 0; i < net->n; i++, dy += row) {
        for (int c = 0; smoothing > 0 && c < net->nclasses; c++)
            dy[c] = -scale * smoothing / (float)net->nclasses;
        dy[net->labels[i]] -= scale * (1 - smoothing);
    }
}

/* Who hears of gradients that are final. */
struct told {
    grads_ready_fn *ready; /* or NULL */
    void *context;
};

static void tell(const struct net *net, int i, struct told told)
{
    const struct layer *l = &net->layers[i];
    if (l->nparams && told.ready)
        told.ready(told.context, (size_t)(l->params - net->params.x),
                   l->nparams);
}

static double now(const struct net *net)
{
    return net->clock ? clock_now() : 0;
}

static struct net_span since(double start)
{
    return (struct net_span){start, clock_now()};
}

/* Gradients of what layer i reads go to where they belong. If a later layer has
 * been there, the layer adds them itself, or they go to `spare` first. */
static void backward(struct net *net, int i, struct told told)
{
    struct layer *l = &net->layers[i];
    struct tensor x[LAYER_INPUTS], dx[LAYER_INPUTS] = {0};
    float *spare = net->spare.x;
    double start = now(net);
    inputs_of(net, i, x);
    for (int k = 0; k < l->ninputs; k++) {
        if (l->from[k] < 0 || !net->layers[l->from[k]].learns)
            continue;
        dx[k] = head(net->dy[l->from[k]], net->n);
        if (l->adds[k] && !layer_adds(l)) {
            dx[k].x = spare;
            spare += shape_floats(l->ins[k]);
        }
    }
    struct job j = {l,  LAYER_GRADIENTS,         x,
                    dx, head(net->y[i], net->n), head(net->dy[i], net->n)};
    if (l->ops->gradients) { /* others may send them while dx is worked out */
        run_layer(net, &j);
        if (net->clock)
            net->clock->gradients[i] = since(start);
        tell(net, i, told);
        if (!dx[0].x)
            return;
        start = now(net);
    }
    j.pass = LAYER_BACKWARD;
    run_layer(net, &j);
    for (int k = 0; k < l->ninputs; k++) {
        float *sum = dx[k].x ? net->dy[l->from[k]].x : NULL;
        if (sum && sum != dx[k].x)
            crew_run(net->crew, add_part,
                     &(struct addition){.to = sum,
                                        .arrays = dx[k].x,
                                        .count = shape_floats(dx[k].shape),
                                        .narrays = 1});
    }
    if (net->clock)
        net->clock->backward[i] = since(start);
}

void net_backward(struct net *net, float scale, grads_ready_fn *ready,
                  void *context)
{
    const struct told told = {ready, context};
    start_backward(net, scale);
    for (int i = net->nlayers - 1; i >= 0; i--) {
        const struct layer *l = &net->layers[i];
        const bool works = l->learns && !l->done;
        if (works)
            backward(net, i, told);
        if (!works || !l->ops->gradients)
            tell(net, i, told);
    }
}

void net_clear_gradients(struct net *net)
{
    memset(net->grads.x, 0, net->grads.count * sizeof(float));
    for (int i = 0; i < net->nlayers; i++) {
        const struct factors f = net->layers[i].factors;
        for (int k = 0; f.x && k < f.images; k++)
            memset(f.x + (size_t)k * f.next, 0,
                   net->layers[i].ops->factor_floats(&net->layers[i])
                       * sizeof(float));
    }
}

void net_slices(const struct net *net, grads_ready_fn *ready, void *context)
{
    for (int i = net->nlayers - 1; i >= 0; i--)
        tell(net, i, (struct told){ready, context});
}
