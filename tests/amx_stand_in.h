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

static struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} amx;
static uint8_t amx_tile[AMX_TILES][AMX_ROWS][AMX_ROW_BYTES];

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

/* The upper half of a float, of a pair the first or the second. */
static inline float amx_number(int tile, int row, int pair, int second)
{
    uint32_t bits;
    float x;
    memcpy(&bits, amx_tile[tile][row] + 4 * pair, sizeof(bits));
    bits = second ? bits & 0xffff0000 : bits << 16;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline void _tile_dpbf16ps(int sum, int a, int b)
{
    amx_require_tile(sum);
    amx_require_tile(a);
    amx_require_tile(b);
    amx_require(sum != a && sum != b && a != b, "a tile that is used twice");
    amx_require(amx.rows[a] == amx.rows[sum]
                    && amx.row_bytes[a] == 4 * amx.rows[b]
                    && amx.row_bytes[b] == amx.row_bytes[sum],
                "tiles that do not fit each other");
    for (int m = 0; m < amx.rows[sum]; m++)
        for (int n = 0; n < amx.row_bytes[sum] / 4; n++) {
            float x;
            memcpy(&x, amx_tile[sum][m] + 4 * n, sizeof(x));
            for (int k = 0; k < amx.rows[b]; k++)
                for (int i = 0; i < 2; i++)
                    x += amx_number(a, m, k, i) * amx_number(b, k, n, i);
            memcpy(amx_tile[sum][m] + 4 * n, &x, sizeof(x));
        }
}

#endif
