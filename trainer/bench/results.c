/* SPDX-License-Identifier: MIT */
#include "bench/results.h"

#include "kernels/conv_size.h"

double bench_flops(const struct bench_result *r)
{
    return r->p50 > 0 ? conv_flops(&r->of->conv) / r->p50 : 0;
}

double bench_percent(const struct bench_result *r)
{
    return r->peak > 0 ? 100 * bench_flops(r) / r->peak : 0;
}

bool bench_wrong(const struct bench_result *r)
{
    return !r->cannot && !(r->error <= r->bound);
}

int bench_wrongs(const struct bench *b)
{
    int count = 0;
    for (int i = 0; i < b->nresults; i++)
        count += bench_wrong(&b->results[i]);
    return count;
}

bool bench_leaves_out(const struct net_conv *c, enum conv_pass pass)
{
    return pass == CONV_BACKWARD_DATA && !c->data_gradient;
}

struct bench_sum bench_sum(const struct bench *b, enum conv_pass pass)
{
    struct bench_sum s = {0};
    double at_best = 0; /* seconds */
    for (int i = 0; i < b->nresults; i++) {
        const struct bench_result *r = &b->results[i];
        const int times = r->of->times;
        if (r->pass != pass)
            continue;
        if (r->cannot) {
            s.missing += times;
            continue;
        }
        s.convolutions += times;
        s.seconds += times * r->p50;
        s.flops += times * conv_flops(&r->of->conv);
        if (r->peak > 0)
            at_best += times * conv_flops(&r->of->conv) / r->peak;
    }
    s.percent = s.seconds > 0 ? 100 * at_best / s.seconds : 0;
    return s;
}
