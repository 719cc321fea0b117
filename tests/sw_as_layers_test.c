/* SPDX-License-Identifier: MIT */
/* Kernels of the Sunway core group in software against the trainer's layers of
 * the same names, and the bytes that they move against formulas: PReLU,
 * dropout, softmax, local response normalisation, concatenation, dense. Speaks
 * TAP. */
#include "sw_checks.h"

#include <math.h>

#include "kernels/conv.h"
#include "kernels/sw/sw_concat.h"
#include "kernels/sw/sw_conv.h"
#include "kernels/sw/sw_dropout.h"
#include "kernels/sw/sw_lrn.h"
#include "kernels/sw/sw_prelu.h"
#include "kernels/sw/sw_softmax.h"
#include "layer/layer.h"

static struct sw_machine *machine;

/* --- the machine's side ------------------------------------------------- */

static void fine(const char *error)
{
    require(!error, "%s", error);
}

/* What was moved since the last call, or the start of the claim. */
static void moved(struct sw_bytes wanted, const char *what)
{
    const struct sw_counts c = sw_machine_counts(machine);
    require(c.get_bytes == wanted.get && c.put_bytes == wanted.put,
            "%s gets %zu and puts %zu bytes, not %zu and %zu", what,
            c.get_bytes, c.put_bytes, wanted.get, wanted.put);
    require(c.ldm_bytes <= SW_LDM_BYTES, "%s: LDM", what);
    sw_machine_clear(machine);
}

/* Some roundings of numbers of this size. */
static void near(const float *found, const float *wanted, size_t count,
                 double size, const char *what)
{
    const double most = size * 4 / (1 << 24);
    for (size_t i = 0; i < count; i++)
        require(fabs((double)found[i] - (double)wanted[i]) <= most,
                "%s[%zu] is %.9g, not %.9g", what, i, (double)found[i],
                (double)wanted[i]);
}

/* --- the trainer's side ------------------------------------------------- */

static float *blocked(const float *plain, struct shape s)
{
    float *to = unset(shape_floats(s));
    conv_to_blocked(plain, to, s.n, s.c, s.h, s.w);
    return to;
}

static float *plain(const float *blocked, struct shape s)
{
    float *to = unset(shape_count(s));
    conv_to_plain(blocked, to, s.n, s.c, s.h, s.w);
    return to;
}

static struct layer make(const char *name, const char *first, struct shape in,
                         uint64_t seed)
{
    char word[32];
    char *words[] = {word, NULL};
    struct layer l = {.ops = layer_find(name),
                      .ninputs = 1,
                      .ins = {in},
                      .in = in,
                      .training = true,
                      .seed = seed,
                      .first_image = 7};
    snprintf(word, sizeof(word), "%s", first ? first : "");
    const char *why = l.ops->parse(&l, first ? 1 : 0, words);
    require(!why, "%s: %s", name, why);
    l.saved = unset(l.nsaved);
    l.scratch = unset(l.nscratch);
    l.params = eighths(l.nparams, seed + 9);
    l.grads = unset(l.nparams);
    memset(l.grads, 0, l.nparams * sizeof(float));
    return l;
}

static void drop_layer(struct layer *l)
{
    free(l->saved);
    free(l->scratch);
    free(l->params);
    free(l->grads);
}

/* What the layer has for x and dy; all are plain. */
struct passes {
    float *y, *dx;
};

static struct passes passes_of(struct layer *l, const float *x, const float *dy)
{
    float *bx = blocked(x, l->in), *bdy = blocked(dy, l->out);
    float *by = unset(shape_floats(l->out)), *bdx = unset(shape_floats(l->in));
    const struct tensor in = {l->in, bx}, out = {l->out, by};
    const struct tensor dout = {l->out, bdy}, din = {l->in, bdx};
    l->ops->forward(l, &in, out);
    if (l->ops->gradients)
        l->ops->gradients(l, &in, dout);
    l->ops->backward(l, &in, out, dout, &din);
    const struct passes p = {plain(by, l->out), plain(bdx, l->in)};
    float *all[] = {bx, bdy, by, bdx};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
    return p;
}

static void drop_all(float **all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(all[i]);
}

static size_t bytes_of(struct shape s)
{
    return sizeof(float) * shape_count(s);
}

static struct sw_channels channels(struct shape s)
{
    return (struct sw_channels){s.n, s.c, s.h * s.w};
}

static struct shape odd_shape(uint64_t seed)
{
    return (struct shape){pick(seed, 0, 1, 5), pick(seed, 1, 1, 40),
                          pick(seed, 2, 1, 9), pick(seed, 3, 1, 12)};
}

/* --- PReLU -------------------------------------------------------------- */

