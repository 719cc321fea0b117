/* SPDX-License-Identifier: MIT */
/* A core group of the SW26010 in software, seen by whoever starts kernels.
 *
 * The 64 CPEs take turns in the thread that calls sw_spawn, always in the
 * same order, so that equal calls give equal bits and equal counts. A machine
 * belongs to one thread at a time; several machines share nothing.
 */
#ifndef TRAINER_KERNELS_SW_SW_MACHINE_H
#define TRAINER_KERNELS_SW_SW_MACHINE_H

#include <stddef.h>

#include "kernels/sw/sw_port.h"

/* What was asked of a machine since its counts were last cleared, by all CPEs
 * together. */
struct sw_counts {
    size_t get_bytes, put_bytes; /* of DMA */
    size_t transfers, blocks;    /* of DMA; a strided one has many blocks */
    size_t row_messages, column_messages; /* sent; a broadcast is one */
    size_t instructions;                  /* of arithmetic, on vectors */
    size_t covering; /* those of them that ran while a transfer was under way */
    size_t ldm_bytes; /* the most that a CPE had taken at a time */
    size_t spawns;
};

/* Memory of a machine, in which it lies whole: no other is ever asked for. */
size_t sw_machine_bytes(void);

/* Makes one in such memory, aligned to 64 bytes. */
struct sw_machine *sw_machine_create(void *memory);
void sw_machine_free(struct sw_machine *); /* the memory stays the caller's */

/* Messages that wait at a CPE, of its row and of its column, before senders
 * have to: 1 to SW_DEPTH, which it is at first. No right kernel's result
 * depends on it. */
enum { SW_DEPTH = 64 };
void sw_machine_set_depth(struct sw_machine *, int);

struct sw_counts sw_machine_counts(const struct sw_machine *);
void sw_machine_clear(struct sw_machine *); /* the counts */

#endif
