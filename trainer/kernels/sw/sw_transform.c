/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_transform.h"

#include "kernels/sw/sw_kernels.h"
#include "kernels/sw/sw_moves.h"
#include "kernels/sw/sw_numbers.h"

enum { TILE = 64, ROW_PIECE = 8192 }; /* floats: 32 KB of the LDM each */

static size_t floats(int a, int b)
{
    return sizeof(float) * (size_t)a * (size_t)b;
}

struct tile {
    int batch, row, column, rows, columns;
};

/* Tiles are dealt to CPEs like cards. */
static struct tile tile_of(const struct sw_transpose *t, int i)
{
    const int down = sw_parts(t->rows, TILE);
    const int across = sw_parts(t->columns, TILE);
    struct tile tile = {
        .batch = i / across / down,
        .row = i / across % down * TILE,
        .column = i % across * TILE,
    };
    tile.rows = sw_least(TILE, t->rows - tile.row);
    tile.columns = sw_least(TILE, t->columns - tile.column);
    return tile;
}

static int tiles(const struct sw_transpose *t)
{
    return t->batches * (sw_parts(t->rows, TILE))
           * (sw_parts(t->columns, TILE));
}

static void turn(const float *from, float *to, struct tile tile, bool reversed)
{
    for (int row = 0; row < tile.rows; row++)
        for (int column = 0; column < tile.columns; column++) {
            const int at = reversed ? tile.columns - 1 - column : column;
            to[at * tile.rows + row] = from[row * tile.columns + column];
        }
}

static void transpose_tile(struct sw_cpe *cpe, const struct sw_transpose *t,
                           struct tile tile, float *from, float *to)
{
    const size_t rows = (size_t)tile.rows, columns = (size_t)tile.columns;
    const int first =
        t->reversed ? t->columns - tile.column - tile.columns : tile.column;
    sw_bring_rows(cpe, from,
                  t->from + (size_t)tile.batch * t->from_batch
                      + (size_t)tile.row * t->from_row + (size_t)tile.column,
                  sw_rows(rows, columns, t->from_row));
    turn(from, to, tile, t->reversed);
    sw_take_rows(cpe, to,
                 t->to + (size_t)tile.batch * t->to_batch
                     + (size_t)first * t->to_row + (size_t)tile.row,
                 sw_rows(columns, rows, t->to_row));
}

void sw_transform_transpose(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_transpose *t = argument;
    float *from = sw_ldm(cpe, floats(TILE, TILE));
    float *to = sw_ldm(cpe, floats(TILE, TILE));
    for (int i = sw_number(cpe); i < tiles(t); i += SW_CPES)
        transpose_tile(cpe, t, tile_of(t, i), from, to);
}

const char *sw_transpose(struct sw_machine *m, const struct sw_transpose *t)
{
    return sw_spawn(m, sw_transform_transpose, t, sizeof(*t));
}

/* Of a row: so short that every CPE has some, but no less than 1 KB. */
static int piece_of(const struct sw_copy *c, int rows)
{
    enum { LEAST = 256 };
    const int each = sw_parts(c->columns, sw_parts(SW_CPES, rows));
    return sw_most(LEAST, sw_least(ROW_PIECE, each));
}

void sw_transform_copy(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_copy *c = argument;
    const int rows = c->batches * c->rows;
    const int length = rows ? piece_of(c, rows) : 1;
    const int pieces = sw_parts(c->columns, length);
    float *piece = sw_ldm(cpe, floats(1, ROW_PIECE));
    for (int i = sw_number(cpe); i < rows * pieces; i += SW_CPES) {
        const size_t batch = (size_t)(i / pieces / c->rows);
        const size_t row = (size_t)(i / pieces % c->rows);
        const int at = i % pieces * length;
        const size_t count = (size_t)sw_least(length, c->columns - at);
        sw_bring(cpe, piece,
                 c->from + batch * c->from_batch + row * c->from_row + at,
                 count);
        sw_take(cpe, piece, c->to + batch * c->to_batch + row * c->to_row + at,
                count);
    }
}

const char *sw_copy(struct sw_machine *m, const struct sw_copy *c)
{
    return sw_spawn(m, sw_transform_copy, c, sizeof(*c));
}

/* --- the layouts -------------------------------------------------------- */

struct sw_transpose sw_images_to_tile(const float *from, float *to, int n,
                                      int c, int places)
{
    return (struct sw_transpose){from,
                                 to,
                                 c,
                                 n,
                                 places,
                                 (size_t)places,
                                 (size_t)places * (size_t)c,
                                 (size_t)n,
                                 (size_t)n * (size_t)c,
                                 false};
}

struct sw_transpose sw_images_from_tile(const float *from, float *to, int n,
                                        int c, int places)
{
    return (struct sw_transpose){from,
                                 to,
                                 c,
                                 places,
                                 n,
                                 (size_t)n,
                                 (size_t)n * (size_t)c,
                                 (size_t)places,
                                 (size_t)places * (size_t)c,
                                 false};
}

struct sw_transpose sw_images_to_tile_backward(const float *from, float *to,
                                               int n, int c, int places)
{
    return (struct sw_transpose){from,
                                 to,
                                 n,
                                 c,
                                 places,
                                 (size_t)places * (size_t)c,
                                 (size_t)places,
                                 (size_t)c,
                                 (size_t)n * (size_t)c,
                                 false};
}

struct sw_transpose sw_weights_to_tile(const float *from, float *to, int no,
                                       int ni, int taps)
{
    return (struct sw_transpose){
        from, to, 1, no * ni, taps, 0, (size_t)taps, 0, (size_t)no * (size_t)ni,
        false};
}

struct sw_transpose sw_weights_from_tile(const float *from, float *to, int no,
                                         int ni, int taps)
{
    return (struct sw_transpose){
        from, to,           1,    taps, no * ni, 0, (size_t)no * (size_t)ni,
        0,    (size_t)taps, false};
}

struct sw_transpose sw_weights_to_tile_backward(const float *from, float *to,
                                                int no, int ni, int taps)
{
    return (struct sw_transpose){from,
                                 to,
                                 ni,
                                 no,
                                 taps,
                                 (size_t)taps,
                                 (size_t)taps * (size_t)ni,
                                 (size_t)no,
                                 (size_t)no * (size_t)ni,
                                 true};
}
