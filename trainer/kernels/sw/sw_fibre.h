/* SPDX-License-Identifier: MIT */
/* Functions that stop in the middle and go on later, on stacks of their own
 * in one thread: POSIX contexts, with the words that sanitizers want to hear.
 */
#ifndef TRAINER_KERNELS_SW_SW_FIBRE_H
#define TRAINER_KERNELS_SW_SW_FIBRE_H

#include <stddef.h>
#include <ucontext.h>

enum { SW_STACK_BYTES = 64 * 1024 };

struct sw_fibre {
    ucontext_t here, caller;
    void (*run)(void *);
    void *argument;
    void *sanitizer, *sanitizer_caller; /* as the thread sanitizer knows them */
    unsigned char *stack;               /* SW_STACK_BYTES */
};

/* Calls run(argument) at the first sw_fibre_resume. run ends by
 * sw_fibre_pause and is not resumed then. */
void sw_fibre_start(struct sw_fibre *, unsigned char *stack,
                    void (*run)(void *), void *argument);
void sw_fibre_resume(struct sw_fibre *);
void sw_fibre_pause(struct sw_fibre *); /* by itself: back to the resumer */
void sw_fibre_end(struct sw_fibre *);

#endif
