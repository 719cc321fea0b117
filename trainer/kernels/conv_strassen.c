/* SPDX-License-Identifier: MIT */
/* 1x1 convolutions with 7 products where the definition takes 8 (quarters.h).
 * Each is a product of matrices, weights by positions:
 *
 *                             first half  second half  of an image's positions
 *     w  A11 A12  outputs  x     B11          B12      inputs
 *        A21 A22                 B21          B22
 *         inputs
 *
 * Order of work: images, bands of positions, chunks of inputs, blocks of
 * outputs. What a chunk makes of x is read by all outputs; the products that
 * meet are of a tile's outputs, so that they stay in the second cache.
 */
#include "kernels/conv_strassen.h"

#include <string.h>

#include "kernels/conv_bands.h"

enum {
    NEAR = 180000, /* floats that the products of a tile read of x, at most, */
    CHUNK = 16,    /* blocks of inputs of a half */
    FEWEST = 49,   /* but of so many positions at least */
    FEW = 196,     /* positions of half; of less, several images at once, */
    ALL = 392,     /* and of much less as many as there may be */
    HALVES = 2 * CONV_BLOCK,
};

/* What is multiplied by: the quarters and their sums. */
enum { FIRST_SUM = QUARTERS, WEIGHTS = 2 * QUARTERS };

static const char *cannot(const struct conv *c, enum conv_pass pass)
{
    (void)pass;
    if (c->kernel_h != 1 || c->kernel_w != 1)
        return "the kernel is not 1x1";
    if (c->pad_h || c->pad_w)
        return "padding is not 0";
    if (c->groups != 1 || c->plain || c->c % HALVES || c->k % HALVES)
        return "channels are in groups, or no multiple of 32";
    return NULL;
}

/* Forward, or backward to the data. */
struct pass {
    const struct conv_isa *isa;
    struct conv_view view;
    struct conv_weights order;
    const float *w;
    int inputs, outputs;    /* blocks of a half */
    struct conv_span share; /* of those outputs */
    int chunk; /* blocks of inputs of a half that are added up at once */
    int positions, half; /* of an image */
    bool apart;          /* strides leave some out */
    int at_once, images; /* positions of a half, and images */
    int widest;          /* tile, in blocks of outputs */
    bool once; /* all that reads weights does so before the next are packed */
    const float *bias;      /* NULL: 0 */
    bool add;               /* to what is there */
    bool relu;              /* see struct conv_tile */
    const float *gate, *dx; /* likewise */
    float *packed, *sums, *products, *dense;
};

static struct pass pass_of(const struct conv *c, enum conv_pass pass,
                           const float *w)
{
    const bool back = pass == CONV_BACKWARD_DATA;
    struct pass p = {
        .isa = conv_isa(),
        .order = {back ? c->c : c->k, back ? 1 : (size_t)c->c,
                  back ? (size_t)c->c : 1, 1},
        .w = w,
        .positions = c->out_h * c->out_w,
        .half = c->out_h * c->out_w / 2,
        .apart = strassen_apart(c),
    };
    if (back)
        view_backward(&p.view, c, 0, 0);
    else
        view_forward(&p.view, c);
    p.inputs = p.view.blocks / 2;
    p.outputs = conv_blocks(p.order.outputs) / 2;
    p.share = conv_share(c, p.outputs);
    p.chunk = conv_even_parts(p.inputs, CHUNK);
    const int most = NEAR / ((WEIGHTS - 1) * p.chunk * CONV_BLOCK);
    const int half = p.half > 0 ? p.half : 1;
    p.at_once = conv_even_parts(half, most < FEWEST ? FEWEST : most);
    p.images = conv_up(half < FEWEST ? ALL : FEW, half);
    p.once = p.images >= c->n && p.at_once >= p.half;
    p.widest = conv_widest_for(p.isa->most, p.at_once, TILE_BLOCKS);
    return p;
}

/* Floats of what is multiplied by, of so many blocks of outputs and inputs. */
static size_t packed_floats(int outputs, int inputs)
{
    return (size_t)(outputs * inputs) * CONV_BLOCK * CONV_BLOCK;
}

/* Of a quarter of so many blocks, of a band. */
static size_t band_floats(const struct pass *p, int blocks)
{
    return (size_t)(blocks * p->at_once * p->images) * CONV_BLOCK;
}

static void lay_out(struct pass *p, float *scratch)
{
    p->packed = scratch;
    p->sums = p->packed + WEIGHTS * packed_floats(p->outputs, p->inputs);
    p->products = p->sums + QUARTERS * band_floats(p, p->chunk);
    p->dense = p->products + QUARTERS * band_floats(p, p->widest);
}

