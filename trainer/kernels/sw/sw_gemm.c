/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_gemm.h"

#include <stdbool.h>
#include <string.h>

#include "kernels/sw/sw_numbers.h"

enum { TILE = 4 }; /* rows of c, and registers of each */

struct where {
    struct sw_cpe *cpe;
    bool sends_a, sends_w; /* in this step */
    const double *a, *w;
    double *c;
    int m, k;
};

static struct sw_vector load(const double *x)
{
    struct sw_vector v;
    memcpy(&v, x, sizeof(v));
    return v;
}

static struct sw_vector of_a(const struct where *at, const double *x)
{
    if (!at->sends_a)
        return sw_row_receive(at->cpe);
    const struct sw_vector v = load(x);
    sw_row_broadcast(at->cpe, v);
    return v;
}

static struct sw_vector of_w(const struct where *at, double x)
{
    if (!at->sends_w)
        return sw_column_receive(at->cpe);
    const struct sw_vector v = {
        {x, x, x, x}
    };
    sw_column_broadcast(at->cpe, v);
    return v;
}

static void multiply_add(struct sw_vector *sum, const struct sw_vector *w,
                         const struct sw_vector *a)
{
    for (int i = 0; i < SW_LANES; i++)
        sum->lane[i] += w->lane[i] * a->lane[i];
}

/* Rows n.. and columns m.. of c: so many rows, so many registers. */
static void tile(const struct where *at, int n, int m, int rows, int registers)
{
    struct sw_vector sum[TILE][TILE], a[TILE], w;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < registers; j++)
            sum[i][j] = load(&at->c[(n + i) * at->m + m + j * SW_LANES]);
    for (int k = 0; k < at->k; k++) {
        for (int j = 0; j < registers; j++)
            a[j] = of_a(at, &at->a[k * at->m + m + j * SW_LANES]);
        for (int i = 0; i < rows; i++) {
            w = of_w(at, at->sends_w ? at->w[(n + i) * at->k + k] : 0);
            for (int j = 0; j < registers; j++)
                multiply_add(&sum[i][j], &w, &a[j]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < registers; j++)
            memcpy(&at->c[(n + i) * at->m + m + j * SW_LANES], &sum[i][j],
                   sizeof(sum[i][j]));
}

void sw_mesh_gemm(struct sw_cpe *cpe, struct sw_block size, const double *a,
                  const double *w, double *c)
{
    struct where at = {cpe, false, false, a, w, c, size.m, size.k};
    for (int step = 0; step < SW_SIDE; step++) {
        at.sends_a = sw_column(cpe) == step;
        at.sends_w = sw_row(cpe) == step;
        for (int n = 0; n < size.n; n += TILE)
            for (int m = 0; m < size.m; m += TILE * SW_LANES)
                tile(&at, n, m, sw_least(TILE, size.n - n),
                     sw_least(TILE, (size.m - m) / SW_LANES));
    }
    sw_count(cpe, sw_mesh_gemm_instructions(size) / SW_CPES);
}

size_t sw_mesh_gemm_row_messages(struct sw_block b)
{
    return SW_CPES * (size_t)b.k * (size_t)(b.m / SW_LANES)
           * (size_t)sw_parts(b.n, TILE);
}

size_t sw_mesh_gemm_column_messages(struct sw_block b)
{
    return SW_CPES * (size_t)b.k * (size_t)b.n
           * (size_t)sw_parts(b.m, TILE * SW_LANES);
}

size_t sw_mesh_gemm_instructions(struct sw_block b)
{
    return (size_t)SW_CPES * SW_SIDE * (size_t)b.k * (size_t)b.n
           * (size_t)(b.m / SW_LANES);
}

/* --- float in memory, double in the LDM --------------------------------- */

void *sw_upper_half(double *x, int count)
{
    return (unsigned char *)x + (size_t)count * sizeof(float);
}

/* Number i is written below where number i + 1 is read. By memcpy, as the
 * compiler may take it that a float is not where a double is. */
void sw_widen(double *x, int count)
{
    const unsigned char *from = sw_upper_half(x, count);
    for (int i = 0; i < count; i++) {
        float narrow;
        memcpy(&narrow, from + (size_t)i * sizeof(narrow), sizeof(narrow));
        const double wide = (double)narrow;
        memcpy(&x[i], &wide, sizeof(wide));
    }
}

void sw_narrow(double *x, int count)
{
    unsigned char *to = (unsigned char *)x;
    for (int i = 0; i < count; i++) {
        double wide;
        memcpy(&wide, &x[i], sizeof(wide));
        const float narrow = (float)wide;
        memcpy(to + (size_t)i * sizeof(narrow), &narrow, sizeof(narrow));
    }
}
