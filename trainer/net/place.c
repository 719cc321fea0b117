/* SPDX-License-Identifier: MIT */
/* Times: forward of layer i is at i, its backward at 2 L - 1 - i with L layers.
 * An output is kept until the last forward that reads it, or backward where the
 * layers say that they read it there too; a batchnorm's may be written by the
 * layer before, in evaluation, and a sum by the batchnorm before, in training.
 * A gradient is written first by the last layer that reads the output, and gone
 * after the output's own layer.
 */
#include "net/place.h"

#include <stdlib.h>

#include "net/fuse.h"
#include "net/half.h"
#include "net/memory.h"

static int backward_time(const struct net *net, int i)
{
    return 2 * net->nlayers - 1 - i;
}

static bool reads(const struct layer *l, int from)
{
    for (int k = 0; k < l->ninputs; k++)
        if (l->from[k] == from)
            return true;
    return false;
}

/* The last layer but `before` that reads an output; -1: none. */
static int reader(const struct net *net, int from, int before)
{
    for (int j = before - 1; j > from; j--)
        if (reads(&net->layers[j], from))
            return j;
    return -1;
}

/* Also marks the inputs whose gradient a later layer begins. */
static void mark(struct net *net, int i)
{
    struct layer *l = &net->layers[i];
    l->learns = l->nparams;
    for (int k = 0; k < l->ninputs; k++) {
        l->learns |= l->from[k] >= 0 && net->layers[l->from[k]].learns;
        l->adds[k] = reader(net, l->from[k], net->nlayers) > i;
    }
    l->plain = net->plain && reads(l, -1);
}

/* Whether layer i writes its output over its first input: nobody else reads
 * that, nor does the layer that gave it read it again. */
static bool in_place(const struct net *net, int i)
{
    const struct layer *l = &net->layers[i];
    const int from = l->from[0];
    if (!l->ops->in_place || from < 0)
        return false;
    if (reader(net, from, i) >= 0 || reader(net, from, net->nlayers) != i)
        return false;
    const struct layer *gives = &net->layers[from];
    if (gives->done)
        gives = &net->layers[gives->from[0]];
    return l->done || !(layer_reads(gives) & READS_Y);
}

/* Whether gradients of layer i's inputs 0 and 1 are one buffer: they begin as
 * equal, and that which is needed longer changes only when the other is gone.
 */
static bool same_gradients(const struct net *net, int i)
{
    const struct layer *l = &net->layers[i];
    const int a = l->from[0], b = l->from[1], later = a > b ? a : b;
    return l->ops->same_gradients && in_place(net, i) && b >= 0
           && reader(net, b, net->nlayers) == i && reader(net, b, i) < later
           && !in_place(net, later);
}

static void keep_until(struct buffer *b, int time)
{
    b->last = time > b->last ? time : b->last;
}

/* Of the images (-1) or a layer's output. */
static void keep_output(const struct net *net, int i, struct buffer *b)
{
    for (int j = i + 1; j < net->nlayers; j++) {
        if (!reads(&net->layers[j], i))
            continue;
        keep_until(b, j);
        if (layer_reads(&net->layers[j]) & READS_X && net->layers[j].learns)
            keep_until(b, backward_time(net, j));
    }
    if (i >= 0 && layer_reads(&net->layers[i]) & READS_Y)
        keep_until(b, backward_time(net, i));
}

/* What is at hand while buffers are given out: which one each output and
 * gradient is in, -1 for none. */
struct places {
    struct buffer *buffers;
    int *y, *dy, count;
    bool *over_dy; /* of each layer, see over_dy() */
};

/* When an output is written first. */
static int written(const struct net *net, int i)
{
    const struct layer *l = &net->layers[i];
    if (l->summed)
        return l->from[0] > l->from[1] ? l->from[0] : l->from[1];
    return l->folded ? l->from[0] : i;
}

static void place_outputs(const struct net *net, struct places *p)
{
    const size_t images =
        net->plain ? shape_count(net->input) : shape_floats(net->input);
    p->buffers[p->count] = (struct buffer){.floats = images};
    keep_output(net, -1, &p->buffers[p->count++]);
    for (int i = 0; i < net->nlayers; i++) {
        p->y[i] = in_place(net, i) ? p->y[net->layers[i].from[0]] : p->count;
        if (p->y[i] == p->count)
            p->buffers[p->count++] =
                (struct buffer){.floats = layer_floats(&net->layers[i]),
                                .first = written(net, i)};
        keep_output(net, i, &p->buffers[p->y[i]]);
    }
    /* Callers read the loss when all is done. */
    keep_until(&p->buffers[p->y[net->nlayers - 1]], 2 * net->nlayers);
}

