/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_counts.h"

void sw_counts_add(struct sw_counts *sum, const struct sw_counts *one)
{
    sum->get_bytes += one->get_bytes;
    sum->put_bytes += one->put_bytes;
    sum->transfers += one->transfers;
    sum->blocks += one->blocks;
    sum->row_messages += one->row_messages;
    sum->column_messages += one->column_messages;
    sum->instructions += one->instructions;
    sum->covering += one->covering;
    sum->spawns += one->spawns;
    if (one->ldm_bytes > sum->ldm_bytes)
        sum->ldm_bytes = one->ldm_bytes;
}
