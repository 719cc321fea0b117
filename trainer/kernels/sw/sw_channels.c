/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_channels.h"

#include "kernels/sw/sw_moves.h"

enum { PIECE = 4096 }; /* floats that a CPE has at a time */

/* --- sums on the mesh --------------------------------------------------- */

static void add(struct sw_vector *sum, struct sw_vector one)
{
    for (int i = 0; i < SW_LANES; i++)
        sum->lane[i] += one.lane[i];
}

/* Along rows to column 0, there along the column to row 0, and back. They go
 * from neighbour to neighbour, so that the order of adding is fixed. */
static struct sw_vector sum_at_all(struct sw_cpe *cpe, struct sw_vector own)
{
    const int row = sw_row(cpe), column = sw_column(cpe), last = SW_SIDE - 1;
    if (column < last)
        add(&own, sw_row_receive(cpe));
    if (column > 0) {
        sw_row_send(cpe, column - 1, own);
        return sw_row_receive(cpe);
    }
    if (row < last)
        add(&own, sw_column_receive(cpe));
    if (row > 0) {
        sw_column_send(cpe, row - 1, own);
        own = sw_column_receive(cpe);
    } else {
        sw_column_broadcast(cpe, own);
    }
    sw_row_broadcast(cpe, own);
    return own;
}

/* Nobody begins the next sum while a broadcast of this one is under way. */
struct sw_vector sw_sum_all(struct sw_cpe *cpe, struct sw_vector own)
{
    own = sum_at_all(cpe, own);
    sw_sync(cpe);
    return own;
}

/* --- pieces of a channel ------------------------------------------------ */

struct sw_bench sw_bench_of(struct sw_cpe *cpe, struct sw_channels shape)
{
    return (struct sw_bench){cpe, shape, sw_ldm(cpe, PIECE * sizeof(float)),
                             sw_ldm(cpe, PIECE * sizeof(float))};
}

bool sw_piece_next(const struct sw_bench *b, int channel, struct sw_piece *p)
{
    const int each = (b->shape.places + PIECE - 1) / PIECE;
    const int own = sw_number(b->cpe);
    p->turn = p->turn < 0 ? own : p->turn + SW_CPES;
    if (p->turn >= each * b->shape.n)
        return false;
    const int at = p->turn % each * PIECE, left = b->shape.places - at;
    p->first = ((size_t)(p->turn / each) * (size_t)b->shape.c + (size_t)channel)
                   * (size_t)b->shape.places
               + (size_t)at;
    p->count = left < PIECE ? left : PIECE;
    return true;
}

double sw_one(struct sw_bench *b, const float *from)
{
    sw_bring(b->cpe, b->x, from, 1);
    return (double)b->x[0];
}

void sw_put_one(struct sw_bench *b, double value, float *to)
{
    if (sw_number(b->cpe))
        return;
    b->x[0] = (float)value;
    sw_take(b->cpe, b->x, to, 1);
}