static void one_prelu(struct shape s, uint64_t seed)
{
    struct layer l = make("prelu", NULL, s, seed);
    const size_t all = shape_count(s), c = (size_t)s.c;
    float *x = eighths(all, seed), *dy = eighths(all, seed + 1);
    float *y = unset(all), *dx = unset(all), *dslope = unset(c);
    struct passes wanted = passes_of(&l, x, dy);
    sw_machine_clear(machine);
    fine(sw_prelu(machine, &(struct sw_prelu){channels(s), x, l.params, y}));
    moved((struct sw_bytes){bytes_of(s) + 64 * 4 * c, bytes_of(s)}, "prelu");
    fine(sw_prelu_backward(
        machine,
        &(struct sw_prelu_backward){channels(s), x, dy, l.params, dx, dslope}));
    moved((struct sw_bytes){2 * bytes_of(s) + 64 * 4 * c, bytes_of(s) + 4 * c},
          "prelu backward");
    equal(y, wanted.y, all, "prelu y");
    equal(dx, wanted.dx, all, "prelu dx");
    equal(dslope, l.grads, c, "prelu dslope");
    drop_layer(&l);
    drop_all((float *[]){x, dy, y, dx, dslope, wanted.y, wanted.dx}, 7);
}

static void prelu_is_the_layer(void)
{
    for (uint64_t seed = 0; seed < 20; seed++)
        one_prelu(odd_shape(seed), seed << 8);
    one_prelu((struct shape){2, 3, 70, 90}, 1);
}

/* --- dropout ------------------------------------------------------------ */

/* In the order of the trainer's tensors, by which chances go. */
static void one_dropout(struct shape s, const char *rate, uint64_t seed)
{
    struct layer l = make("dropout", rate, s, seed);
    const size_t all = shape_floats(s);
    float *x = eighths(all, seed), *dy = eighths(all, seed + 1);
    float *y = unset(all), *dx = unset(all), *found = unset(all);
    const struct tensor in = {s, x}, out = {s, y}, dout = {s, dy},
                        din = {s, dx};
    l.ops->forward(&l, &in, out);
    l.ops->backward(&l, &in, out, dout, &din);
    struct sw_dropout job = {
        x,    found,        image_floats(s), s.n, l.option.dropout.rate,
        seed, l.first_image};
    const struct sw_bytes bytes = {4 * all, 4 * all};
    sw_machine_clear(machine);
    fine(sw_dropout(machine, &job));
    moved(bytes, "dropout");
    equal(found, y, all, "dropout y");
    job.from = dy;
    fine(sw_dropout(machine, &job));
    moved(sw_dropout_bytes(&job), "dropout backward");
    equal(found, dx, all, "dropout dx");
    drop_layer(&l);
    drop_all((float *[]){x, dy, y, dx, found}, 5);
}

static void dropout_is_the_layer(void)
{
    for (uint64_t seed = 0; seed < 20; seed++)
        one_dropout(odd_shape(seed), seed % 2 ? "0.5" : "0.3", seed << 8);
    one_dropout((struct shape){3, 40000, 1, 1}, "0.25", 3);
}

/* --- softmax ------------------------------------------------------------ */

static void one_softmax(int n, int classes, uint64_t seed)
{
    const struct shape s = {n, classes, 1, 1};
    struct layer l = make("softmax_loss", NULL, s, seed);
    const size_t all = shape_count(s);
    float *x = eighths(all, seed), *dy = eighths(all, seed + 1);
    float *y = unset(all), *dx = unset(all);
    for (size_t i = 0; i < all; i++)
        x[i] *= 100; /* more than exp of float can take */
    struct passes wanted = passes_of(&l, x, dy);
    const size_t passes = classes > 4096 ? 3 : 1;
    sw_machine_clear(machine);
    fine(sw_softmax(machine, &(struct sw_softmax){n, classes, x, y}));
    moved((struct sw_bytes){passes * 4 * all, 4 * all}, "softmax");
    near(y, wanted.y, all, 400, "softmax y");
    fine(sw_softmax_backward(
        machine, &(struct sw_softmax_backward){n, classes, wanted.y, dy, dx}));
    moved(sw_softmax_backward_bytes(n, classes), "softmax backward");
    near(dx, wanted.dx, all, classes, "softmax dx");
    drop_layer(&l);
    drop_all((float *[]){x, dy, y, dx, wanted.y, wanted.dx}, 6);
}

static void softmax_is_the_layer(void)
{
    for (uint64_t seed = 0; seed < 20; seed++)
        one_softmax(pick(seed, 0, 1, 200), pick(seed, 1, 1, 50), seed << 8);
    one_softmax(3, 4096, 1);
    one_softmax(2, 4097, 2);
    one_softmax(70, 9000, 3);
    const struct sw_bytes one = sw_softmax_bytes(3, 10);
    const struct sw_bytes back = sw_softmax_backward_bytes(3, 10);
    require(one.get == 120 && one.put == 120, "bytes of a short row");
    require(back.get == 240 && back.put == 120, "and of its way back");
    require(sw_softmax_bytes(1, 5000).get == 60000, "bytes of a long row");
}

