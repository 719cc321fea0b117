/* SPDX-License-Identifier: MIT */
/* What op/combine.c defines for each instruction set. */
#ifndef OP_ISAS_H
#define OP_ISAS_H

#include "op/op.h"

#define ISA(name) extern combine_fn *const combine_##name[OP_NDTYPES][OP_NOPS];
#include "op/isas.def"
#undef ISA

#endif
