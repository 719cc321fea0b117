/* SPDX-License-Identifier: MIT */
/* As athread.h, on the CPEs. */
#ifndef TESTS_ATHREAD_SLAVE_H
#define TESTS_ATHREAD_SLAVE_H

#define __thread_local _Thread_local /* in the LDM */

typedef enum { PE_MODE, BCAST_MODE, ROW_MODE, BROW_MODE, RANK_MODE } dma_mode;
typedef enum { ROW_SCOPE, COL_SCOPE, ARRAY_SCOPE } scope;

int athread_get_id(int core); /* -1: this one, 8 * row + column */

/* Length in bytes; blocks of bsize, with stride bytes from the end of one to
 * the start of the next in memory, or 0 and 0. */
int athread_get(dma_mode, void *memory, void *ldm, int length, void *reply,
                char mask, int stride, int bsize);
int athread_put(dma_mode, void *ldm, void *memory, int length, void *reply,
                int stride, int bsize);

int athread_syn(scope, int mask);

#endif
