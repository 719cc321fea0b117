/* SPDX-License-Identifier: MIT */
#include "bench/operands.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/conv_pack.h"
#include "kernels/conv_size.h"
#include "random.h"

enum { SEED_X, SEED_Y, SEED_W, SEED_BIAS };

static void fill(float *x, size_t count, uint64_t seed, uint64_t first)
{
    for (size_t i = 0; i < count; i++)
        x[i] = 2 * random_unit(seed, first + i) - 1;
}

/* An image at a time, so that no second copy of all of them is needed. */
static int fill_blocked(float *x, int n, int c, int h, int w, bool half,
                        uint64_t seed)
{
    const size_t image = (size_t)c * (size_t)h * (size_t)w;
    const size_t blocked = conv_blocked(1, c, h, w);
    float *plain = malloc(image * sizeof(float));
    float *whole = half ? malloc(blocked * sizeof(float)) : NULL;
    const bool ok = plain && (whole || !half);
    for (int i = 0; ok && i < n; i++, x += blocked >> half) {
        fill(plain, image, seed, (uint64_t)i * image);
        conv_to_blocked(plain, half ? whole : x, 1, c, h, w);
        if (half)
            conv_isa_bf16()->round->row(whole, x, blocked);
    }
    free(whole);
    free(plain);
    return ok ? 0 : -1;
}

/* The other way round. */
static float *plain_of(const float *x, int n, int c, int h, int w, bool half)
{
    const size_t blocked = conv_blocked(n, c, h, w);
    float *plain =
        malloc((size_t)n * (size_t)c * (size_t)h * (size_t)w * sizeof(float));
    float *whole = half ? malloc(blocked * sizeof(float)) : NULL;
    for (size_t i = 0; whole && i < blocked; i++) {
        const uint32_t bits = (uint32_t)((const uint16_t *)x)[i] << 16;
        memcpy(&whole[i], &bits, sizeof(bits));
    }
    if (plain && (whole || !half)) {
        conv_to_plain(half ? whole : x, plain, n, c, h, w);
    } else {
        free(plain);
        plain = NULL;
    }
    free(whole);
    return plain;
}

float *operands_plain_x(const struct operands *o, const struct conv *c)
{
    if (!c->plain)
        return plain_of(o->x.x, c->n, c->c, c->h, c->w, c->half_x);
    float *x = malloc(conv_inputs(c) * sizeof(float));
    if (x)
        memcpy(x, o->x.x, conv_inputs(c) * sizeof(float));
    return x;
}

float *operands_plain_y(const struct operands *o, const struct conv *c)
{
    return plain_of(o->y.x, c->n, c->k, c->out_h, c->out_w, c->half_y);
}

static int fill_inputs(struct operands *o, const struct conv *c,
                       enum conv_pass pass)
{
    int failed = 0;
    if (pass != CONV_BACKWARD_DATA && c->plain)
        fill(o->x.x, conv_inputs(c), SEED_X, 0);
    else if (pass != CONV_BACKWARD_DATA)
        failed =
            fill_blocked(o->x.x, c->n, c->c, c->h, c->w, c->half_x, SEED_X);
    if (pass != CONV_FORWARD && !failed)
        failed = fill_blocked(o->y.x, c->n, c->k, c->out_h, c->out_w, c->half_y,
                              SEED_Y);
    if (pass != CONV_BACKWARD_WEIGHTS)
        fill(o->w.x, conv_weights(c), SEED_W, 0);
    if (o->bias.x)
        fill(o->bias.x, (size_t)c->k, SEED_BIAS, 0);
    return failed;
}

/* Of one thread, in whole cache lines. */
static size_t scratch_of(const struct conv_method *m, const struct conv *c,
                         enum conv_pass pass)
{
    return (m->scratch(c, pass) + BLOCK - 1) / BLOCK * BLOCK;
}

int operands_create(struct operands *o, const struct conv *c, bool bias,
                    const struct conv_method *m, enum conv_pass pass,
                    struct crew *crew)
{
    const size_t others =
        pass == CONV_BACKWARD_WEIGHTS ? (size_t)crew_size(crew) - 1 : 0;
    *o = (struct operands){.crew = crew};
    if (arena_alloc(&o->x, c->plain ? conv_inputs(c)
                                    : conv_blocked(c->n, c->c, c->h, c->w)
                                          >> c->half_x)
        || arena_alloc(&o->y, conv_blocked(c->n, c->k, c->out_h, c->out_w)
                                  >> c->half_y)
        || arena_alloc(&o->w, conv_weights(c))
        || (bias && arena_alloc(&o->bias, (size_t)c->k))
        || arena_alloc(&o->scratch,
                       (size_t)crew_size(crew) * scratch_of(m, c, pass))
        || arena_alloc(&o->partial, others * conv_weights(c))
        || fill_inputs(o, c, pass)) {
        operands_free(o);
        return -1;
    }
    return 0;
}

void operands_free(struct operands *o)
{
    arena_free(&o->x);
    arena_free(&o->y);
    arena_free(&o->w);
    arena_free(&o->bias);
    arena_free(&o->scratch);
    arena_free(&o->partial);
}

/* What operands_run() was asked for. */
struct job {
    struct operands *o;
    const struct conv *c;
    const struct conv_method *m;
    enum conv_pass pass;
    bool by_outputs; /* threads share these out, not images */
};

static void run_part(void *context, int i, int n)
{
    const struct job *j = context;
    const struct operands *o = j->o;
    struct conv c = *j->c;
    int first = 0;
    c.fresh = conv_writes(j->m);
    if (j->by_outputs) {
        c.share = i;
        c.shares = n;
    } else {
        c.n = crew_part(j->c->n, i, n, &first);
    }
    float *x = o->x.x + (size_t)first * (o->x.count / (size_t)j->c->n);
    float *y = o->y.x + (size_t)first * (o->y.count / (size_t)j->c->n);
    float *scratch = o->scratch.x + (size_t)i * scratch_of(j->m, j->c, j->pass);
    float *dw = o->w.x;
    if (i && !j->by_outputs && j->pass == CONV_BACKWARD_WEIGHTS) {
        dw = o->partial.x + (size_t)(i - 1) * conv_weights(&c);
        if (!c.fresh)
            memset(dw, 0, conv_weights(&c) * sizeof(float));
    }
    if (!c.n || conv_is_idle(&c, j->pass, j->m))
        return;
    if (j->pass == CONV_FORWARD)
        j->m->forward(&c, x, o->w.x, o->bias.x, y, scratch);
    else if (j->pass == CONV_BACKWARD_DATA)
        j->m->backward_data(&c, y, o->w.x, x, scratch);
    else
        j->m->backward_weights(&c, x, y, dw, scratch);
}

void operands_run(struct operands *o, const struct conv *c,
                  const struct conv_method *m, enum conv_pass pass)
{
    const int threads = crew_size(o->crew);
    const bool by_outputs = threads > 1 && conv_by_outputs(c, pass, m, threads);
    crew_run(o->crew, run_part, &(struct job){o, c, m, pass, by_outputs});
    const float *part = o->partial.x;
    if (by_outputs)
        return;
    for (int i = 1; pass == CONV_BACKWARD_WEIGHTS && i < threads;
         i++, part += o->w.count)
        for (size_t k = 0; k < o->w.count; k++)
            o->w.x[k] += part[k];
}
