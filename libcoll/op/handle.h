/* SPDX-License-Identifier: MIT */
/* What the values of coll_op beyond the enum's say: operators that belong to a
 * communicator.
 *
 *   bit 30        it is a handle
 *   bits 8 to 29  of which communicator, by its job's number
 *   bit 7         1, so that the last eight bits tell it from the built-in ones
 *   bit 6         the inputs are multiplied by a number, then summed
 *   bits 0 to 5   which of the communicator's
 */
#ifndef OP_HANDLE_H
#define OP_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/types.h"

enum { OP_HANDLES = 64, OP_IS_SCALED = 1 << 6, OP_IS_OWN = 1 << 7 };

static inline bool op_is_handle(coll_op op)
{
    return (unsigned)op >> 30 == 1 && ((unsigned)op & OP_IS_OWN);
}

static inline bool op_is_scaled(coll_op op)
{
    return ((unsigned)op & OP_IS_SCALED) != 0;
}

static inline int op_handle_index(coll_op op)
{
    return (int)((unsigned)op % OP_HANDLES);
}

static inline coll_op op_handle(uint64_t job, bool scaled, int index)
{
    const unsigned whose = (unsigned)((job * 0x9e3779b97f4a7c15ull) >> 42 << 8);
    return (coll_op)(1u << 30 | whose | OP_IS_OWN
                     | (scaled ? (unsigned)OP_IS_SCALED : 0u)
                     | (unsigned)index);
}

#endif