static size_t scratch_of(const struct conv *c, enum conv_pass pass)
{
    if (pass == CONV_BACKWARD_WEIGHTS)
        return strassen_scratch_of_weights(c);
    const struct pass p = pass_of(c, pass, NULL);
    return WEIGHTS * packed_floats(p.outputs, p.inputs)
           + QUARTERS * band_floats(&p, p.chunk)
           + QUARTERS * band_floats(&p, p.widest)
           + (p.apart ? conv_blocked(p.images, c->c, c->out_h, c->out_w) : 0);
}

/* What is done at once: of so many images n positions of each half, nk blocks
 * of outputs of each from kb on, and so many of inputs from `first` on. */
struct tile {
    int images, n, kb, nk, first, inputs;
    float *w;    /* as pack() leaves it */
    size_t each; /* floats of one that is multiplied by */
};

static void pack(const struct pass *p, const struct tile *t)
{
    const float *a[QUARTERS];
    float *s[QUARTERS];
    for (int i = 0; i < QUARTERS; i++) {
        const struct conv_part part = {i / 2 * p->outputs + t->kb, t->nk,
                                       i % 2 * p->inputs + t->first, t->inputs};
        float *const at = t->w + (size_t)i * t->each;
        conv_pack_part(&p->view, &p->order, &part, p->w, at);
        a[i] = at;
        s[i] = at + FIRST_SUM * t->each;
    }
    p->isa->lanes->quarters->left(a, s, t->each);
}

/* Of the inputs that c says. */
static void multiply_part(const struct pass *p, const struct tile *t,
                          struct conv_tile c, struct quarter x,
                          struct quarter y, const struct quarter *soon)
{
    const int count = conv_up(t->n, p->isa->most[2 * t->nk]);
    for (int image = 0; image < t->images; image++)
        for (int i = 0, q = 0, nq; i < count; i++, q += nq) {
            const size_t at = (size_t)q * CONV_BLOCK;
            nq = (t->n - q) / (count - i);
            c.x = x.at + (size_t)image * x.image + at;
            c.y = y.at + (size_t)image * y.image + at;
            c.ahead = nq * CONV_BLOCK;
            for (int k = 0; k < t->nk && soon; k++)
                for (int j = 0; j < nq; j++)
                    __builtin_prefetch(soon->at + (size_t)image * soon->image
                                           + (size_t)k * soon->block + at
                                           + j * CONV_BLOCK,
                                       1, 2);
            p->isa->tile[2 * t->nk][nq](&c);
        }
}

/* Whether these are the last inputs, so that y may end. */
static bool is_last(const struct pass *p, const struct tile *t)
{
    return t->first + t->inputs == p->inputs;
}

/* y = x w; or y += that, which may end it; soon: what is written soon, or NULL.
 */
static void multiply(const struct pass *p, const struct tile *t, int w,
                     struct quarter x, struct quarter y, bool add, bool ends,
                     const struct quarter *soon)
{
    static const float zeros[TILE_BLOCKS * CONV_BLOCK];
    static const int32_t tap[1];
    const int near = p->isa->near ? p->isa->near : t->inputs;
    struct conv_tile c = {
        .x_block = x.block,
        .tap = tap,
        .ntaps = 1,
        .last = CONV_BLOCK,
        .w = t->w + (size_t)w * t->each,
        .y_block = y.block,
        .y_step = CONV_BLOCK,
        .bias = add ? NULL : zeros,
    };
    for (int b = 0; b < t->inputs; b += c.nblocks) {
        c.nblocks = conv_least(conv_even_parts(t->inputs, near), t->inputs - b);
        if (ends && b + c.nblocks == t->inputs && is_last(p, t)) {
            c.relu = p->relu;
            c.gate = p->gate;
            c.dx = p->dx;
        }
        multiply_part(p, t, c, quarter_from(x, (size_t)b * x.block), y,
                      b ? NULL : soon);
        c.w += packed_floats(t->nk, c.nblocks);
        c.bias = NULL;
    }
}

static const float *bias_of(const struct pass *p, int block)
{
    static const float zeros[CONV_BLOCK];
    return p->bias ? p->bias + block * CONV_BLOCK : zeros;
}

/* The sums of four products to y, of the blocks from kb on. */
static void meet(const struct pass *p, const struct tile *t,
                 const struct quarter product[QUARTERS],
                 const struct quarter y[QUARTERS])
{
    const bool add = p->add || t->first, last = is_last(p, t);
    for (int image = 0; image < t->images; image++)
        for (int k = 0; k < t->nk; k++) {
            const float *const plus[] = {bias_of(p, t->kb + k),
                                         bias_of(p, p->outputs + t->kb + k)};
            const float *from[QUARTERS];
            float *to[QUARTERS];
            for (int i = 0; i < QUARTERS; i++) {
                from[i] = product[i].at + (size_t)image * product[i].image
                          + (size_t)k * product[i].block;
                to[i] = y[i].at + (size_t)image * y[i].image
                        + (size_t)k * y[i].block;
            }
            p->isa->lanes->quarters->meet(
                from, add ? NULL : plus, to, (size_t)t->n, last && p->relu,
                last && p->gate ? p->gate + (to[Q22] - p->dx) : NULL);
        }
}

