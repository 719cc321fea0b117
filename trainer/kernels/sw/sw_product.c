/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_product.h"

#include <string.h>

#include "kernels/sw/sw_gemm.h"
#include "kernels/sw/sw_kernels.h"
#include "kernels/sw/sw_moves.h"
#include "kernels/sw/sw_numbers.h"

/* Of the blocks that the mesh holds: 8 + 16 + 16 KB at each CPE. */
enum { BLOCK_N = 256, BLOCK_K = 256, BLOCK_M = 512 };

/* A part of a matrix, and the part of that which a CPE has. */
struct part {
    size_t offset; /* floats */
    int rows, columns;
    int apart; /* floats from row to row, in memory */
};

static struct part part_of(int row, int column, int rows, int columns,
                           int apart, int i, int j)
{
    const int r = rows / SW_SIDE, c = columns / SW_SIDE;
    return (struct part){(size_t)(row + i * r) * (size_t)apart
                             + (size_t)(column + j * c),
                         r, c, apart};
}

static struct sw_stretch stretch(struct part p)
{
    return sw_rows((size_t)p.rows, (size_t)p.columns, (size_t)p.apart);
}

static void get(struct sw_cpe *cpe, double *to, const float *from,
                struct part p)
{
    const int count = p.rows * p.columns;
    sw_bring_rows(cpe, sw_upper_half(to, count), from + p.offset, stretch(p));
    sw_widen(to, count);
}

static void put(struct sw_cpe *cpe, double *from, float *to, struct part p)
{
    sw_narrow(from, p.rows * p.columns);
    sw_take_rows(cpe, from, to + p.offset, stretch(p));
}

struct bench {
    struct sw_cpe *cpe;
    const struct sw_product *p;
    double *w, *a, *c;
};

/* The block of c at row n and column m. */
static void block(struct bench *b, int n, int m)
{
    const struct sw_product *p = b->p;
    const int row = sw_row(b->cpe), column = sw_column(b->cpe);
    const int bn = sw_least(BLOCK_N, p->n - n),
              bm = sw_least(BLOCK_M, p->m - m);
    const struct part c = part_of(n, m, bn, bm, p->m, column, row);
    if (p->adds)
        get(b->cpe, b->c, p->c, c);
    else
        memset(b->c, 0, sizeof(double) * (size_t)(c.rows * c.columns));
    for (int k = 0; k < p->k; k += BLOCK_K) {
        const int bk = sw_least(BLOCK_K, p->k - k);
        get(b->cpe, b->w, p->w, part_of(n, k, bn, bk, p->k, column, row));
        get(b->cpe, b->a, p->a, part_of(k, m, bk, bm, p->m, column, row));
        sw_mesh_gemm(
            b->cpe, (struct sw_block){bm / SW_SIDE, bn / SW_SIDE, bk / SW_SIDE},
            b->a, b->w, b->c);
    }
    put(b->cpe, b->c, p->c, c);
}

void sw_product_all(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_product *p = argument;
    struct bench b = {
        .cpe = cpe,
        .p = p,
        .w = sw_ldm(cpe, sizeof(double) * BLOCK_N * BLOCK_K / SW_CPES),
        .a = sw_ldm(cpe, sizeof(double) * BLOCK_K * BLOCK_M / SW_CPES),
        .c = sw_ldm(cpe, sizeof(double) * BLOCK_N * BLOCK_M / SW_CPES),
    };
    for (int n = 0; n < p->n; n += BLOCK_N)
        for (int m = 0; m < p->m; m += BLOCK_M)
            block(&b, n, m);
}

const char *sw_product(struct sw_machine *m, const struct sw_product *p)
{
    return sw_spawn(m, sw_product_all, p, sizeof(*p));
}

static size_t bytes(int rows, int columns, int times)
{
    return sizeof(float) * sw_times(rows, columns, times);
}

size_t sw_product_get_bytes(const struct sw_product *p)
{
    return bytes(p->n, p->k, sw_parts(p->m, BLOCK_M))
           + bytes(p->k, p->m, sw_parts(p->n, BLOCK_N))
           + (p->adds ? bytes(p->n, p->m, 1) : 0);
}

size_t sw_product_put_bytes(const struct sw_product *p)
{
    return bytes(p->n, p->m, 1);
}

/* Summed over the blocks, of which those at the edges are smaller. */
static size_t messages(const struct sw_product *p,
                       size_t (*of)(struct sw_block))
{
    size_t sum = 0;
    for (int n = 0; n < p->n; n += BLOCK_N)
        for (int m = 0; m < p->m; m += BLOCK_M)
            for (int k = 0; k < p->k; k += BLOCK_K)
                sum += of(
                    (struct sw_block){sw_least(BLOCK_M, p->m - m) / SW_SIDE,
                                      sw_least(BLOCK_N, p->n - n) / SW_SIDE,
                                      sw_least(BLOCK_K, p->k - k) / SW_SIDE});
    return sum;
}

size_t sw_product_row_messages(const struct sw_product *p)
{
    return messages(p, sw_mesh_gemm_row_messages);
}

size_t sw_product_column_messages(const struct sw_product *p)
{
    return messages(p, sw_mesh_gemm_column_messages);
}
