/* SPDX-License-Identifier: MIT */
/* Tiles of a tensor whose places are blocks at a CPE: brought, and transformed
 * where they are. */
#ifndef TRAINER_KERNELS_SW_SW_WINOGRAD_TILES_H
#define TRAINER_KERNELS_SW_SW_WINOGRAD_TILES_H

#include "kernels/sw/sw_port.h"
#include "kernels/sw/sw_winograd_form.h"

struct sw_tiles {
    const float *from;         /* this CPE's block of the first place */
    size_t place;              /* floats from place to place */
    struct sw_stretch stretch; /* of a block */
    int count;                 /* numbers of a block */
    int h, w;                  /* rows and columns of places */
    int top, left;             /* of the first tile; outside are zeros */
    int side, apart;           /* places of a tile, and from one to the next */
};

/* So many tiles side by side, side x side blocks each, and then l x lt of each,
 * which may have more or fewer: there is room for the larger number. What two
 * tiles share comes once. */
void sw_tiles_bring(struct sw_cpe *, const struct sw_tiles *,
                    const struct sw_matrix *l, double *to, int tiles);

#endif