/* The outputs from kb on. */
static void run_tile(const struct pass *p, const struct tile *t,
                     const struct quarter x[QUARTERS],
                     const struct quarter sums[QUARTERS],
                     const struct quarter y[QUARTERS])
{
    const size_t block = (size_t)t->n * CONV_BLOCK;
    const size_t image = (size_t)t->nk * block;
    struct quarter product[QUARTERS], to[QUARTERS];
    for (size_t i = 0; i < QUARTERS; i++) {
        product[i] = (struct quarter){
            p->products + i * (size_t)t->images * image, image, block};
        to[i] = quarter_from(y[i], (size_t)t->kb * y[i].block);
    }
    multiply(p, t, Q11, x[Q11], product[0], false, false, &to[0]);
    multiply(p, t, FIRST_SUM + 1, sums[1], product[1], false, false, &to[1]);
    multiply(p, t, FIRST_SUM + 0, sums[0], product[2], false, false, &to[2]);
    multiply(p, t, FIRST_SUM + 2, sums[2], product[3], false, false, &to[3]);
    meet(p, t, product, to);
    multiply(p, t, Q12, x[Q21], to[Q11], true, true, NULL);
    multiply(p, t, FIRST_SUM + 3, x[Q22], to[Q12], true, true, NULL);
    multiply(p, t, Q22, sums[3], to[Q21], true, true, NULL);
}

/* The position that no half has, as it is defined. */
static void run_last(const struct pass *p, struct tile t,
                     const struct quarter x[QUARTERS],
                     const struct quarter y[QUARTERS])
{
    const size_t last = (size_t)(p->positions - 1) * CONV_BLOCK;
    t.n = 1;
    for (int k = 0; k < 2; k++) { /* each half of the outputs */
        const struct quarter to =
            quarter_from(y[2 * k], last + (size_t)t.kb * y->block);
        for (int i = 0; i < t.images && !p->add && !t.first; i++)
            for (int b = 0; b < t.nk; b++)
                memcpy(to.at + (size_t)i * to.image + (size_t)b * to.block,
                       bias_of(p, k * p->outputs + t.kb + b),
                       CONV_BLOCK * sizeof(float));
        for (int c = 0; c < 2; c++)
            multiply(p, &t, 2 * k + c, quarter_from(x[2 * c], last), to, true,
                     c == 1, NULL);
    }
}

void strassen_sums(strassen_sums_fn *fn, const struct quarter from[QUARTERS],
                   int images, int blocks, int n, float *to,
                   struct quarter sums[QUARTERS])
{
    const size_t block = (size_t)n * CONV_BLOCK;
    const size_t image = (size_t)blocks * block;
    for (size_t i = 0; i < QUARTERS; i++)
        sums[i] =
            (struct quarter){to + i * (size_t)images * image, image, block};
    for (size_t m = 0; m < (size_t)images; m++)
        for (size_t b = 0; b < (size_t)blocks; b++) {
            const float *x[QUARTERS];
            float *y[QUARTERS];
            for (int i = 0; i < QUARTERS; i++) {
                x[i] = from[i].at + m * from[i].image + b * from[i].block;
                y[i] = sums[i].at + m * image + b * block;
            }
            fn(x, y, block);
        }
}

/* n positions from `first` on of each half, and after the last of them the one
 * that no half has; of x so many blocks from b0 on. */
static void run_band(const struct pass *p, const struct quarter x[QUARTERS],
                     const struct quarter y[QUARTERS], int images, int first,
                     int n, int b0, bool packs)
{
    const bool last = p->positions % 2 && first + n == p->half;
    const int inputs = conv_least(p->chunk, p->inputs - b0);
    const size_t at = (size_t)first * CONV_BLOCK;
    struct quarter sums[QUARTERS], all[QUARTERS], from[QUARTERS], to[QUARTERS];
    float *w = p->packed;
    if (!p->once)
        w += WEIGHTS * packed_floats(p->outputs, b0);
    for (int i = 0; i < QUARTERS; i++) {
        all[i] = quarter_from(x[i], (size_t)b0 * x[i].block);
        from[i] = quarter_from(all[i], at);
        to[i] = quarter_from(y[i], at);
    }
    strassen_sums(p->isa->lanes->quarters->right, from, images, inputs, n,
                  p->sums, sums);
    for (int kb = p->share.from, nk; kb < p->share.to; kb += nk) {
        nk = conv_tile_blocks(p->isa->most, p->widest, p->share.to - kb);
        const struct tile t = {images, n,      kb, nk,
                               b0,     inputs, w,  packed_floats(nk, inputs)};
        if (packs)
            pack(p, &t);
        if (n)
            run_tile(p, &t, from, sums, to);
        if (last)
            run_last(p, t, all, y);
        if (!p->once)
            w += WEIGHTS * t.each;
    }
}

