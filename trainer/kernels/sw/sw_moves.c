/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_moves.h"

int sw_number(const struct sw_cpe *cpe)
{
    return sw_row(cpe) * SW_SIDE + sw_column(cpe);
}

struct sw_stretch sw_run(size_t floats)
{
    return (struct sw_stretch){floats * sizeof(float), floats * sizeof(float),
                               0};
}

struct sw_stretch sw_rows(size_t rows, size_t columns, size_t apart)
{
    return (struct sw_stretch){
        .bytes = rows * columns * sizeof(float),
        .block = columns * sizeof(float),
        .step = (apart - columns) * sizeof(float),
    };
}

void sw_bring_rows(struct sw_cpe *cpe, void *ldm, const float *memory,
                   struct sw_stretch s)
{
    struct sw_reply reply = {0};
    if (!s.bytes)
        return;
    sw_get(cpe, ldm, memory, s, &reply);
    sw_wait(cpe, &reply, 1);
}

void sw_take_rows(struct sw_cpe *cpe, const void *ldm, float *memory,
                  struct sw_stretch s)
{
    struct sw_reply reply = {0};
    if (!s.bytes)
        return;
    sw_put(cpe, ldm, memory, s, &reply);
    sw_wait(cpe, &reply, 1);
}

void sw_bring(struct sw_cpe *cpe, float *ldm, const float *memory,
              size_t floats)
{
    sw_bring_rows(cpe, ldm, memory, sw_run(floats));
}

void sw_take(struct sw_cpe *cpe, const float *ldm, float *memory, size_t floats)
{
    sw_take_rows(cpe, ldm, memory, sw_run(floats));
}
