/* SPDX-License-Identifier: MIT */
/* Winograd's algorithm for windows of 3x3 (Lavin and Gray, CVPR 2016): a tile
 * of y, of out x out numbers, comes from one of x, of in x in, and the window:
 *
 *     y = At ((G w Gt) * (Bt x B)) A        * element by element
 *
 * and the gradient of the window from tiles of both, summed over all of them:
 *
 *     dw = Gt ((A dy At) * (Bt x B)) G
 */
#ifndef TRAINER_KERNELS_SW_SW_WINOGRAD_FORM_H
#define TRAINER_KERNELS_SW_SW_WINOGRAD_FORM_H

#include <stddef.h>

enum { SW_WINDOW = 3, SW_TILE_MOST = 6 };

struct sw_matrix {
    int rows, columns;
    double at[SW_TILE_MOST][SW_TILE_MOST];
};

enum sw_form_name { SW_F2, SW_F4, SW_FORMS }; /* F(2x2,3x3), F(4x4,3x3) */

struct sw_form {
    int out, in;
    struct sw_matrix g, bt, at; /* of a pass forward */
    struct sw_matrix gt, a;     /* of the gradient */
};
extern const struct sw_form sw_forms[SW_FORMS];

/* Of `count` numbers side by side, and so many blocks of them: each number of
 * the blocks, a square of l.columns, becomes one of l.rows, l x lt. In place,
 * from the first blocks to the first blocks. */
void sw_form_apply(const struct sw_matrix *l, double *blocks, int count);

/* Multiplications and additions for a number of each block: one for each
 * coefficient that is not 0. */
size_t sw_form_operations(const struct sw_matrix *l);

/* Coefficients that are not 0. */
size_t sw_matrix_full(const struct sw_matrix *);

#endif
