/* SPDX-License-Identifier: MIT */
#include "conv_parts.h"

#include <math.h>
#include <string.h>

#include "conv_kit.h"
#include "exact.h"

/* Strassen's method adds up what lies apart, but never of two images. */
void no_image_depends_on_another(void)
{
    struct conv c = SHAPE(2, 64, 5, 5, 96, 1, 1, 1, 1, 1, 0, 0, 1, 1);
    conv_set_outputs(&c);
    struct conv one = c;
    one.n = 1;
    const size_t nx = conv_blocked(1, c.c, c.h, c.w);
    const size_t ny = conv_blocked(1, c.k, c.out_h, c.out_w);
    float *x = uniform(2 * nx, 1), *w = uniform(conv_weights(&c), 2);
    float *y = unset(2 * ny), *alone = unset(ny);
    for (size_t i = nx; i < 2 * nx; i++)
        x[i] = NAN;
    conv_use(NULL);
    float *scratch = scratch_of(&conv_strassen, &c, CONV_FORWARD);
    conv_strassen.forward(&c, x, w, NULL, y, scratch);
    conv_strassen.forward(&one, x, w, NULL, alone, scratch);
    equal(y, alone, ny, "the best", "y", "beside an image of NaN");
    float *all[] = {x, w, y, alone, scratch};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

static void run_pass(const struct conv_method *m, const struct conv *c,
                     enum conv_pass pass, const float *x, const float *y,
                     const float *w, float *to)
{
    struct conv whole = *c;
    whole.shares = 0;
    float *scratch = scratch_of(m, &whole, pass);
    if (pass == CONV_FORWARD)
        m->forward(c, x, w, w, to, scratch);
    else if (pass == CONV_BACKWARD_DATA)
        m->backward_data(c, y, w, to, scratch);
    else
        m->backward_weights(c, x, y, to, scratch);
    free(scratch);
}

/* Each share by itself, to what was `before`: what it has written has the bits
 * of `whole`, and no other share writes that. Returns how much all have. */
static size_t written_by_shares(const struct conv_method *m, struct conv c,
                                enum conv_pass pass, const float *x,
                                const float *y, const float *w,
                                const float *before, const float *whole,
                                size_t count)
{
    size_t written = 0;
    float *to = unset(count);
    bool *done = calloc(count, sizeof(bool));
    for (c.share = 0; c.share < c.shares; c.share++) {
        memcpy(to, before, count * sizeof(float));
        run_pass(m, &c, pass, x, y, w, to);
        for (size_t i = 0; i < count; i++) {
            if (!memcmp(&to[i], &before[i], sizeof(float)))
                continue;
            require(to[i] == whole[i] && !done[i],
                    "%s, pass %d, share %d of %d: number %zu is %g, not %g%s",
                    m->name, (int)pass, c.share, c.shares, i, (double)to[i],
                    (double)whole[i], done[i] ? ", and another's" : "");
            done[i] = true;
            written++;
        }
    }
    free(to);
    free(done);
    return written;
}

static void shares_of(const struct conv_method *m, struct conv c)
{
    enum { ADDS = CONV_PASSES, CASES };
    conv_set_outputs(&c);
    const size_t nx =
        c.plain ? conv_inputs(&c) : conv_blocked(c.n, c.c, c.h, c.w);
    const size_t ny = conv_blocked(c.n, c.k, c.out_h, c.out_w);
    const size_t nw = conv_weights(&c), most = nx + ny + nw;
    float *x = uniform(nx, 1), *y = uniform(ny, 2), *w = uniform(nw, 3);
    float *before = uniform(most, 4), *whole = unset(most);
    float *nothing = unset(most);
    for (int i = 0; i < 3 * CASES; i++) {
        const enum conv_pass pass =
            i % CASES == ADDS ? CONV_BACKWARD_DATA : i % CASES;
        c.add = i % CASES == ADDS;
        if (m->cannot(&c, pass) || (c.plain && pass == CONV_BACKWARD_DATA))
            continue;
        const size_t count = pass == CONV_FORWARD         ? ny
                             : pass == CONV_BACKWARD_DATA ? nx
                                                          : nw;
        const bool ends = i / CASES == 1; /* with the work of a relu */
        c.relu = ends && pass == CONV_FORWARD && m->relus;
        c.gate = ends && pass == CONV_BACKWARD_DATA && m->gates && m->gates(&c)
                     ? x
                     : NULL;
        const bool adds = c.add || pass == CONV_BACKWARD_WEIGHTS;
        const float *from = adds ? before : nothing;
        c.shares = 0;
        memcpy(whole, from, count * sizeof(float));
        run_pass(m, &c, pass, x, y, w, whole);
        c.shares = 2 + i / CASES;
        const size_t written =
            written_by_shares(m, c, pass, x, y, w, from, whole, count);
        size_t wanted = count; /* dx may be 0 where strides leave gaps */
        for (size_t k = 0; k < count; k++)
            wanted -= !memcmp(&whole[k], &from[k], sizeof(float));
        require(written == wanted, "%s, pass %d, %d shares: %zu of %zu",
                m->name, (int)pass, c.shares, written, wanted);
    }
    float *all[] = {x, y, w, before, whole, nothing};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

void shares_have_the_same_bits(void)
{
    static const struct conv some[] = {
        PLAIN(1, 3, 20, 20, 48, 1, 7, 7, 2, 2, 3, 3, 1, 1),
        SHAPE(1, 20, 9, 7, 50, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(1, 48, 14, 14, 48, 1, 3, 3, 2, 2, 1, 1, 1, 1),
        SHAPE(1, 96, 6, 7, 64, 2, 3, 3, 1, 1, 0, 0, 1, 1),
        SHAPE(1, 20, 8, 9, 50, 1, 5, 5, 1, 1, 2, 2, 1, 1),
        SHAPE(2, 64, 7, 7, 96, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(2, 64, 9, 7, 96, 1, 1, 1, 2, 2, 0, 0, 1, 1),
        SHAPE(1, 320, 9, 7, 96, 1, 1, 1, 2, 2, 0, 0, 1, 1),
        SHAPE(2, 50, 9, 7, 20, 1, 2, 2, 3, 3, 0, 0, 1, 1),
    };
    for (int i = 0; i < NMETHODS * NISAS; i++)
        for (size_t k = 0; k < sizeof(some) / sizeof(some[0]); k++)
            if (here(i / NMETHODS) && methods[i % NMETHODS]->shares)
                shares_of(methods[i % NMETHODS], some[k]);
}

/* To bf16 by the library, two in a float's place. */
static float *halves_of(const float *x, size_t count)
{
    float *to = unset((count + 1) / 2);
    conv_round_scalar.row(x, to, count / 2 * 2);
    if (count % 2) {
        float last[2] = {x[count - 1]};
        conv_round_scalar.row(last, to + count / 2, 2);
    }
    return to;
}

static void widen(const float *halves, float *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)((const uint16_t *)halves)[i] << 16;
        memcpy(&to[i], &bits, sizeof(bits));
    }
}

/* x, y, and what is added to; of the latter as floats and as halves. */
struct numbers {
    size_t nx, ny, nw;
    float *x, *y, *to, *half_x, *half_y, *half_to, *w;
};

/* One pass with these halves against the same whose result is rounded later;
 * ends: with the work of a relu, done to the latter here. */
static void half_pass(const struct conv *c, enum conv_pass pass, bool ends,
                      const struct numbers *n, uint64_t shape)
{
    const bool to_half = pass == CONV_FORWARD         ? c->half_y
                         : pass == CONV_BACKWARD_DATA ? c->half_x
                                                      : false;
    const size_t count = pass == CONV_FORWARD         ? n->ny
                         : pass == CONV_BACKWARD_DATA ? n->nx
                                                      : n->nw;
    float *found = unset(count), *wanted = unset(count);
    struct conv floats = *c;
    floats.half_x = floats.half_y = floats.fresh = false;
    floats.shares = 0;
    memcpy(wanted, n->to, count * sizeof(float));
    if (pass == CONV_BACKWARD_WEIGHTS && c->fresh)
        memset(wanted, 0, count * sizeof(float));
    memcpy(found, to_half ? n->half_to : n->to,
           count * sizeof(float) / (to_half ? 2 : 1));
    run_pass(&conv_bf16, &floats, pass, n->x, n->y, n->w, wanted);
    struct conv part = *c; /* by shares, one after the other, or whole */
    part.relu = ends;
    if (ends && pass == CONV_BACKWARD_DATA && conv_bf16.gates(c))
        part.gate = c->half_x ? n->half_x : n->x;
    for (size_t i = 0; i < count; i++)
        if ((pass == CONV_FORWARD && part.relu && !(wanted[i] > 0))
            || (part.gate && !(n->x[i] > 0)))
            wanted[i] = 0;
    for (part.share = 0; part.share < (c->shares ? c->shares : 1); part.share++)
        run_pass(&conv_bf16, &part, pass, c->half_x ? n->half_x : n->x,
                 c->half_y ? n->half_y : n->y, n->w, found);
    float *rounded = to_half ? halves_of(wanted, count) : wanted;
    require(!memcmp(found, rounded, count * sizeof(float) / (to_half ? 2 : 1)),
            "pass %d of bf16, x %d, y %d, adds %d, fresh %d, ends %d: shape "
            "%d",
            (int)pass, c->half_x, c->half_y, c->add, c->fresh, ends,
            (int)shape);
    free(found);
    free(wanted);
    if (to_half)
        free(rounded);
}

/* No image has a gradient of 0. */
static void no_image_clears(struct conv c, uint64_t shape)
{
    const size_t count = conv_weights(&c);
    float *dw = uniform(count, shape), unused = 0;
    const float *x = &unused;
    c.n = c.shares = 0;
    c.fresh = true;
    const bool can = !conv_bf16.cannot(&c, CONV_BACKWARD_WEIGHTS);
    if (can)
        run_pass(&conv_bf16, &c, CONV_BACKWARD_WEIGHTS, x, x, x, dw);
    for (size_t i = 0; i < count && can; i++)
        require(dw[i] == 0, "no image, weight %zu: shape %d", i, (int)shape);
    free(dw);
}

void halves_come_to_the_same(struct conv c, uint64_t seed)
{
    const struct conv_method *m = &conv_bf16;
    conv_use(NULL);
    if (!m->halves() || !conv_set_outputs(&c))
        return;
    struct numbers n = {
        .nx = c.plain ? conv_inputs(&c) : conv_blocked(c.n, c.c, c.h, c.w),
        .ny = conv_blocked(c.n, c.k, c.out_h, c.out_w),
        .nw = conv_weights(&c),
    };
    const size_t all_to = n.nx + n.ny + n.nw;
    n.x = uniform(n.nx, seed);
    n.y = uniform(n.ny, seed + 1);
    n.w = uniform(n.nw, seed + 2);
    n.to = uniform(all_to + all_to % 2, seed + 3);
    n.half_x = halves_of(n.x, n.nx);
    n.half_y = halves_of(n.y, n.ny);
    n.half_to = halves_of(n.to, all_to);
    widen(n.half_y, n.y, n.ny);
    widen(n.half_to, n.to, all_to);
    if (!c.plain)
        widen(n.half_x, n.x, n.nx);
    /* Some of all ways; the next shape has others. */
    static int way;
    for (int k = 0; k < 6; k++, way += 5) {
        const int halves = way % 4;
        c.half_x = halves & 1;
        c.half_y = halves & 2;
        c.add = way / 3 % 2;
        c.fresh = !c.add;
        c.shares = way / 6 % 2 ? 2 : 0;
        const enum conv_pass pass = way / 12 % CONV_PASSES;
        if (!m->cannot(&c, pass) && !(c.plain && c.half_x))
            half_pass(&c, pass, way / 7 % 2, &n, seed);
    }
    no_image_clears(c, seed);
    float *all[] = {n.x, n.y, n.w, n.to, n.half_x, n.half_y, n.half_to};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

/* Threads and last batches do with the scratch of a part of the batch. */
void no_part_needs_more_scratch(void)
{
    static const struct conv some[] = {
        SHAPE(0, 2048, 16, 16, 96, 1, 3, 3, 2, 2, 1, 1, 1, 1),
        SHAPE(0, 1280, 16, 16, 96, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(0, 96, 16, 16, 2048, 1, 3, 3, 2, 2, 1, 1, 1, 1),
        SHAPE(0, 512, 7, 7, 512, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(0, 512, 14, 14, 512, 1, 3, 3, 2, 2, 1, 1, 1, 1),
        SHAPE(0, 1280, 8, 8, 64, 1, 5, 5, 1, 1, 2, 2, 1, 1),
        SHAPE(0, 2048, 7, 7, 512, 1, 1, 1, 1, 1, 0, 0, 1, 1),
    };
    enum { MOST = 40 };
    conv_use(NULL);
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]) * NMETHODS; i++) {
        const struct conv_method *m = methods[i % NMETHODS];
        struct conv c = some[i / NMETHODS];
        conv_set_outputs(&c);
        for (int pass = 0; pass < CONV_PASSES; pass++) {
            size_t most = 0;
            if (m->cannot(&c, (enum conv_pass)pass))
                continue;
            for (c.n = 1; c.n <= MOST; c.n++) {
                const size_t floats = m->scratch(&c, (enum conv_pass)pass);
                require(floats >= most,
                        "%s, pass %d of %d to %d channels: %zu floats for %d "
                        "images, %zu for fewer",
                        m->name, pass, c.c, c.k, floats, c.n, most);
                most = floats;
            }
            if (!c.half_x && m->halves && m->halves()) {
                c.half_x = c.half_y = true;
                pass--; /* once more */
            } else {
                c.half_x = c.half_y = false;
            }
        }
    }
}
