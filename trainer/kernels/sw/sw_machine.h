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

#include "kernels/sw/sw_counts.h"
#include "kernels/sw/sw_port.h"

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

/* What was asked of it since its counts were last cleared. */
struct sw_counts sw_machine_counts(const struct sw_machine *);
void sw_machine_clear(struct sw_machine *); /* the counts */

#endif