/* --- local response normalisation --------------------------------------- */

static void one_lrn(struct shape s, int size, uint64_t seed)
{
    char word[16];
    snprintf(word, sizeof(word), "%d", size);
    struct layer l = make("lrn", word, s, seed);
    const size_t all = shape_count(s);
    float *x = eighths(all, seed), *dy = eighths(all, seed + 1);
    float *y = unset(all), *scale = unset(all), *dx = unset(all);
    l.option.lrn.alpha = 0.5F;
    l.option.lrn.beta = seed % 2 ? 0.75F : 0.5F;
    l.option.lrn.k = 2;
    struct passes wanted = passes_of(&l, x, dy);
    sw_machine_clear(machine);
    fine(sw_lrn(machine, &(struct sw_lrn){channels(s), size, 0.5F,
                                          l.option.lrn.beta, 2, x, scale, y}));
    moved(sw_lrn_bytes(channels(s), size), "lrn");
    near(y, wanted.y, all, 1, "lrn y");
    fine(sw_lrn_backward(machine, &(struct sw_lrn_backward){
                                      channels(s), size, 0.5F,
                                      l.option.lrn.beta, x, y, scale, dy, dx}));
    moved(sw_lrn_backward_bytes(channels(s), size), "lrn backward");
    near(dx, wanted.dx, all, 2, "lrn dx");
    drop_layer(&l);
    drop_all((float *[]){x, dy, y, scale, dx, wanted.y, wanted.dx}, 7);
}

/* Where all channels go at once, each number is read once by each name. */
static void bytes_of_lrn(void)
{
    const struct sw_channels few = {3, 40, 30};
    const size_t all = sizeof(float) * 3 * 40 * 30;
    const struct sw_bytes one = sw_lrn_bytes(few, 5);
    const struct sw_bytes back = sw_lrn_backward_bytes(few, 5);
    require(one.get == all && one.put == 2 * all, "%zu bytes", one.get);
    require(back.get == 4 * all && back.put == all, "%zu bytes", back.get);
    /* In blocks, each reads up to four neighbours more. */
    const struct sw_channels many = {1, 20000, 2};
    const size_t most = sw_lrn_bytes(many, 5).get;
    require(most > 4 * 40000 && most < 4 * 40000 * 5 / 4, "%zu bytes", most);
}

static void lrn_is_the_layer(void)
{
    for (uint64_t seed = 0; seed < 20; seed++)
        one_lrn(odd_shape(seed), 1 + 2 * pick(seed, 4, 0, 6),
                (seed << 8) + seed);
    one_lrn((struct shape){1, 3000, 1, 2}, 5, 1);
    one_lrn((struct shape){2, 700, 2, 2}, 1023, 2);
    one_lrn((struct shape){1, 96, 55, 55}, 5, 3);
    bytes_of_lrn();
}

/* --- concatenation ------------------------------------------------------ */

static void one_concat(struct shape s, const int *more, int nparts,
                       uint64_t seed)
{
    struct layer l = {.ops = layer_find("concat"), .ninputs = nparts, .in = s};
    struct tensor in[LAYER_INPUTS], din[LAYER_INPUTS];
    struct sw_part part[LAYER_INPUTS], back[LAYER_INPUTS];
    for (int i = 0; i < nparts; i++) {
        l.ins[i] = s;
        l.ins[i].c = i ? more[i - 1] : s.c;
        const size_t count = shape_count(l.ins[i]);
        part[i] = (struct sw_part){eighths(count, seed + (uint64_t)i),
                                   l.ins[i].c * s.h * s.w};
        back[i] = (struct sw_part){unset(count), part[i].floats};
        in[i] = (struct tensor){l.ins[i], blocked(part[i].x, l.ins[i])};
        din[i] = (struct tensor){l.ins[i], unset(shape_floats(l.ins[i]))};
    }
    l.out = s;
    require(!l.ops->parse(&l, 0, NULL), "concat");
    const size_t all = shape_count(l.out);
    float *y = unset(shape_floats(l.out)), *whole = unset(all);
    l.ops->forward(&l, in, (struct tensor){l.out, y});
    l.ops->backward(&l, in, (struct tensor){l.out, y},
                    (struct tensor){l.out, y}, din);
    float *wanted = plain(y, l.out);
    sw_machine_clear(machine);
    fine(sw_concat(machine, s.n, part, nparts, whole));
    moved((struct sw_bytes){4 * all, 4 * all}, "concat");
    equal(whole, wanted, all, "concat");
    fine(sw_split(machine, s.n, whole, back, nparts));
    moved((struct sw_bytes){4 * all, 4 * all}, "concat backward");
    for (int i = 0; i < nparts; i++) {
        float *dx = plain(din[i].x, l.ins[i]);
        equal(back[i].x, dx, shape_count(l.ins[i]), "concat dx");
        drop_all((float *[]){dx, part[i].x, back[i].x, in[i].x, din[i].x}, 5);
    }
    drop_all((float *[]){y, whole, wanted}, 3);
}

