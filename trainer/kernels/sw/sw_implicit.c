/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_implicit.h"

#include <string.h>

#include "kernels/sw/sw_gemm.h"
#include "kernels/sw/sw_kernels.h"

/* What a CPE has at hand. */
struct bench {
    struct sw_cpe *cpe;
    const struct sw_implicit *job;
    struct sw_geometry g;
    int row, column;
    int first_image, images; /* of the block, of all CPEs */
    int start, end;          /* columns of the block */
    struct sw_block size;
    int in_count, weight_count, out_count; /* numbers of a block */
    double *in, *weights, *out;
};

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

/* Blocks of floats that are `apart` in memory. */
static struct sw_stretch stretch(int blocks, int block, int apart)
{
    return (struct sw_stretch){
        .bytes = sizeof(float) * (size_t)blocks * (size_t)block,
        .block = sizeof(float) * (size_t)block,
        .step = sizeof(float) * (size_t)(apart - block),
    };
}

static void get(struct bench *b, double *to, int count, const float *from,
                struct sw_stretch s)
{
    struct sw_reply reply = {0};
    sw_get(b->cpe, sw_upper_half(to, count), from, s, &reply);
    sw_wait(b->cpe, &reply, 1);
    sw_widen(to, count);
}

/* A column of the input at a row. */
static void get_input(struct bench *b, double *to, int row, int column)
{
    const struct sw_geometry *g = &b->g;
    const size_t channel =
        ((size_t)row * (size_t)g->in_w + (size_t)column) * (size_t)g->ni
        + (size_t)(b->column * b->size.k);
    get(b, to, b->in_count,
        b->job->in + channel * (size_t)g->b
            + (size_t)(b->first_image + b->row * b->size.m),
        stretch(b->size.k, b->size.m, g->b));
}

static void get_weights(struct bench *b, double *to, int i, int j)
{
    const struct sw_geometry *g = &b->g;
    const size_t output =
        ((size_t)i * (size_t)g->kernel_w + (size_t)j) * (size_t)g->no
        + (size_t)(b->column * b->size.n);
    get(b, to, b->weight_count,
        b->job->weights + output * (size_t)g->ni + (size_t)(b->row * b->size.k),
        stretch(b->size.n, b->size.k, g->ni));
}

static double *out_column(struct bench *b, int column)
{
    return b->out + (size_t)(column - b->start) * (size_t)b->out_count;
}

static void put_output(struct bench *b, int row)
{
    const struct sw_geometry *g = &b->g;
    struct sw_reply reply = {0};
    for (int column = b->start; column < b->end; column++) {
        double *from = out_column(b, column);
        const size_t channel =
            ((size_t)row * (size_t)g->out_w + (size_t)column) * (size_t)g->no
            + (size_t)(b->column * b->size.n);
        sw_narrow(from, b->out_count);
        sw_put(b->cpe, from,
               b->job->out + channel * (size_t)g->b
                   + (size_t)(b->first_image + b->row * b->size.m),
               stretch(b->size.n, b->size.m, g->b), &reply);
        sw_wait(b->cpe, &reply, column - b->start + 1);
    }
}

/* Columns of the input that the block sees. */
static int first_seen(const struct bench *b)
{
    return most(0, b->start - b->g.pad_w);
}

static int end_seen(const struct bench *b)
{
    return least(b->g.in_w, b->end + b->g.kernel_w - 1 - b->g.pad_w);
}

/* One row of taps: a column of the input at a time, for all taps. */
static void batch_aware(struct bench *b, int row, int i)
{
    const struct sw_geometry *g = &b->g;
    const bool outward = b->job->plan.loops == SW_BATCH_AWARE_OUTWARD;
    for (int j = 0; outward && j < g->kernel_w; j++)
        get_weights(b, b->weights + j * b->weight_count, i, j);
    for (int x = first_seen(b); x < end_seen(b); x++) {
        get_input(b, b->in, row, x);
        for (int j = 0; j < g->kernel_w; j++) {
            const int column = x + g->pad_w - j;
            if (column < b->start || column >= b->end)
                continue;
            if (!outward)
                get_weights(b, b->weights, i, j);
            sw_mesh_gemm(b->cpe, b->size, b->in,
                         b->weights + (outward ? j * b->weight_count : 0),
                         out_column(b, column));
        }
    }
}

/* One row of taps: a tap at a time, for all columns. */
static void image_aware(struct bench *b, int row, int i)
{
    const struct sw_geometry *g = &b->g;
    const bool outward = b->job->plan.loops == SW_IMAGE_AWARE_OUTWARD;
    const int from = first_seen(b);
    for (int x = from; outward && x < end_seen(b); x++)
        get_input(b, b->in + (x - from) * b->in_count, row, x);
    for (int j = 0; j < g->kernel_w; j++) {
        get_weights(b, b->weights, i, j);
        for (int column = b->start; column < b->end; column++) {
            const int x = column + j - g->pad_w;
            if (x < 0 || x >= g->in_w)
                continue;
            if (!outward)
                get_input(b, b->in, row, x);
            sw_mesh_gemm(b->cpe, b->size,
                         b->in + (outward ? (x - from) * b->in_count : 0),
                         b->weights, out_column(b, column));
        }
    }
}

/* A row of the block: a sum over rows of taps, and then it is put. */
static void out_row(struct bench *b, int y)
{
    const struct sw_geometry *g = &b->g;
    const bool batch = b->job->plan.loops <= SW_BATCH_AWARE_OUTWARD;
    memset(b->out, 0,
           sizeof(double) * (size_t)(b->end - b->start) * (size_t)b->out_count);
    for (int i = 0; i < g->kernel_h; i++) {
        const int row = y + i - g->pad_h;
        if (row < 0 || row >= g->in_h)
            continue;
        if (batch)
            batch_aware(b, row, i);
        else
            image_aware(b, row, i);
    }
    put_output(b, y);
}

static void take_ldm(struct bench *b)
{
    const struct sw_plan *p = &b->job->plan;
    const int weights = p->loops == SW_BATCH_AWARE_OUTWARD ? b->g.kernel_w : 1;
    const int columns =
        p->loops == SW_IMAGE_AWARE_OUTWARD ? p->columns + b->g.kernel_w - 1 : 1;
    b->in = sw_ldm(b->cpe, sizeof(double) * (size_t)(columns * b->in_count));
    b->weights =
        sw_ldm(b->cpe, sizeof(double) * (size_t)(weights * b->weight_count));
    b->out =
        sw_ldm(b->cpe, sizeof(double) * (size_t)(p->columns * b->out_count));
}

void sw_implicit_all(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_implicit *job = argument;
    const struct sw_plan *p = &job->plan;
    struct bench b = {
        .cpe = cpe,
        .job = job,
        .g = job->geometry,
        .row = sw_row(cpe),
        .column = sw_column(cpe),
        .images = p->images,
        .size = {p->images / SW_SIDE, job->geometry.no / SW_SIDE,
                 job->geometry.ni / SW_SIDE},
    };
    b.in_count = b.size.k * b.size.m;
    b.weight_count = b.size.n * b.size.k;
    b.out_count = b.size.n * b.size.m;
    take_ldm(&b);
    for (; b.first_image < b.g.b; b.first_image += p->images)
        for (b.start = 0; b.start < b.g.out_w; b.start = b.end) {
            b.end = least(b.g.out_w, b.start + p->columns);
            for (int y = 0; y < b.g.out_h; y++)
                out_row(&b, y);
        }
}

const char *sw_implicit(struct sw_machine *m, const struct sw_implicit *job)
{
    return sw_spawn(m, sw_implicit_all, job, sizeof(*job));
}
