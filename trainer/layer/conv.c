/* SPDX-License-Identifier: MIT */
/* conv OUTPUTS HxW [stride S] [pad P] [groups G] [dilation D] [nobias]:
 * convolution (without flipping), by the kernels that suit shape and pass. */
#include "layer/conv.h"

#include "kernels/lanes.h"
#include "kernels/norm.h"
#include "layer/batchnorm.h"
#include "layer/channel.h"
#include "layer/words.h"

extern const struct layer_ops layer_relu;

struct conv conv_of(const struct layer *l, int n)
{
    const struct window_option *o = &l->option.window;
    struct conv c = {
        .n = n,
        .c = l->in.c,
        .h = l->in.h,
        .w = l->in.w,
        .k = l->out.c,
        .groups = o->groups,
        .kernel_h = o->kernel_h,
        .kernel_w = o->kernel_w,
        .stride_h = o->stride_h,
        .stride_w = o->stride_w,
        .pad_h = o->pad,
        .pad_w = o->pad,
        .dilation_h = o->dilation,
        .dilation_w = o->dilation,
        .plain = l->plain,
        .share = l->share,
        .shares = l->shares,
    };
    conv_set_outputs(&c);
    return c;
}

static bool takes_plain(const struct layer *l)
{
    struct conv c = conv_of(l, 1);
    c.plain = true;
    return !conv_direct.cannot(&c, CONV_FORWARD);
}

static size_t nweights(const struct layer *l)
{
    const struct window_option *o = &l->option.window;
    return (size_t)l->out.c * (size_t)(l->in.c / o->groups)
           * (size_t)o->kernel_h * (size_t)o->kernel_w;
}

static size_t norm_scratch(const struct layer *l)
{
    return nweights(l) + (size_t)l->out.c;
}

static const struct conv_method *method_of(const struct layer *l,
                                           enum conv_pass pass)
{
    return l->option.window.methods[l->plain][pass];
}

/* By the largest batch, so that a short one repeats what a full one does.
 * Returns the scratch of the pass that wants most. */
static size_t choose(struct layer *l, bool plain)
{
    struct conv c = conv_of(l, l->in.n);
    size_t most = 0;
    c.plain = plain;
    for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++) {
        if (plain && pass == CONV_BACKWARD_DATA)
            continue;
        const struct conv_method *m = conv_best(&c, pass);
        l->option.window.methods[plain][pass] = m;
        for (int i = 0; i < (m->halves && m->halves() ? 4 : 1); i++) {
            struct conv way = c;
            way.half_x = i & 1;
            way.half_y = i & 2;
            const size_t floats = m->scratch(&way, pass);
            most = floats > most ? floats : most;
        }
    }
    return most;
}

static unsigned halves(const struct layer *l)
{
    for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++) {
        const struct conv_method *m = method_of(l, pass);
        if (l->plain && pass == CONV_BACKWARD_DATA)
            continue;
        if (!m->halves || !m->halves())
            return 0;
    }
    return l->plain ? HALF_Y : HALF_X | HALF_Y;
}

static const char *parse(struct layer *l, int nwords, char **words)
{
    const struct window_option *o = &l->option.window;
    int outputs;
    l->wrong = nwords ? words[0] : NULL;
    if (!nwords || !word_numbers(words[0], 1, 1, &outputs))
        return "conv starts with the number of its output channels, as in "
               "conv 20 5x5 stride 1 pad 2";
    l->out = l->in;
    l->out.c = outputs;
    const char *why = window_parse(l, 1, " stride pad groups dilation nobias",
                                   nwords - 1, words + 1);
    if (why)
        return why;
    l->wrong = words[0];
    if (l->in.c % o->groups || outputs % o->groups)
        return "groups divide the channels of input and output";
    const double k = (double)(l->in.c / o->groups) * o->kernel_h * o->kernel_w;
    if (!floats_fit(outputs * (k + 1)) || !floats_fit(k * l->out.h * l->out.w))
        return "the weights or columns are too large, at most 2147483647 "
               "numbers are valid";
    l->nparams = nweights(l) + (o->no_bias ? 0 : (size_t)outputs);
    l->nscratch = choose(l, false);
    if (takes_plain(l)) {
        const size_t floats = choose(l, true);
        l->nscratch = floats > l->nscratch ? floats : l->nscratch;
    }
    return NULL;
}

static void describe(const struct layer *l, struct layer_param *to, int most)
{
    const struct window_option *o = &l->option.window;
    if (most > 1) {
        to[0] = (struct layer_param){
            "weight",
            4,
            {l->out.c, l->in.c / o->groups, o->kernel_h, o->kernel_w}
        };
        if (!o->no_bias)
            to[1] = (struct layer_param){"bias", 1, {l->out.c}};
    }
}

static void init(struct layer *l, uint64_t seed)
{
    const size_t count = nweights(l);
    fan_in_init(l, l->params, count, count / (size_t)l->out.c, seed);
    for (size_t i = count; i < l->nparams; i++)
        l->params[i] = 0;
}

static bool adds_dx(const struct layer *l)
{
    return !l->plain && method_of(l, CONV_BACKWARD_DATA)->adds;
}

