/* SPDX-License-Identifier: MIT */
/* The gradient of the weights of 1x1 convolutions by 7 products instead of 8:
 *
 *     dy  A11 A12  outputs   x, turned  B11 B12  first half of the positions
 *         A21 A22                       B21 B22  second half
 *         halves                        inputs
 *
 * Order of work: images, bands of positions, chunks of input blocks, blocks of
 * outputs. Each product has sums of its own over all bands; they meet at the
 * end.
 */
#include <string.h>

#include "kernels/conv_bands.h"
#include "kernels/conv_strassen.h"

enum {
    NEAR = 196,      /* positions that are summed over at once */
    CHUNK = 1 << 17, /* floats of sums of x, at most */
};

/* Sums of the four products that meet, and of the others by the quarter that
 * they belong to. */
enum { MEET = QUARTERS, SUMS = 2 * QUARTERS };

struct sums {
    const struct conv_isa *isa;
    int inputs, outputs;    /* blocks of a half */
    struct conv_span share; /* of those outputs */
    int positions, half;    /* of an image */
    int at_once, images;    /* positions of a half, and images */
    int chunk;              /* blocks of inputs of a half */
    int widest;             /* tile, in blocks of outputs */
    float *sum, *s, *t, *dense;
};

static struct sums sums_of(const struct conv *c)
{
    struct sums u = {
        .isa = conv_isa(),
        .inputs = conv_blocks(c->c) / 2,
        .outputs = conv_blocks(c->k) / 2,
        .positions = c->out_h * c->out_w,
        .half = c->out_h * c->out_w / 2,
    };
    const int half = u.half > 0 ? u.half : 1;
    u.share = conv_share(c, u.outputs);
    u.at_once = conv_even_parts(half, NEAR);
    u.images = conv_up(NEAR, 2 * half);
    const int most = CHUNK / (QUARTERS * u.at_once * u.images * CONV_BLOCK);
    u.chunk = conv_even_parts(u.inputs, most < 1 ? 1 : most);
    u.widest = conv_widest(u.isa->sum_most);
    return u;
}

/* Of one of the products, of so many blocks of outputs. */
static size_t sum_floats(const struct sums *u, int outputs)
{
    return (size_t)(outputs * u->inputs) * CONV_BLOCK * CONV_BLOCK;
}

/* Of a quarter of so many blocks, of a band. */
static size_t band_floats(const struct sums *u, int blocks)
{
    return (size_t)(blocks * u->at_once * u->images) * CONV_BLOCK;
}

size_t strassen_scratch_of_weights(const struct conv *c)
{
    const struct sums u = sums_of(c);
    return SUMS * sum_floats(&u, u.outputs)
           + QUARTERS * (band_floats(&u, u.widest) + band_floats(&u, u.chunk))
           + (strassen_apart(c)
                  ? conv_blocked(u.images, c->c, c->out_h, c->out_w)
                  : 0);
}

/* What is done at once: n positions of so many images, nk blocks of outputs and
 * so many of inputs from `first` on. */
struct part {
    int images, n, nk, first, blocks;
};

/* Adds one product to its sums. */
static void sum_up(const struct sums *u, const struct part *p,
                   struct quarter dy, struct quarter x, float *sum)
{
    struct conv_sum t = {
        .dy = dy.at,
        .x_image = x.image,
        .dy_image = dy.image,
        .dy_block = dy.block,
        .images = p->images,
        .rows = 1,
        .columns = p->n,
        .dw = sum,
    };
    for (int b = 0; b < p->blocks; b++)
        for (int c = 0, nc; c < CONV_BLOCK; c += nc) {
            nc = conv_least(CONV_BLOCK - c, u->isa->sum_most[2 * p->nk]);
            t.x = x.at + (size_t)b * x.block + c;
            u->isa->sum[2 * p->nk][nc](&t);
            t.dw += nc * p->nk * CONV_BLOCK;
        }
}

/* All products; a and b: of the part, t: what they read of x. */
static void sum_halves(const struct sums *u, const struct part *p,
                       const struct quarter a[QUARTERS],
                       const struct quarter b[QUARTERS],
                       const struct quarter t[QUARTERS], float *sum)
{
    struct quarter s[QUARTERS];
    strassen_sums(u->isa->lanes->quarters->left, a, p->images, p->nk, p->n,
                  u->s, s);
    const struct quarter dy[] = {a[Q11], s[1], s[0],  s[2],
                                 a[Q12], s[3], a[Q22]};
    const struct quarter x[] = {b[Q11], t[1], t[0], t[2], b[Q21], b[Q22], t[3]};
    for (int i = 0; i < SUMS - 1; i++)
        sum_up(u, p, dy[i], x[i], sum + (size_t)i * sum_floats(u, u->outputs));
}

