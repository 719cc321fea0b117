/* SPDX-License-Identifier: MIT */
/* Numbers of bf16, the upper halves of floats. */
#ifndef TRAINER_HALF_H
#define TRAINER_HALF_H

#include <stdbool.h>
#include <stdint.h>

/* x > 0: neither of the zeros, nor below, nor no number. */
static inline bool half_positive(uint16_t x)
{
    return (uint16_t)(x - 1) < 0x7f80;
}

#endif