static bool can_relu_forward(const struct layer *l)
{
    return method_of(l, CONV_FORWARD)->relus;
}

static bool can_gate(const struct layer *l)
{
    const struct conv_method *m =
        l->plain ? NULL : method_of(l, CONV_BACKWARD_DATA);
    const struct conv c = conv_of(l, l->in.n);
    return m && m->gates && m->gates(&c);
}

/* The weights and biases of this and the batchnorm behind it in one. */
static const float *fold(const struct layer *l)
{
    const size_t count = nweights(l), row = count / (size_t)l->out.c;
    float *weights = l->scratch + l->nscratch - norm_scratch(l);
    for (int c = 0; c < l->out.c; c++) {
        const float *from = l->params + (size_t)c * row;
        float *to = weights + (size_t)c * row, times, plus;
        batchnorm_factors(l->norm, c, &times, &plus);
        for (size_t i = 0; i < row; i++)
            to[i] = from[i] * times;
        if (!l->option.window.no_bias)
            plus += l->params[count + (size_t)c] * times;
        weights[count + (size_t)c] = plus;
    }
    return weights;
}

static bool folds_norm(const struct layer *l)
{
    return l->norm && !l->training;
}

static bool by_outputs(const struct layer *l, enum layer_pass pass, int images,
                       int threads)
{
    static const enum conv_pass passes[] = {CONV_FORWARD, CONV_BACKWARD_WEIGHTS,
                                            CONV_BACKWARD_DATA};
    const struct conv c = conv_of(l, images);
    return !(pass == LAYER_FORWARD && folds_norm(l))
           && conv_by_outputs(&c, passes[pass], method_of(l, passes[pass]),
                              threads);
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    struct conv c = conv_of(l, x->shape.n);
    const bool folds = folds_norm(l);
    c.half_x = l->half_x;
    c.half_y = layer_writes(l)->half;
    const float *weights = folds ? fold(l) : l->params;
    const float *bias =
        folds || !l->option.window.no_bias ? weights + nweights(l) : NULL;
    const struct conv_method *m = method_of(l, CONV_FORWARD);
    const bool relu = folds ? l->norm->relu : l->relu;
    c.relu = relu && can_relu_forward(l);
    if (!conv_is_idle(&c, CONV_FORWARD, m))
        m->forward(&c, x->x, weights, bias, y.x, l->scratch);
    if (relu && !c.relu)
        layer_relu.forward(l->norm, &y, y);
}

static void backward_bias(struct layer *l, struct tensor dy)
{
    static const struct norm of_halves = {.half_x = true};
    float *dbias = l->grads + nweights(l);
    int first = 0, blocks = shape_blocks(l->out);
    if (l->shares)
        blocks = crew_part(blocks, l->share, l->shares, &first);
    for (int b = first; b < first + blocks; b++) {
        double sums[BLOCK] = {0}, squares[BLOCK] = {0};
        for (int i = 0; i < dy.shape.n; i++) {
            const struct channel_run r = channel_run(l->out, i, b);
            if (l->half)
                norm_loops(&of_halves)
                    ->moments(&of_halves, dy.x + (r.first >> l->half), r.count,
                              sums, squares);
            else
                lanes()->sum(dy.x + r.first, NULL, NULL, r.count, sums, NULL);
        }
        channel_add(l->out, sums, b, dbias);
    }
}

static size_t grads_written(const struct layer *l)
{
    return conv_writes(method_of(l, CONV_BACKWARD_WEIGHTS)) ? nweights(l) : 0;
}

static void gradients(struct layer *l, const struct tensor *x, struct tensor dy)
{
    struct conv c = conv_of(l, dy.shape.n);
    c.fresh = grads_written(l) > 0;
    c.half_x = l->half_x;
    c.half_y = l->half;
    if (!l->option.window.no_bias)
        backward_bias(l, dy);
    const struct conv_method *m = method_of(l, CONV_BACKWARD_WEIGHTS);
    if (!conv_is_idle(&c, CONV_BACKWARD_WEIGHTS, m))
        m->backward_weights(&c, x->x, dy.x, l->grads, l->scratch);
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    struct conv c = conv_of(l, dy.shape.n);
    (void)y;
    c.gate = l->gates ? x->x : NULL;
    c.add = l->adds[0] && adds_dx(l);
    c.half_x = l->half_x;
    c.half_y = l->half;
    const struct conv_method *m = method_of(l, CONV_BACKWARD_DATA);
    if (!conv_is_idle(&c, CONV_BACKWARD_DATA, m))
        m->backward_data(&c, dy.x, l->params, dx->x, l->scratch);
}

const struct layer_ops layer_conv = {
    .name = "conv",
    .reads = READS_X,
    .grads_written = grads_written,
    .parse = parse,
    .takes_plain = takes_plain,
    .norm_scratch = norm_scratch,
    .halves = halves,
    .describe = describe,
    .init = init,
    .adds_dx = adds_dx,
    .can_relu_forward = can_relu_forward,
    .can_gate = can_gate,
    .by_outputs = by_outputs,
    .forward = forward,
    .backward = backward,
    .gradients = gradients,
};