static void run_images(const struct pass *p, const float *from, float *to,
                       int images, bool packs)
{
    struct quarter x[QUARTERS], y[QUARTERS];
    quarters_of((float *)(uintptr_t)from, p->view.channels, p->positions, x);
    quarters_of(to, p->order.outputs, p->positions, y);
    int first = 0;
    do {
        const int n = conv_least(p->at_once, p->half - first);
        for (int b = 0; b < p->inputs; b += p->chunk)
            run_band(p, x, y, images, first, n, b, packs && first == 0);
        first += n;
    } while (first < p->half);
}

void strassen_gather(const struct conv_view *v, const float *x, int images,
                     float *to)
{
    const size_t image = conv_blocked(1, v->channels, v->h, v->w);
    for (int i = 0; i < images; i++, x += image)
        for (int b = 0; b < v->blocks; b++, to += (size_t)v->rows * v->row)
            view_copy(v, x, NULL, b, 0, v->rows, to);
}

/* The way back of a block, and zeros where nothing comes; or adds. */
static void scatter_block(const struct conv *c, const float *from, float *dx)
{
    if (!c->add)
        memset(dx, 0, conv_blocked(1, 1, c->h, c->w) * sizeof(float));
    for (int r = 0; r < c->out_h; r++)
        for (int q = 0; q < c->out_w; q++, from += CONV_BLOCK) {
            float *to = dx
                        + (size_t)(r * c->stride_h * c->w + q * c->stride_w)
                              * CONV_BLOCK;
            for (int i = 0; i < CONV_BLOCK; i++)
                to[i] += from[i];
        }
}

static void scatter(const struct conv *c, const struct pass *p, int images,
                    float *dx)
{
    const size_t block = conv_blocked(1, 1, c->h, c->w);
    for (int half = 0; half < 2 * images; half++)
        for (int b = p->share.from; b < p->share.to; b++) {
            const size_t at = (size_t)(half * p->outputs + b);
            scatter_block(c, p->dense + at * (size_t)p->positions * CONV_BLOCK,
                          dx + at * block);
        }
}

static void forward(const struct conv *c, const float *x, const float *w,
                    const float *bias, float *y, float *scratch)
{
    const size_t x_image = conv_blocked(1, c->c, c->h, c->w);
    const size_t y_image = conv_blocked(1, c->k, c->out_h, c->out_w);
    struct pass p = pass_of(c, CONV_FORWARD, w);
    p.bias = bias;
    p.relu = c->relu;
    lay_out(&p, scratch);
    for (int i = 0, images; i < c->n; i += images) {
        const float *from = x + (size_t)i * x_image;
        images = conv_least(p.images, c->n - i);
        if (p.apart) {
            strassen_gather(&p.view, from, images, p.dense);
            from = p.dense;
        }
        run_images(&p, from, y + (size_t)i * y_image, images, i == 0);
    }
}

/* From the last image to the first, see conv_direct.c. */
static void backward_data(const struct conv *c, const float *dy, const float *w,
                          float *dx, float *scratch)
{
    const size_t x_image = conv_blocked(1, c->c, c->h, c->w);
    const size_t y_image = conv_blocked(1, c->k, c->out_h, c->out_w);
    struct pass p = pass_of(c, CONV_BACKWARD_DATA, w);
    lay_out(&p, scratch);
    p.add = c->add && !p.apart;
    p.gate = c->gate;
    p.dx = dx;
    for (int done = 0, images; done < c->n; done += images) {
        images = conv_least(p.images, c->n - done);
        const size_t first = (size_t)(c->n - done - images);
        float *const to = dx + first * x_image;
        run_images(&p, dy + first * y_image, p.apart ? p.dense : to, images,
                   done == 0);
        if (p.apart)
            scatter(c, &p, images, to);
    }
}

static bool gates(const struct conv *c)
{
    return !strassen_apart(c);
}

const struct conv_method conv_strassen = {
    .name = "strassen",
    .adds = true,
    .shares = true,
    .relus = true,
    .gates = gates,
    .cannot = cannot,
    .scratch = scratch_of,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = strassen_backward_weights,
};
