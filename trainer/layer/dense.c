/* SPDX-License-Identifier: MIT */
/* dense OUTPUTS: y = x weights^T + bias over all numbers of an image, in the
 * order channel, row, column. weights has one row for each output.
 *
 * With H = W = 1 an image is a row already; else it is reordered into one. */
#include <string.h>

#include "kernels/conv.h"
#include "kernels/lanes.h"
#include "kernels/rows.h"
#include "layer/words.h"

static int inputs_of(const struct layer *l)
{
    return l->in.c * l->in.h * l->in.w;
}

static bool are_rows(const struct layer *l)
{
    return shape_plane(l->in) == 1;
}

/* A gradient by factors is worked out in some of TILE_ROWS, which tiles of any
 * kernel divide well, at once. Rows are whole, so that who reads the runs goes
 * through memory in order, which brings that twice as fast as pieces of rows.
 */
enum { TILE = 48 * 816, TILE_ROWS = 24 };

static int tile_rows(const struct layer *l)
{
    const int fit = TILE / inputs_of(l) / TILE_ROWS * TILE_ROWS;
    return fit ? fit : TILE_ROWS;
}

static size_t tile_floats(const struct layer *l, int outputs)
{
    const int rows = tile_rows(l);
    return (size_t)(rows < outputs ? rows : outputs) * (size_t)inputs_of(l);
}

static const char *parse(struct layer *l, int nwords, char **words)
{
    int outputs;
    l->wrong = nwords ? words[0] : NULL;
    if (!nwords || !word_numbers(words[0], 1, 1, &outputs))
        return "dense is followed by the number of its outputs, as in "
               "dense 500";
    if (!floats_fit(outputs * (inputs_of(l) + 1.0)))
        return "the weights are too large, at most 2147483647 numbers are "
               "valid";
    l->nparams = (size_t)outputs * ((size_t)inputs_of(l) + 1);
    l->nscratch = tile_floats(l, outputs);
    if (!are_rows(l) && shape_count(l->in) > l->nscratch)
        l->nscratch = shape_count(l->in);
    l->out = (struct shape){l->in.n, outputs, 1, 1};
    l->wrong = nwords > 1 ? words[1] : NULL;
    return nwords > 1 ? "after the number of its outputs dense has no options"
                      : NULL;
}

static void describe(const struct layer *l, struct layer_param *to, int most)
{
    if (most > 1) {
        to[0] = (struct layer_param){
            "weight", 2, {l->out.c, inputs_of(l)}
        };
        to[1] = (struct layer_param){"bias", 1, {l->out.c}};
    }
}

static void init(struct layer *l, uint64_t seed)
{
    const size_t k = (size_t)inputs_of(l);
    fan_in_init(l, l->params, k * l->out.c, k, seed);
    for (int i = 0; i < l->out.c; i++)
        l->params[k * l->out.c + i] = 0;
}

/* The images as rows, so many floats apart. */
struct rows {
    float *x;
    int count;
    size_t next;
};

static struct rows rows_of(struct layer *l, struct tensor x)
{
    if (are_rows(l))
        return (struct rows){x.x, x.shape.n, image_floats(l->in)};
    conv_to_plain(x.x, l->scratch, x.shape.n, l->in.c, l->in.h, l->in.w);
    return (struct rows){l->scratch, x.shape.n, (size_t)inputs_of(l)};
}

/* Threads share out the outputs, for dx the inputs. */
struct job {
    struct layer *l;
    struct rows x, y; /* or dx and dy, or x and dy */
};

/* From where to where the i-th of n parts goes; whole cache lines. */
static int edge(int count, int i, int n)
{
    const int lines = (count + BLOCK - 1) / BLOCK;
    const int at = (int)((long long)lines * i / n) * BLOCK;
    return at < count ? at : count;
}

static void forward_part(void *context, int i, int n)
{
    const struct job *j = context;
    const struct layer *l = j->l;
    const int first = edge(l->out.c, i, n), end = edge(l->out.c, i + 1, n);
    const size_t k = (size_t)inputs_of(l);
    const float *bias = l->params + (size_t)l->out.c * k;
    struct rows y = j->y;
    y.x += first;
    for (int r = 0; r < y.count; r++)
        memcpy(y.x + (size_t)r * y.next, bias + first,
               (size_t)(end - first) * sizeof(float));
    lanes()->rows->sum(&(struct rows_sum){
        .to = y.x,
        .to_next = y.next,
        .rows = y.count,
        .columns = end - first,
        .terms = inputs_of(l),
        .by = j->x.x,
        .by_row = j->x.next,
        .by_term = 1,
        .from = l->params + (size_t)first * k,
        .from_next = k,
        .turned = true,
        .add = true,
    });
}

static void forward(struct layer *l, const struct tensor *x, struct tensor y)
{
    struct job j = {
        l, rows_of(l, *x), {y.x, y.shape.n, image_floats(l->out)}
    };
    memset(y.x, 0, shape_floats(y.shape) * sizeof(float));
    crew_run(l->crew, forward_part, &j);
}

