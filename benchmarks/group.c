/* SPDX-License-Identifier: MIT */
#include "group.h"

#include "variants.h"

enum { TOGETHER, ALONE, NWAYS };

static void play(struct measure *m, int way, void *context)
{
    const int calls = *(const int *)context;
    if (way == TOGETHER)
        coll_group_start();
    for (int i = 0; i < calls; i++) {
        measure_use(m, i);
        job_check(m->job, measure_call(m, NULL));
    }
    if (way == TOGETHER)
        job_check(m->job, coll_group_end());
}

void group_run(struct measure *m, struct bench_result *result)
{
    int calls = (int)m->bench->options.group;
    const struct variants v = {NWAYS, calls, play, &calls};
    double p50[NWAYS];
    variants_run(m, &v, p50, result);
    result->group = (struct bench_group){p50[TOGETHER], p50[ALONE]};
}
