/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_winograd_tiles.h"

#include <string.h>

#include "kernels/sw/sw_gemm.h"
#include "kernels/sw/sw_moves.h"
#include "kernels/sw/sw_numbers.h"

/* Floats of a tile's room, between transformation and before. */
static size_t room_of(const struct sw_tiles *t, const struct sw_matrix *l)
{
    const int side = sw_most(t->side, l->rows);
    return sw_times(side, side, t->count);
}

/* Place (i, j) of a tile, or zeros. */
static void bring_place(struct sw_cpe *cpe, const struct sw_tiles *t, int row,
                        int column, double *to)
{
    if (row < 0 || row >= t->h || column < 0 || column >= t->w) {
        memset(to, 0, sizeof(double) * (size_t)t->count);
        return;
    }
    sw_bring_rows(
        cpe, sw_upper_half(to, t->count),
        t->from + ((size_t)row * (size_t)t->w + (size_t)column) * t->place,
        t->stretch);
    sw_widen(to, t->count);
}

/* The last columns of the tile before are this one's first. */
static void bring_tile(struct sw_cpe *cpe, const struct sw_tiles *t, int tile,
                       double *to, const double *before)
{
    const int shared = before ? t->side - t->apart : 0;
    for (int i = 0; i < t->side; i++)
        for (int j = 0; j < t->side; j++) {
            const size_t at = sw_times(i * t->side + j, t->count, 1);
            const size_t moved = sw_times(t->apart, t->count, 1);
            if (j < shared)
                memcpy(to + at, before + at + moved,
                       sizeof(double) * (size_t)t->count);
            else
                bring_place(cpe, t, t->top + i, t->left + tile * t->apart + j,
                            to + at);
        }
}

void sw_tiles_bring(struct sw_cpe *cpe, const struct sw_tiles *t,
                    const struct sw_matrix *l, double *to, int tiles)
{
    const size_t room = room_of(t, l);
    for (int i = 0; i < tiles; i++) {
        double *tile = to + (size_t)i * room;
        bring_tile(cpe, t, i, tile, i ? tile - room : NULL);
    }
    for (int i = 0; i < tiles; i++)
        sw_form_apply(l, to + (size_t)i * room, t->count);
    sw_count(cpe, (size_t)tiles * (size_t)sw_parts(t->count, SW_LANES)
                      * sw_form_operations(l));
}
