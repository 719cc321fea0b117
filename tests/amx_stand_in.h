/* SPDX-License-Identifier: MIT */
/* AMX's instructions in software, by Intel's description; what a processor
 * would refuse ends the program. */
#ifndef TESTS_AMX_STAND_IN_H
#define TESTS_AMX_STAND_IN_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AMX_TILES = 8, AMX_ROWS = 16, AMX_ROW_BYTES = 64 };

/* Reads and writes registers alone, of sizes that were checked; half a minute
 * with sanitizers otherwise. */
#define AMX_REGISTERS __attribute__((no_sanitize("address", "undefined")))

static _Thread_local struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} amx;
static _Thread_local uint8_t amx_tile[AMX_TILES][AMX_ROWS][AMX_ROW_BYTES];

static inline void amx_require(int holds, const char *what)
{
    if (holds)
        return;
    printf("Bail out! AMX: %s\n", what);
    exit(1);
}

static inline void _tile_loadconfig(const void *config)
{
    memcpy(&amx, config, sizeof(amx));
    amx_require(sizeof(amx) == 64 && amx.palette == 1 && !amx.start_row,
                "a bad palette");
    for (int i = 0; i < 14; i++)
        amx_require(!amx.reserved[i], "reserved bytes are set");
    for (int i = 0; i < 16; i++)
        amx_require(i < AMX_TILES ? amx.rows[i] <= AMX_ROWS
                                        && amx.row_bytes[i] <= AMX_ROW_BYTES
                                  : !amx.rows[i] && !amx.row_bytes[i],
                    "a tile of a bad size");
    memset(amx_tile, 0, sizeof(amx_tile));
}

static inline void _tile_release(void)
{
    memset(&amx, 0, sizeof(amx));
}

static inline void amx_require_tile(int i)
{
    amx_require(amx.palette && amx.rows[i] && amx.row_bytes[i],
                "a tile that is not configured");
}

static inline void _tile_zero(int to)
{
    amx_require_tile(to);
    memset(amx_tile[to], 0, sizeof(amx_tile[to]));
}

static inline void _tile_loadd(int to, const void *from, size_t stride)
{
    amx_require_tile(to);
    memset(amx_tile[to], 0, sizeof(amx_tile[to]));
    for (int r = 0; r < amx.rows[to]; r++)
        memcpy(amx_tile[to][r], (const char *)from + (size_t)r * stride,
               amx.row_bytes[to]);
}

static inline void _tile_stored(int from, void *to, size_t stride)
{
    amx_require_tile(from);
    for (int r = 0; r < amx.rows[from]; r++)
        memcpy((char *)to + (size_t)r * stride, amx_tile[from][r],
               amx.row_bytes[from]);
}

typedef float amx_floats __attribute__((vector_size(AMX_ROW_BYTES)));

/* The first or the second numbers of a row's pairs. */
AMX_REGISTERS static inline void amx_numbers(const uint8_t *row, int second,
                                             amx_floats *to)
{
    typedef uint32_t pairs __attribute__((vector_size(AMX_ROW_BYTES)));
    pairs p;
    memcpy(&p, row, sizeof(p));
    *to = (amx_floats)(second ? p & 0xffff0000 : p << 16);
}

AMX_REGISTERS static inline void _tile_dpbf16ps(int sum, int a, int b)
{
    amx_require_tile(sum);
    amx_require_tile(a);
    amx_require_tile(b);
    amx_require(sum != a && sum != b && a != b, "a tile that is used twice");
    amx_require(amx.rows[a] == amx.rows[sum]
                    && amx.row_bytes[a] == 4 * amx.rows[b]
                    && amx.row_bytes[b] == amx.row_bytes[sum],
                "tiles that do not fit each other");
    for (int m = 0; m < amx.rows[sum]; m++) {
        amx_floats sums;
        memcpy(&sums, amx_tile[sum][m], sizeof(sums));
        for (int second = 0; second < 2; second++) {
            amx_floats x, y;
            amx_numbers(amx_tile[a][m], second, &x);
            for (int k = 0; k < amx.rows[b]; k++) {
                amx_numbers(amx_tile[b][k], second, &y);
                sums += x[k] * y;
            }
        }
        memcpy(amx_tile[sum][m], &sums, amx.row_bytes[sum]);
    }
}

#endif
