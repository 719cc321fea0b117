/* SPDX-License-Identifier: MIT */
/* Rows of weights to columns, for one instruction set: CONV_ISA, with
 * CONV_LANES floats in a register. */
#include "kernels/conv_tile.h"
#include "kernels/turn.h"

static void turn(const float *const from[CONV_BLOCK],
                 float *const to[CONV_BLOCK], bool add)
{
    for (int i = 0; i < CONV_BLOCK; i += SIDE)
        for (int j = 0; j < CONV_BLOCK; j += SIDE) {
            side r[SIDE];
            for (int k = 0; k < SIDE; k++)
                r[k] = *(const loose *)(from[i + k] + j);
            turn_square(r);
            for (int k = 0; k < SIDE; k++)
                if (to[j + k]) {
                    loose *at = (loose *)(to[j + k] + i);
                    *at = add ? (side)*at + r[k] : r[k];
                }
        }
}

const struct conv_turn NAME(conv_turn_, CONV_ISA) = {turn};
