/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_work.h"

float *sw_work_floats(struct sw_work *w, size_t count)
{
    float *at = w->scratch ? w->scratch + w->used : NULL;
    w->used += count;
    return at;
}

void sw_work_settle(struct sw_work *w, struct sw_counts *sum, const char *error)
{
    const struct sw_counts one = sw_machine_counts(w->machine);
    sw_counts_add(sum, &one);
    sw_machine_clear(w->machine);
    if (!w->error)
        w->error = error;
}

void sw_work_transpose(struct sw_work *w, struct sw_transpose t)
{
    sw_work_settle(w, &w->counts.transforms, sw_transpose(w->machine, &t));
}

void sw_work_copy(struct sw_work *w, struct sw_copy c)
{
    sw_work_settle(w, &w->counts.transforms, sw_copy(w->machine, &c));
}
