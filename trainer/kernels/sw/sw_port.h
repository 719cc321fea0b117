/* SPDX-License-Identifier: MIT */
/* What a kernel may ask of a core group of the Sunway SW26010: 64 computing
 * processing elements (CPEs) in a mesh of 8 rows and 8 columns, each with a
 * scratch-pad (LDM) of 64 KB of its own.
 *
 * A kernel is one function that every CPE runs. It never touches main memory
 * but by DMA, and other CPEs only by register messages. sw_machine.h tells of a
 * core group in software, which checks and counts every call; sw_athread.c is
 * the same interface on Sunway's athread library. Kernels know no other.
 */
#ifndef TRAINER_KERNELS_SW_SW_PORT_H
#define TRAINER_KERNELS_SW_SW_PORT_H

#include <stddef.h>

enum {
    SW_SIDE = 8, /* CPEs of a row and of a column */
    SW_CPES = SW_SIDE * SW_SIDE,
    SW_LDM_BYTES = 64 * 1024,
    /* What kernels keep to: the rest is the stack's on a real machine. */
    SW_LDM_FOR_DATA = 60 * 1024,
    SW_ARGUMENT_BYTES = 256,
    SW_LANES = 4, /* doubles of a register */
    SW_GROUPS = 4 /* core groups of a processor */
};

/* A register of 256 bits, and a register message. */
struct sw_vector {
    double lane[SW_LANES];
};

struct sw_machine; /* a core group */
struct sw_cpe;     /* the one that runs the kernel */

/* Runs the kernel on all 64 CPEs and returns when they are through. Each gets
 * a copy of the argument, of at most SW_ARGUMENT_BYTES, which is not a part of
 * what sw_ldm hands out. The kernel is one of sw_kernels.def, but where only
 * the machine in software is meant. NULL, or a sentence: the first thing that
 * went wrong, which the machine in software finds and a real one does not. */
const char *sw_spawn(struct sw_machine *,
                     void (*kernel)(struct sw_cpe *, const void *argument),
                     const void *argument, size_t bytes);

int sw_row(const struct sw_cpe *);
int sw_column(const struct sw_cpe *);

/* So many bytes of the LDM, aligned to a register, until the kernel ends. */
void *sw_ldm(struct sw_cpe *, size_t bytes);

/* Transfers that have been completed; starts as 0. */
struct sw_reply {
    volatile int done;
};

/* What a transfer moves: blocks that are side by side in the LDM and `step`
 * bytes apart, from the end of one to the start of the next, in memory. All
 * are multiples of 4, and bytes is a multiple of block. */
struct sw_stretch {
    size_t bytes, block, step;
};

/* Start a transfer, which adds one to the reply when it is done. Until then
 * the LDM's side of it may be neither read nor written. */
void sw_get(struct sw_cpe *, void *ldm, const void *memory, struct sw_stretch,
            struct sw_reply *);
void sw_put(struct sw_cpe *, const void *ldm, void *memory, struct sw_stretch,
            struct sw_reply *);

/* Waits until the reply is `done`. */
void sw_wait(struct sw_cpe *, struct sw_reply *, int done);

/* Register messages: to the other seven of the row or column, or to one of
 * them. Those of one sender arrive in their order, a broadcast everywhere
 * before the next one of that row or column. They carry no sender. */
void sw_row_broadcast(struct sw_cpe *, struct sw_vector);
void sw_column_broadcast(struct sw_cpe *, struct sw_vector);
void sw_row_send(struct sw_cpe *, int column, struct sw_vector);
void sw_column_send(struct sw_cpe *, int row, struct sw_vector);
struct sw_vector sw_row_receive(struct sw_cpe *);
struct sw_vector sw_column_receive(struct sw_cpe *);

/* Waits for all 64. */
void sw_sync(struct sw_cpe *);

/* For the cost model: so many vector instructions of arithmetic were run. */
void sw_count(struct sw_cpe *, size_t instructions);

#endif
