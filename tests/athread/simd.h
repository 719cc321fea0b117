/* SPDX-License-Identifier: MIT */
/* Registers and their messages, which the CPEs' compiler has built in. To
 * place 0 to 7 of the row or column, or with bit 3 set to all others. */
#ifndef TESTS_ATHREAD_SIMD_H
#define TESTS_ATHREAD_SIMD_H

typedef struct {
    double lane[4];
} doublev4;

void simd_putr(doublev4, int column);
void simd_putc(doublev4, int row);
doublev4 simd_getr(doublev4);
doublev4 simd_getc(doublev4);

#endif