static void concat_is_the_layer(void)
{
    one_concat((struct shape){3, 5, 4, 3}, (int[]){16, 7}, 3, 1);
    one_concat((struct shape){1, 64, 28, 28}, (int[]){128, 32, 32}, 4, 2);
    one_concat((struct shape){70, 2, 1, 1}, (int[]){1}, 2, 3);
    /* What nobody needs the gradient of is left out. */
    float whole[6] = {1, 2, 3, 4, 5, 6}, second[4] = {0};
    const struct sw_part parts[] = {
        {NULL,   1},
        {second, 2}
    };
    sw_machine_clear(machine);
    fine(sw_split(machine, 2, whole, parts, 2));
    moved((struct sw_bytes){16, 16}, "a part");
    equal(second, (const float[]){2, 3, 5, 6}, 4, "a part");
}

/* --- inner product ------------------------------------------------------ */

/* A convolution of images of one place, whose channels are the numbers. */
static float *product(struct conv c, enum conv_pass pass, const float *in,
                      const float *by, size_t count)
{
    float *out = unset(count);
    const struct sw_conv job = {.conv = c,
                                .pass = pass,
                                .way = SW_BY_MODEL,
                                .in = in,
                                .by = by,
                                .out = out};
    const char *cannot = sw_conv_cannot(&job);
    require(!cannot, "%s", cannot);
    float *scratch = unset(sw_conv_scratch(&job));
    fine(sw_conv(machine, &job, scratch, NULL));
    free(scratch);
    return out;
}

static void one_dense(int n, int inputs, int outputs, uint64_t seed)
{
    char word[16];
    const struct shape s = {n, inputs, 1, 1};
    struct conv c = {.n = n,
                     .c = inputs,
                     .h = 1,
                     .w = 1,
                     .k = outputs,
                     .groups = 1,
                     .kernel_h = 1,
                     .kernel_w = 1,
                     .stride_h = 1,
                     .stride_w = 1,
                     .dilation_h = 1,
                     .dilation_w = 1};
    snprintf(word, sizeof(word), "%d", outputs);
    struct layer l = make("dense", word, s, seed);
    const size_t nx = shape_count(s), ny = shape_count(l.out);
    const size_t nw = (size_t)inputs * (size_t)outputs;
    float *x = eighths(nx, seed), *dy = eighths(ny, seed + 1);
    conv_set_outputs(&c);
    memset(l.params + nw, 0, (size_t)outputs * sizeof(float)); /* no bias */
    struct passes wanted = passes_of(&l, x, dy);
    float *y = product(c, CONV_FORWARD, x, l.params, ny);
    float *dx = product(c, CONV_BACKWARD_DATA, dy, l.params, nx);
    float *dw = product(c, CONV_BACKWARD_WEIGHTS, x, dy, nw);
    equal(y, wanted.y, ny, "dense y");
    equal(dx, wanted.dx, nx, "dense dx");
    equal(dw, l.grads, nw, "dense dw");
    drop_layer(&l);
    drop_all((float *[]){x, dy, y, dx, dw, wanted.y, wanted.dx}, 7);
}

static void dense_is_a_convolution(void)
{
    one_dense(64, 800, 500, 1);
    one_dense(7, 500, 10, 2);
    one_dense(32, 64, 32, 3);
}

/* One row of many numbers, and many of few, keep all CPEs busy. */
static void copies_are_shared_out(void)
{
    float *x = eighths(64 * 300, 1), *y = unset(64 * 300);
    const struct sw_part part = {x, 64 * 300};
    sw_machine_clear(machine);
    fine(sw_concat(machine, 1, &part, 1, y));
    require(sw_machine_counts(machine).transfers == 2 * 64, "%zu transfers",
            sw_machine_counts(machine).transfers);
    equal(y, x, 64 * 300, "a copy");
    free(x);
    free(y);
}

int main(void)
{
    static const struct check checks[] = {
        {"PReLU is the layer",     prelu_is_the_layer    },
        {"dropout is the layer",   dropout_is_the_layer  },
        {"softmax is the layer",   softmax_is_the_layer  },
        {"LRN is the layer",       lrn_is_the_layer      },
        {"concat is the layer",    concat_is_the_layer   },
        {"dense is a convolution", dense_is_a_convolution},
        {"copies are shared out",  copies_are_shared_out },
    };
    return run_on_machine(checks, (int)(sizeof(checks) / sizeof(checks[0])),
                          &machine);
}
