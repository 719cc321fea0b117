/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_cost.h"

#include "kernels/sw/sw_gemm.h"
#include "kernels/sw/sw_numbers.h"
#include "kernels/sw/sw_product.h"

/* 64 CPEs, 4 lanes, multiply and add: 742.4 GFLOPS at 1.45 GHz. */
const struct sw_speed sw_speed_low = {1.45e9, 16.8e9};
const struct sw_speed sw_speed_high = {1.45e9, 23.5e9};

struct sw_seconds sw_model(const struct sw_counts *c, struct sw_speed speed)
{
    /* Every CPE of a row or column issues something for a broadcast. */
    const double issues =
        (double)SW_SIDE * (double)(c->row_messages + c->column_messages);
    const double per_second = speed.hertz * SW_CPES;
    struct sw_seconds s = {
        .arithmetic = (double)c->instructions / per_second,
        .messages = issues / per_second,
        .dma =
            (double)(c->get_bytes + c->put_bytes) / speed.dma_bytes_per_second,
    };
    const double busy = s.messages > s.arithmetic ? s.messages : s.arithmetic;
    s.one_by_one = s.dma + busy;
    s.overlapped = s.dma > busy ? s.dma : busy;
    return s;
}

/* --- implicit ----------------------------------------------------------- */

static struct sw_counts of_plan(const struct sw_geometry *g, struct sw_plan p)
{
    const struct sw_traffic t = sw_plan_traffic(g, p);
    const struct sw_block b = {p.images / SW_SIDE, g->no / SW_SIDE,
                               g->ni / SW_SIDE};
    return (struct sw_counts){
        .get_bytes = t.in_bytes + t.weight_bytes,
        .put_bytes = t.out_bytes,
        .row_messages = t.products * sw_mesh_gemm_row_messages(b),
        .column_messages = t.products * sw_mesh_gemm_column_messages(b),
        .instructions = t.products * sw_mesh_gemm_instructions(b),
    };
}

static struct sw_plan plan_of(const struct sw_conv *job,
                              const struct sw_geometry *g)
{
    const int kb = job->pass == CONV_FORWARD ? SW_FORWARD_KB : SW_BACKWARD_KB;
    struct sw_plan p = {.buffers = 1};
    if (job->plan)
        p = *job->plan;
    else
        sw_plan_best(g, kb, &p);
    return p;
}

static struct sw_counts implicit(const struct sw_conv *job)
{
    const struct sw_geometry g = sw_geometry_of(&job->conv, job->pass);
    return of_plan(&g, plan_of(job, &g));
}

/* --- explicit ----------------------------------------------------------- */

/* The product of one image and group. */
static struct sw_product product_of(const struct conv *c, enum conv_pass pass)
{
    const int m = sw_full(c->k / c->groups, SW_SIDE);
    const int k = sw_full(c->c / c->groups * c->kernel_h * c->kernel_w,
                          SW_SIDE * SW_LANES);
    const int p = sw_full(c->out_h * c->out_w, 128);
    struct sw_product product = {.n = m, .k = k, .m = p};
    if (pass == CONV_BACKWARD_DATA)
        product = (struct sw_product){.n = k, .k = m, .m = p};
    if (pass == CONV_BACKWARD_WEIGHTS)
        product = (struct sw_product){.n = m, .k = p, .m = k};
    return product;
}

/* Rows of windows that see a row of the image, for all taps of a column. */
static size_t row_pairs(const struct conv *c)
{
    size_t sum = 0;
    for (int i = 0; i < c->kernel_h; i++)
        for (int r = 0; r < c->out_h; r++) {
            const int row = r * c->stride_h - c->pad_h + i * c->dilation_h;
            sum += row >= 0 && row < c->h;
        }
    return sum;
}

/* The column matrix made, or added up: bytes of a group's image. */
static struct sw_counts of_column(const struct conv *c, enum conv_pass pass)
{
    const size_t channels = (size_t)(c->c / c->groups);
    const size_t image = sizeof(float) * channels * (size_t)c->h * (size_t)c->w;
    const size_t row =
        sizeof(float) * channels * (size_t)c->kernel_w * (size_t)c->out_w;
    if (pass == CONV_BACKWARD_DATA)
        return (struct sw_counts){.get_bytes = row * row_pairs(c),
                                  .put_bytes = image};
    return (struct sw_counts){.get_bytes = image,
                              .put_bytes =
                                  row * (size_t)c->kernel_h * (size_t)c->out_h};
}

static struct sw_counts explicitly(const struct sw_conv *job)
{
    const struct conv *c = &job->conv;
    struct sw_product p = product_of(c, job->pass);
    const struct sw_counts column = of_column(c, job->pass);
    const size_t images = (size_t)c->n, all = images * (size_t)c->groups;
    size_t gets = images * sw_product_get_bytes(&p);
    if (job->pass == CONV_BACKWARD_WEIGHTS && images) {
        p.adds = true; /* but for the first image */
        gets += (images - 1) * (sw_product_get_bytes(&p) - gets / images);
    }
    return (struct sw_counts){
        .get_bytes = all * column.get_bytes + gets * (size_t)c->groups,
        .put_bytes = all * (column.put_bytes + sw_product_put_bytes(&p)),
        .row_messages = all * sw_product_row_messages(&p),
        .column_messages = all * sw_product_column_messages(&p),
        .instructions =
            all * (size_t)p.n * (size_t)p.k * (size_t)p.m / SW_LANES,
    };
}

struct sw_counts sw_conv_expected(const struct sw_conv *job)
{
    return sw_conv_is_implicit(job) ? implicit(job) : explicitly(job);
}

double sw_conv_seconds(const struct sw_conv *job, struct sw_speed speed)
{
    const struct sw_counts c = sw_conv_expected(job);
    const struct sw_seconds s = sw_model(&c, speed);
    const struct sw_geometry g = sw_geometry_of(&job->conv, job->pass);
    return sw_conv_is_implicit(job) && plan_of(job, &g).buffers == 2
               ? s.overlapped
               : s.one_by_one;
}