/* The position that no half has, as it is defined. */
static void sum_last(const struct sums *u, const struct part *p,
                     const struct quarter a[QUARTERS],
                     const struct quarter b[QUARTERS], float *sum)
{
    for (int i = 0; i < QUARTERS; i++)
        sum_up(u, p, a[i / 2 * 2], b[i % 2],
               sum + (size_t)(MEET + i) * sum_floats(u, u->outputs));
}

/* n positions from `first` on of each half, or the last one. */
static void run_band(const struct sums *u, const struct quarter dy[QUARTERS],
                     const struct quarter x[QUARTERS], int images, int first,
                     int n, bool last)
{
    struct part p = {.images = images, .n = n};
    struct quarter a[QUARTERS], b[QUARTERS], t[QUARTERS];
    for (p.first = 0; p.first < u->inputs; p.first += p.blocks) {
        p.blocks = conv_least(u->chunk, u->inputs - p.first);
        for (int i = 0; i < QUARTERS; i++) /* x is turned */
            b[i] = quarter_from(x[i % 2 * 2 + i / 2],
                                (size_t)first * CONV_BLOCK
                                    + (size_t)p.first * x->block);
        if (!last)
            strassen_sums(u->isa->lanes->quarters->right, b, images, p.blocks,
                          n, u->t, t);
        for (int kb = u->share.from; kb < u->share.to; kb += p.nk) {
            p.nk =
                conv_tile_blocks(u->isa->sum_most, u->widest, u->share.to - kb);
            for (int i = 0; i < QUARTERS; i++)
                a[i] = quarter_from(dy[i], (size_t)first * CONV_BLOCK
                                               + (size_t)kb * dy->block);
            float *const sum =
                u->sum + sum_floats(u, kb)
                + (size_t)(p.first * p.nk) * CONV_BLOCK * CONV_BLOCK;
            if (last)
                sum_last(u, &p, a, b, sum);
            else
                sum_halves(u, &p, a, b, t, sum);
        }
    }
}

/* Adds the sums of all products to what they are of. */
static void finish(const struct sums *u, const struct conv *c,
                   const struct conv_view *v, float *dw)
{
    const struct conv_weights order = {c->k, (size_t)c->c, 1, 1};
    const size_t each = sum_floats(u, u->outputs);
    for (int kb = u->share.from, nk; kb < u->share.to; kb += nk) {
        const float *from[QUARTERS];
        float *to[QUARTERS];
        nk = conv_tile_blocks(u->isa->sum_most, u->widest, u->share.to - kb);
        for (size_t i = 0; i < QUARTERS; i++) {
            from[i] = u->sum + i * each + sum_floats(u, kb);
            to[i] = u->sum + (MEET + i) * each + sum_floats(u, kb);
        }
        u->isa->lanes->quarters->meet(
            from, NULL, to, sum_floats(u, nk) / CONV_BLOCK, false, NULL);
        for (int i = 0; i < QUARTERS; i++) {
            const struct conv_part part = {i / 2 * u->outputs + kb, nk,
                                           i % 2 * u->inputs, u->inputs};
            conv_unpack_part(v, &order, &part, to[i], dw);
        }
    }
}

static void run_images(const struct sums *u, const struct conv *c,
                       const float *x, const float *dy, int images)
{
    struct quarter a[QUARTERS], b[QUARTERS];
    quarters_of((float *)(uintptr_t)dy, c->k, u->positions, a);
    quarters_of((float *)(uintptr_t)x, c->c, u->positions, b);
    for (int q = 0, n; q < u->half; q += n) {
        n = conv_least(u->at_once, u->half - q);
        run_band(u, a, b, images, q, n, false);
    }
    if (u->positions % 2)
        run_band(u, a, b, images, u->positions - 1, 1, true);
}

void strassen_backward_weights(const struct conv *c, const float *x,
                               const float *dy, float *dw, float *scratch)
{
    struct sums u = sums_of(c);
    struct conv_view v;
    view_spread(&v, c);
    u.sum = scratch;
    u.s = u.sum + SUMS * sum_floats(&u, u.outputs);
    u.t = u.s + QUARTERS * band_floats(&u, u.widest);
    u.dense = u.t + QUARTERS * band_floats(&u, u.chunk);
    for (size_t i = 0; i < SUMS; i++)
        memset(u.sum + i * sum_floats(&u, u.outputs)
                   + sum_floats(&u, u.share.from),
               0, sum_floats(&u, u.share.to - u.share.from) * sizeof(float));
    for (int i = 0, images; i < c->n; i += images) {
        const float *from = x + conv_blocked(i, c->c, c->h, c->w);
        images = conv_least(u.images, c->n - i);
        if (strassen_apart(c)) {
            strassen_gather(&v, from, images, u.dense);
            from = u.dense;
        }
        run_images(&u, c, from, dy + conv_blocked(i, c->k, c->out_h, c->out_w),
                   images);
    }
    finish(&u, c, &v, dw);
}
