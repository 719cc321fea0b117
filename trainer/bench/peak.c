/* SPDX-License-Identifier: MIT */
#include "bench/peak.h"

#include <stddef.h>
#include <string.h>

#include "clock.h"
#include "kernels/conv_amx.h"

static const struct conv_peak *const all[][2] = {
#define ISA(name) {&conv_peak_##name, &conv_peak_bf16_##name},
#include "kernels/isas.def"
#undef ISA
#if defined(__x86_64__)
    {&conv_peak_amx, &conv_peak_amx},
#endif
};
enum { NISAS = sizeof(all) / sizeof(all[0]) };

struct trial {
    const struct conv_peak *peak;
    long rounds;
};

static void run_part(void *context, int part, int n)
{
    const struct trial *t = context;
    float x[CONV_PEAK_FLOATS];
    (void)part;
    (void)n;
    for (int i = 0; i < CONV_PEAK_FLOATS; i++)
        x[i] = 1 + (float)i / CONV_PEAK_FLOATS;
    t->peak->run(t->rounds, 0.5F, 0.5F, x);
}

/* One trial lasts about a millisecond: some of a hundred are not interrupted,
 * and the last ones find a clock that has risen. A trial that waited for a
 * processor looks long enough, so one is not enough. */
static double measure(const struct conv_peak *p, double most_seconds,
                      struct crew *crew)
{
    enum { LEAST = 10 };
    struct trial t = {p, 1000};
    int done = 0;
    double best = 0;
    const double begun = clock_now();
    for (double now = begun; now < begun + most_seconds || done < LEAST;) {
        crew_run(crew, run_part, &t);
        const double end = clock_now(), seconds = end - now;
        const double rate =
            crew_size(crew) * (double)t.rounds * p->flops / seconds;
        best = rate > best ? rate : best;
        if (seconds < 0.5e-3)
            t.rounds *= 2;
        else
            done++;
        now = end;
    }
    return best;
}

double peak_flops(const char *isa, bool bf16, const struct bench_options *o,
                  struct crew *crew)
{
    static double known[NISAS][2];
    for (int i = 0; i < NISAS; i++) {
        if (strcmp(all[i][bf16]->name, isa))
            continue;
        if (known[i][bf16] <= 0)
            known[i][bf16] =
                measure(all[i][bf16], o->seconds < 0.1 ? o->seconds : 0.1,
                        crew);
        return known[i][bf16];
    }
    return 0;
}

double peak_of_dtype(const struct bench_options *o, struct crew *crew)
{
    return peak_flops(o->bf16 ? conv_bf16_isa() : o->isa, o->bf16, o,
                      crew);
}
