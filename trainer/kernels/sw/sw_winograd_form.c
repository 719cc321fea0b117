/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_winograd_form.h"

/* clang-format off */
const struct sw_form sw_forms[SW_FORMS] = {
    [SW_F2] = {
        .out = 2, .in = 4,
        .g = {4, 3, {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}}},
        .bt = {4, 4, {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0},
                      {0, 1, 0, -1}}},
        .at = {2, 4, {{1, 1, 1, 0}, {0, 1, -1, -1}}},
        .gt = {3, 4, {{1, 0.5, 0.5, 0}, {0, 0.5, -0.5, 0}, {0, 0.5, 0.5, 1}}},
        .a = {4, 2, {{1, 0}, {1, 1}, {1, -1}, {0, -1}}},
    },
    [SW_F4] = {
        .out = 4, .in = 6,
        .g = {6, 3, {{1.0 / 4, 0, 0},
                     {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                     {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                     {1.0 / 24, 1.0 / 12, 1.0 / 6},
                     {1.0 / 24, -1.0 / 12, 1.0 / 6},
                     {0, 0, 1}}},
        .bt = {6, 6, {{4, 0, -5, 0, 1, 0}, {0, -4, -4, 1, 1, 0},
                      {0, 4, -4, -1, 1, 0}, {0, -2, -1, 2, 1, 0},
                      {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}}},
        .at = {4, 6, {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0},
                      {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}}},
        .gt = {3, 6, {{1.0 / 4, -1.0 / 6, -1.0 / 6, 1.0 / 24, 1.0 / 24, 0},
                      {0, -1.0 / 6, 1.0 / 6, 1.0 / 12, -1.0 / 12, 0},
                      {0, -1.0 / 6, -1.0 / 6, 1.0 / 6, 1.0 / 6, 1}}},
        .a = {6, 4, {{1, 0, 0, 0}, {1, 1, 1, 1}, {1, -1, 1, -1},
                     {1, 2, 4, 8}, {1, -2, 4, -8}, {0, 0, 0, 1}}},
    },
};
/* clang-format on */

size_t sw_matrix_full(const struct sw_matrix *l)
{
    size_t full = 0;
    for (int i = 0; i < l->rows; i++)
        for (int j = 0; j < l->columns; j++)
            full += l->at[i][j] != 0;
    return full;
}

size_t sw_form_operations(const struct sw_matrix *l)
{
    return sw_matrix_full(l) * (size_t)(l->columns + l->rows);
}

/* l x lt of one number of each block. */
static void sandwich(const struct sw_matrix *l, double *x, int count)
{
    double half[SW_TILE_MOST][SW_TILE_MOST] = {{0}};
    for (int i = 0; i < l->rows; i++)
        for (int k = 0; k < l->columns; k++)
            for (int j = 0; l->at[i][k] != 0 && j < l->columns; j++)
                half[i][j] += l->at[i][k] * x[(k * l->columns + j) * count];
    for (int i = 0; i < l->rows; i++)
        for (int j = 0; j < l->rows; j++) {
            double sum = 0;
            for (int k = 0; k < l->columns; k++)
                sum += half[i][k] * l->at[j][k];
            x[(i * l->rows + j) * count] = sum;
        }
}

void sw_form_apply(const struct sw_matrix *l, double *blocks, int count)
{
    for (int i = 0; i < count; i++)
        sandwich(l, blocks + i, count);
}
