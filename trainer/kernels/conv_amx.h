/* SPDX-License-Identifier: MIT */
/* Tiles of bf16 for x86-64 processors with AMX; see conv_amx.c. */
#ifndef TRAINER_KERNELS_CONV_AMX_H
#define TRAINER_KERNELS_CONV_AMX_H

#include "kernels/conv_peak.h"
#include "kernels/conv_tile.h"

/* Not to be run where there is none. */
extern const struct conv_wide conv_wide_amx;

extern const struct conv_peak conv_peak_amx;

#endif