/* Whether the gradient of output i lies where that of its reader's does. */
static bool is_over(const struct net *net, const struct places *p, int i,
                    int by)
{
    const struct layer *l = &net->layers[by];
    return (l->from[0] == i && (in_place(net, by) || p->over_dy[by]))
           || (l->ninputs > 1 && l->from[1] == i && same_gradients(net, by));
}

/* Whether layer i writes the gradient of its input over that of its output:
 * nobody else adds to the former, nor does an earlier layer need the latter.
 * Of later layers it is known. */
static bool over_dy(const struct net *net, const struct places *p, int i)
{
    const struct layer *l = &net->layers[i];
    const int from = l->from[0];
    if (!l->ops->over_dy || l->half_x != l->half || from < 0
        || reader(net, from, i) >= 0 || reader(net, from, net->nlayers) != i)
        return false;
    for (int by; (by = reader(net, i, net->nlayers)) >= 0; i = by)
        if (!is_over(net, p, i, by))
            return true;
        else if (same_gradients(net, by)
                 && i > net->layers[by].from[net->layers[by].from[0] == i])
            return false;
    return true;
}

static void place_gradients(const struct net *net, struct places *p)
{
    for (int i = net->nlayers - 1; i >= 0; i--) {
        const int last = reader(net, i, net->nlayers);
        p->over_dy[i] = over_dy(net, p, i);
        p->dy[i] = -1;
        if (!net->layers[i].learns && last >= 0)
            continue;
        p->dy[i] =
            last >= 0 && is_over(net, p, i, last) ? p->dy[last] : p->count;
        if (p->dy[i] == p->count)
            p->buffers[p->count++] = (struct buffer){
                .floats = layer_floats(&net->layers[i]),
                .first = backward_time(net, last >= 0 ? last : i)};
        keep_until(&p->buffers[p->dy[i]], backward_time(net, i));
    }
}

/* Floats for the parts of gradients that layer i does not add to others itself.
 */
static size_t spare_of(const struct net *net, int i)
{
    const struct layer *l = &net->layers[i];
    size_t floats = 0;
    for (int k = 0; k < l->ninputs && !layer_adds(l); k++)
        if (l->adds[k] && l->from[k] >= 0 && net->layers[l->from[k]].learns)
            floats += shape_floats(l->ins[k]);
    return floats;
}

static bool all_take_plain(struct net *net)
{
    for (int i = 0; i < net->nlayers; i++) {
        const struct layer *l = &net->layers[i];
        if (reads(l, -1) && (!l->ops->takes_plain || !l->ops->takes_plain(l)))
            return false;
    }
    return true;
}

static int place(struct net *net, struct places *p)
{
    size_t spare = 0;
    place_outputs(net, p);
    place_gradients(net, p);
    for (int i = 0; i < net->nlayers; i++)
        spare = spare_of(net, i) > spare ? spare_of(net, i) : spare;
    const size_t floats = memory_plan(p->buffers, p->count);
    if (!floats || arena_alloc(&net->work, floats)
        || arena_alloc(&net->spare, spare))
        return -1;
    net->images = (struct tensor){net->input, net->work.x + p->buffers[0].at};
    for (int i = 0; i < net->nlayers; i++) {
        const struct shape out = net->layers[i].out;
        float *x = net->work.x;
        net->y[i] = (struct tensor){out, x + p->buffers[p->y[i]].at};
        net->dy[i] = (struct tensor){
            out, p->dy[i] < 0 ? NULL : x + p->buffers[p->dy[i]].at};
    }
    return 0;
}

void net_lay_out(struct net *net)
{
    net->plain = all_take_plain(net);
    for (int i = 0; i < net->nlayers; i++)
        mark(net, i);
    net_halve(net);
    net_gate(net);
}

int net_place(struct net *net)
{
    const size_t n = (size_t)net->nlayers;
    struct places p = {
        .buffers = calloc(2 * n + 1, sizeof(*p.buffers)),
        .y = calloc(n, sizeof(int)),
        .dy = calloc(n, sizeof(int)),
        .over_dy = calloc(n, sizeof(bool)),
    };
    net->y = calloc(n, sizeof(*net->y));
    net->dy = calloc(n, sizeof(*net->dy));
    net_lay_out(net);
    const bool fits =
        p.buffers && p.y && p.dy && p.over_dy && net->y && net->dy;
    const int failed = fits ? place(net, &p) : -1;
    free(p.buffers);
    free(p.y);
    free(p.dy);
    free(p.over_dy);
    return failed;
}
