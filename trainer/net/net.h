/* SPDX-License-Identifier: MIT */
/* Layers with their arenas, built from a text.
 *
 *     net lenet
 *     input 1x28x28
 *     conv 20 5x5
 *     maxpool 2x2
 *     ...
 *     dense 10
 *     softmax_loss
 *
 * One layer a line, # comments; the net line is optional. A layer reads what
 * the line above gives, or what the lines do that it names: "left: relu" and
 * later "add from left right"; `input` names the images. The last layer is the
 * loss. Not thread-safe. Nothing is allocated after net_create(),
 * net_fix_sums(), net_use_threads() and net_factor(), and equal calls give
 * equal bits.
 */
#ifndef TRAINER_NET_NET_H
#define TRAINER_NET_NET_H

#include "layer/layer.h"

/* When a layer worked, as of clock_now(). */
struct net_span {
    double start, end;
};

/* Of each layer; net_forward() and net_backward() write what they run. Where
 * gradients are worked out apart from dx, and told before, backward is dx. */
struct net_clock {
    struct net_span *forward, *gradients, *backward;
};

/* Is told, before each layer with parameters of a forward in training, which
 * slice of params it is about to read. */
struct net_need {
    void (*tell)(void *context, size_t first, size_t count);
    void *context;
};

struct net {
    char *text; /* as given, for checkpoints */
    struct layer *layers;
    int nlayers, nclasses;
    struct shape input;   /* n: the largest batch */
    struct arena params;  /* all layers, first layer first */
    struct arena grads;   /* likewise, but of those that have no factors */
    struct arena factors; /* of the others, rows of images: net/factor.h */
    size_t factored_at;   /* where in params these begin; params.count: none */
    size_t nfactored;     /* their floats */
    struct arena state;   /* of all layers: what is kept but not learned */
    struct arena work;    /* activations and their gradients, which lie on
                             each other where their times allow */
    struct arena saved, scratch, spare;
    struct tensor *y, *dy; /* per layer: views of work; dy.x may be NULL */
    struct tensor images;  /* a copy of the last forward's */
    bool plain;            /* they are (N,C,H,W) */
    int *labels, n;        /* and of its labels; n is how many */
    struct crew *crew;     /* NULL: one thread */
    int nparts;            /* of sums over images; 0: one of each thread */
    struct arena partial;  /* gradients of parts but the first, of a layer */
    const struct net_clock *clock; /* the caller's; NULL: not measured */
    const struct net_need *need;   /* the caller's; NULL: nobody is told */
};

/* Builds a net for at most `batch` images. On failure returns -1 and writes
 * "line 3, column 6: ..." to error. */
int net_create(struct net *, const char *text, int batch, char *error,
               size_t error_bytes);
void net_free(struct net *);

/* Only what it takes; n is 1. Errors as of net_create(), up to the input line.
 */
int net_takes(const char *text, struct shape *, char *error,
              size_t error_bytes);

void net_init(struct net *, uint64_t seed);

/* Once, before net_use_threads(): sums over images are made of as many parts
 * with any number of threads, which then give equal bits. -1 with the reason in
 * error. */
int net_fix_sums(struct net *, char *error, size_t error_bytes);

/* Once, before other calls: lets so many threads compute, from 1, on these
 * processors (crew_create() says how; NULL: any). Other numbers of threads give
 * other roundings, unless sums are fixed. -1 with the reason in error, and then
 * it is one thread. */
int net_use_threads(struct net *, int nthreads, const int *cpus, char *error,
                    size_t error_bytes);

/* Of one thread, floats for the layer that wants most. It is the same memory in
 * all layers, so that it stays in the thread's own caches. */
float *net_scratch(const struct net *, int thread);

/* Bytes of all arenas. */
size_t net_bytes(const struct net *);

/* The texts of the built-in nets (trainer/nets/NAME.net, compiled in); NULL
 * for an unknown name. net_names() ends with NULL. */
const char *net_text(const char *name);
const char *const *net_names(void);

/* Runs n images, 0 <= n <= batch, (C,H,W each); labels n class numbers, each
 * from 0 to nclasses - 1; both are copied. Returns the loss summed over the
 * images and counts right answers in *ncorrect (may be NULL). */
double net_forward(struct net *, const float *images, const int *labels, int n,
                   bool training, uint64_t seed, uint64_t first_image,
                   int *ncorrect);

/* After a forward in training, once: fills grads with scale times
 * the gradient of the summed loss. ready (may be NULL) is called for
 * each layer with parameters, last layer first, with the slice of params whose
 * gradients became final, or factors: before the layer's dx is worked out, if
 * it can do that apart. */
typedef void grads_ready_fn(void *context, size_t first, size_t count);
/* Calls ready as net_backward() does, for gradients that are there already. */
void net_slices(const struct net *, grads_ready_fn *ready, void *context);
/* Gradients, and factors, of no images. */
void net_clear_gradients(struct net *);
void net_backward(struct net *, float scale, grads_ready_fn *ready,
                  void *context);

#endif
