/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_concat.h"

#include "kernels/sw/sw_transform.h"

static size_t floats_of_all(const struct sw_part *part, int nparts)
{
    size_t sum = 0;
    for (int i = 0; i < nparts; i++)
        sum += (size_t)part[i].floats;
    return sum;
}

const char *sw_concat(struct sw_machine *m, int n, const struct sw_part *part,
                      int nparts, float *whole)
{
    const size_t all = floats_of_all(part, nparts);
    const char *error = NULL;
    for (int i = 0; i < nparts && !error; whole += part[i++].floats)
        error = sw_copy(m, &(struct sw_copy){
                               .from = part[i].x,
                               .to = whole,
                               .batches = 1,
                               .rows = n,
                               .columns = part[i].floats,
                               .from_row = (size_t)part[i].floats,
                               .to_row = all,
                           });
    return error;
}

const char *sw_split(struct sw_machine *m, int n, const float *whole,
                     const struct sw_part *part, int nparts)
{
    const size_t all = floats_of_all(part, nparts);
    const char *error = NULL;
    for (int i = 0; i < nparts && !error; whole += part[i++].floats)
        if (part[i].x)
            error = sw_copy(m, &(struct sw_copy){
                                   .from = whole,
                                   .to = part[i].x,
                                   .batches = 1,
                                   .rows = n,
                                   .columns = part[i].floats,
                                   .from_row = all,
                                   .to_row = (size_t)part[i].floats,
                               });
    return error;
}