static void weights_part(void *context, int i, int n)
{
    const struct job *j = context;
    struct layer *l = j->l;
    const int first = edge(l->out.c, i, n), end = edge(l->out.c, i + 1, n);
    const size_t k = (size_t)inputs_of(l);
    const float *dy = j->y.x + first;
    float *dbias = l->grads + (size_t)l->out.c * k + first;
    lanes()->rows->sum(&(struct rows_sum){
        .to = l->grads + (size_t)first * k,
        .to_next = k,
        .rows = end - first,
        .columns = inputs_of(l),
        .terms = j->x.count,
        .by = dy,
        .by_row = 1,
        .by_term = j->y.next,
        .from = j->x.x,
        .from_next = j->x.next,
    });
    memset(dbias, 0, (size_t)(end - first) * sizeof(float));
    for (int r = 0; r < j->y.count; r++)
        for (int c = 0; c < end - first; c++)
            dbias[c] += dy[(size_t)r * j->y.next + (size_t)c];
}

static void data_part(void *context, int i, int n)
{
    const struct job *j = context;
    const struct layer *l = j->l;
    const int k = inputs_of(l), first = edge(k, i, n);
    lanes()->rows->sum(&(struct rows_sum){
        .to = j->x.x + first,
        .to_next = j->x.next,
        .rows = j->x.count,
        .columns = edge(k, i + 1, n) - first,
        .terms = l->out.c,
        .by = j->y.x,
        .by_row = j->y.next,
        .by_term = 1,
        .from = l->params + first,
        .from_next = (size_t)k,
    });
}

/* --- factors ----------------------------------------------------------------
 * An image's row of x, and its row of dy.
 */

static size_t padded(int count)
{
    return image_floats((struct shape){1, count, 1, 1});
}

static size_t factor_floats(const struct layer *l)
{
    return padded(inputs_of(l)) + padded(l->out.c);
}

/* Images that are not there have zeros. */
static void write_factors(const struct layer *l, struct rows x, struct rows dy)
{
    float *to = l->factors.x;
    for (int i = 0; i < l->factors.images; i++, to += l->factors.next) {
        if (i >= x.count) {
            memset(to, 0, factor_floats(l) * sizeof(float));
            continue;
        }
        memcpy(to, x.x + (size_t)i * x.next,
               (size_t)inputs_of(l) * sizeof(float));
        memcpy(to + padded(inputs_of(l)), dy.x + (size_t)i * dy.next,
               (size_t)l->out.c * sizeof(float));
    }
}

static void weights_by_factors(const struct layer *l, const struct factors *f,
                               int first, int end, float *tile,
                               gradient_run *tell, void *context)
{
    const int k = inputs_of(l), high = tile_rows(l);
    for (int r = first; r < end; r += high) {
        const struct rows_sum s = {
            .to = tile,
            .to_next = (size_t)k,
            .rows = end - r < high ? end - r : high,
            .columns = k,
            .terms = f->images,
            .by = f->x + padded(k) + r,
            .by_row = 1,
            .by_term = f->next,
            .from = f->x,
            .from_next = f->next,
        };
        lanes()->rows->sum(&s);
        tell(context, (size_t)r * (size_t)k, tile, (size_t)s.rows * (size_t)k);
    }
}

enum { BIASES = 1024 }; /* at once */

static void bias_by_factors(const struct layer *l, const struct factors *f,
                            int first, int end, gradient_run *tell,
                            void *context)
{
    const size_t k = (size_t)inputs_of(l);
    float sums[BIASES];
    for (int r = first; r < end; r += BIASES) {
        const int n = end - r < BIASES ? end - r : BIASES;
        const float *dy = f->x + padded(inputs_of(l)) + r;
        memset(sums, 0, sizeof(sums));
        for (int i = 0; i < f->images; i++, dy += f->next)
            for (int c = 0; c < n; c++)
                sums[c] += dy[c];
        tell(context, k * (size_t)l->out.c + (size_t)r, sums, (size_t)n);
    }
}

static void by_factors(const struct layer *l, const struct factors *f, int i,
                       int n, float *scratch, gradient_run *tell, void *context)
{
    const int first = edge(l->out.c, i, n), end = edge(l->out.c, i + 1, n);
    weights_by_factors(l, f, first, end, scratch, tell, context);
    bias_by_factors(l, f, first, end, tell, context);
}

static size_t grads_written(const struct layer *l)
{
    return l->nparams;
}

static void gradients(struct layer *l, const struct tensor *x, struct tensor dy)
{
    struct job j = {
        l, rows_of(l, *x), {dy.x, dy.shape.n, image_floats(l->out)}
    };
    if (l->factors.x)
        write_factors(l, j.x, j.y);
    else
        crew_run(l->crew, weights_part, &j);
}

static void backward(struct layer *l, const struct tensor *x, struct tensor y,
                     struct tensor dy, const struct tensor *dx)
{
    (void)x;
    (void)y;
    const bool rows = are_rows(l);
    const int n = dy.shape.n;
    const size_t next = rows ? image_floats(l->in) : (size_t)inputs_of(l);
    struct job j = {
        l,
        {rows ? dx->x : l->scratch, n, next                },
        {dy.x,                      n, image_floats(l->out)}
    };
    if (rows) /* with zeros behind a row */
        memset(dx->x, 0, shape_floats(dx->shape) * sizeof(float));
    crew_run(l->crew, data_part, &j);
    if (!rows)
        conv_to_blocked(l->scratch, dx->x, n, l->in.c, l->in.h, l->in.w);
}

const struct layer_ops layer_dense = {
    .name = "dense",
    .whole = true,
    .reads = READS_X,
    .grads_written = grads_written,
    .parse = parse,
    .describe = describe,
    .init = init,
    .forward = forward,
    .backward = backward,
    .gradients = gradients,
    .factor_floats = factor_floats,
    .by_factors = by_factors,
};
