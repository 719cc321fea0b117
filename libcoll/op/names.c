/* SPDX-License-Identifier: MIT */
/* Names and sizes of datatypes and operators, from their two tables. */
#include "op/handle.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
#define DTYPE(value, name, bytes) [value] = {name, bytes},
#include "op/dtypes.def"
#undef DTYPE
};

static const char *const ops[] = {
#define OP(value, name) [value] = name,
#include "op/ops.def"
#undef OP
};

enum {
    NDTYPES = sizeof dtypes / sizeof dtypes[0],
    NOPS = sizeof ops / sizeof ops[0],
};

size_t coll_dtype_bytes(coll_dtype dtype)
{
    return (unsigned)dtype < NDTYPES ? dtypes[dtype].bytes : 0;
}

const char *coll_dtype_name(coll_dtype dtype)
{
    return (unsigned)dtype < NDTYPES ? dtypes[dtype].name : NULL;
}

const char *coll_op_name(coll_op op)
{
    if (op_is_handle(op))
        return op_is_scaled(op) ? "pre_mul_sum" : "user";
    return (unsigned)op < NOPS ? ops[op] : NULL;
}

int coll_dtype_find(const char *name, coll_dtype *dtype)
{
    for (int i = 0; name && dtype && i < NDTYPES; i++) {
        if (strcmp(name, dtypes[i].name) == 0) {
            *dtype = (coll_dtype)i;
            return 1;
        }
    }
    return 0;
}

int coll_op_find(const char *name, coll_op *op)
{
    for (int i = 0; name && op && i < NOPS; i++) {
        if (strcmp(name, ops[i]) == 0) {
            *op = (coll_op)i;
            return 1;
        }
    }
    return 0;
}
