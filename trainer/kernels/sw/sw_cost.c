/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_cost.h"

#include "kernels/sw/sw_gemm.h"
#include "kernels/sw/sw_matrices.h"

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

static double seconds_of_plan(const struct sw_geometry *g, struct sw_plan p,
                              struct sw_speed speed)
{
    const struct sw_counts c = of_plan(g, p);
    const struct sw_seconds s = sw_model(&c, speed);
    return p.buffers == 2 ? s.overlapped : s.one_by_one;
}

/* --- Winograd ----------------------------------------------------------- */

double sw_winograd_seconds(const struct sw_winograd_counts *c,
                           struct sw_speed speed)
{
    const struct sw_seconds s = sw_model(&c->all, speed);
    const double covered =
        (double)c->covered_bytes / speed.dma_bytes_per_second;
    const double busy = s.one_by_one - s.dma;
    return s.dma - covered + (busy > covered ? busy : covered);
}

static struct sw_winograd_counts winograd(const struct sw_conv *job)
{
    const struct sw_geometry g = sw_winograd_geometry(&job->conv, job->pass);
    struct sw_winograd_plan p = {.form = SW_F2};
    if (job->winograd)
        p = *job->winograd;
    else
        sw_winograd_best(&g, job->pass, &p);
    return sw_winograd_counts(&g, job->pass, p);
}

/* --- all ---------------------------------------------------------------- */

struct sw_counts sw_conv_expected(const struct sw_conv *job)
{
    const struct sw_geometry g = sw_geometry_of(&job->conv, job->pass);
    switch (sw_conv_way(job)) {
    case SW_IMPLICIT:
        return of_plan(&g, plan_of(job, &g));
    case SW_WINOGRAD:
        return winograd(job).all;
    default:
        return sw_matrices_counts(&job->conv, job->pass, sw_conv_images(job));
    }
}

double sw_conv_seconds(const struct sw_conv *job, struct sw_speed speed)
{
    const struct sw_geometry g = sw_geometry_of(&job->conv, job->pass);
    const enum sw_way way = sw_conv_way(job);
    if (way == SW_IMPLICIT)
        return seconds_of_plan(&g, plan_of(job, &g), speed);
    if (way == SW_WINOGRAD) {
        const struct sw_winograd_counts c = winograd(job);
        return sw_winograd_seconds(&c, speed);
    }
    const struct sw_counts c = sw_conv_expected(job);
    return sw_model(&c, speed).one_by_one;
}
