/* SPDX-License-Identifier: MIT */
/* Status codes, datatypes and operators. */
#ifndef COLL_TYPES_H
#define COLL_TYPES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What every function that can fail returns. Errors are negative. */
typedef enum coll_status {
    COLL_OK = 0,
    COLL_IN_PROGRESS = 1,      /* not finished yet: call coll_test() again */
    COLL_ERR_INVALID = -1,     /* the caller broke a documented rule */
    COLL_ERR_MEMORY = -2,      /* an allocation failed */
    COLL_ERR_UNSUPPORTED = -3, /* valid, but nothing here can serve it */
    COLL_ERR_PEER = -4,        /* another rank failed, left or never came */
    COLL_ERR_SYSTEM = -5,      /* the system, UCX or hwloc refused */
    COLL_ERR_TIMEOUT = -6,     /* a deadline passed with every rank alive */
    COLL_ERR_ABORTED = -7,     /* some rank called coll_comm_abort() */
    COLL_ERR_MISMATCH = -8,    /* ranks made different calls */
    COLL_ERR_BUSY = -9,        /* another thread is in a call, or this one is */
} coll_status;

/* Names and sizes: libcoll/op/dtypes.def. */
typedef enum coll_dtype {
    COLL_I8,
    COLL_U8,
    COLL_I16,
    COLL_U16,
    COLL_I32,
    COLL_U32,
    COLL_I64,
    COLL_U64,
    COLL_F16,    /* IEEE binary16 */
    COLL_BF16,   /* the upper half of a binary32 */
    COLL_F32,
    COLL_F64,
    COLL_F8E4M3, /* OCP FP8, 448 the largest, no infinity */
    COLL_F8E5M2, /* OCP FP8, 57344 the largest, with infinity */
} coll_dtype;

typedef enum coll_op {
    COLL_SUM, /* integers wrap */
    COLL_PROD,
    COLL_MIN,  /* a NaN wins */
    COLL_MAX,  /* a NaN wins */
    COLL_AVG,  /* what COLL_SUM gives, divided by the number of ranks: integers,
                  whose sum wraps, towards 0; f16, bf16 and f8 in f32. Sums that
                  travel are rounded to the type on their way, so between hosts
                  they may be infinite where those of one host are not */
    COLL_BAND, /* this and the following: integers only */
    COLL_BOR,
    COLL_BXOR,
    COLL_LAND, /* 1 if both are nonzero, else 0 */
    COLL_LOR,
    COLL_OP_MOST = 0x7fffffff /* none: handles of coll_red_op_create() and
                                 _pre_mul_sum() lie between */
} coll_op;

/* A reduction of the caller's: out[i] = a[i] op b[i] for i in [0, count), where
 * a is of lower ranks than b. out may equal a or b. It has to be associative.
 * Vectors are aligned to their element only. Called from within libcoll, as often
 * and with whatever counts suit, by a thread that is in a call or, while the
 * program goes on, by one of the library's ("progress" in coll.h). It must call
 * nothing of libcoll, nor fork() or exit(). */
typedef void coll_red_function(void *out, const void *a, const void *b,
                               size_t count, coll_dtype dtype, void *context);

#pragma GCC visibility push(default)

/* Sizes and names of datatypes and operators ("f32", "sum"); 0 or NULL for a
 * value outside the enum. Handles are "user" and "pre_mul_sum". The lookups
 * return false for an unknown name. */
size_t coll_dtype_bytes(coll_dtype dtype);
const char *coll_dtype_name(coll_dtype dtype);
const char *coll_op_name(coll_op op);
int coll_dtype_find(const char *name, coll_dtype *dtype);
int coll_op_find(const char *name, coll_op *op);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
