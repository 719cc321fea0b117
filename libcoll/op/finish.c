/* SPDX-License-Identifier: MIT */
/* The last act of an average: division by the number of ranks. */
#include <stdint.h>

#include "op/convert.h"
#include "op/op.h"

enum { BLOCK = 256 };

/* In type W, in which both x and nranks are exact. */
#define DIVIDE(name, T, W)                                                     \
    static void divide_##name(T *x, size_t n, int nranks)                      \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            x[i] = (T)((W)x[i] / (W)nranks);                                   \
    }

DIVIDE(i8, int8_t, int)
DIVIDE(u8, uint8_t, unsigned)
DIVIDE(i16, int16_t, int)
DIVIDE(u16, uint16_t, unsigned)
DIVIDE(i32, int32_t, int)
DIVIDE(u32, uint32_t, unsigned)
DIVIDE(i64, int64_t, int64_t)
DIVIDE(u64, uint64_t, uint64_t)
DIVIDE(f32, float, float)
DIVIDE(f64, double, double)

static void divide_narrow(coll_dtype dtype, void *x, size_t n, int nranks)
{
    const size_t bytes = dtype == COLL_F16 || dtype == COLL_BF16 ? 2 : 1;
    float wide[BLOCK];
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t m = n - i < BLOCK ? n - i : BLOCK;
        void *const part = (char *)x + i * bytes;
        convert_widen(dtype, wide, part, m);
        divide_f32(wide, m, nranks);
        convert_narrow(dtype, part, wide, m);
    }
}

void op_finish(coll_dtype dtype, coll_op op, void *x, size_t n, int nranks)
{
    if (op != COLL_AVG)
        return;
    switch (dtype) {
    case COLL_I8:
        divide_i8(x, n, nranks);
        break;
    case COLL_U8:
        divide_u8(x, n, nranks);
        break;
    case COLL_I16:
        divide_i16(x, n, nranks);
        break;
    case COLL_U16:
        divide_u16(x, n, nranks);
        break;
    case COLL_I32:
        divide_i32(x, n, nranks);
        break;
    case COLL_U32:
        divide_u32(x, n, nranks);
        break;
    case COLL_I64:
        divide_i64(x, n, nranks);
        break;
    case COLL_U64:
        divide_u64(x, n, nranks);
        break;
    case COLL_F32:
        divide_f32(x, n, nranks);
        break;
    case COLL_F64:
        divide_f64(x, n, nranks);
        break;
    case COLL_F16:
    case COLL_BF16:
    case COLL_F8E4M3:
    case COLL_F8E5M2:
        divide_narrow(dtype, x, n, nranks);
        break;
    }
}
