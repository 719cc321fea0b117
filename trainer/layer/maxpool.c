/* SPDX-License-Identifier: MIT */
/* maxpool HxW|global [stride S] [pad P] [ceil]: the largest of each window;
 * padding never wins. The gradient goes to the first of equal ones, of which
 * saved keeps a note. A relu, before it or after it, is one more that has no
 * gradient. */
#include "kernels/lanes.h"
#include "kernels/pool.h"
#include "layer/pool.h"

static size_t note_bytes(const struct layer *l)
{
    return pool_note_bytes(l->option.window.kernel_h,
                           l->option.window.kernel_w);
}

static const char *parse(struct layer *l, int nwords, char **words)
{
    const char *why = pool_parse(l, nwords, words);
    if (!why)
        l->nsaved = shape_floats(l->out) * note_bytes(l) / sizeof(float);
    return why;
}

static struct pool pool_of(const struct layer *l)
{
    const struct window_option *o = &l->option.window;
    return (struct pool){o->kernel_h, o->kernel_w, o->stride_h, o->stride_w,
                         o->pad,      l->in.h,     l->in.w,     l->out.h,
                         l->out.w,    l->half,     l->relu};
}

static size_t nplanes(const struct layer *l, struct tensor t)
{
    return (size_t)t.shape.n * (size_t)shape_blocks(l->in);
}

static unsigned halves(const struct layer *l)
{
    (void)l;
    return HALF_X | HALF_Y | HALF_ALIKE;
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    const struct pool pool = pool_of(l);
    const size_t in = shape_plane(l->in) * BLOCK,
                 out = shape_plane(l->out) * BLOCK;
    unsigned char *notes = (unsigned char *)l->saved;
    for (size_t p = 0; p < nplanes(l, y); p++)
        lanes()->pool->forward(&pool, x->x + (p * in >> l->half),
                               y.x + (p * out >> l->half),
                               notes + p * out * note_bytes(l));
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    (void)x;
    const struct pool pool = pool_of(l);
    const size_t in = shape_plane(l->in) * BLOCK,
                 out = shape_plane(l->out) * BLOCK;
    const unsigned char *notes = (const unsigned char *)l->saved;
    for (size_t p = 0; dx->x && p < nplanes(l, y); p++)
        lanes()->pool->backward(&pool, notes + p * out * note_bytes(l),
                                dy.x + (p * out >> l->half),
                                dx->x + (p * in >> l->half));
}

const struct layer_ops layer_maxpool = {
    .name = "maxpool",
    .can_relu = true,
    .relu_first = true,
    .halves = halves,
    .parse = parse,
    .forward = forward,
    .backward = backward,
};
