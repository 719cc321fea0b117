/* SPDX-License-Identifier: MIT */
/* Declares what trainer/kernels/sw/sw_athread.c uses of Sunway's athread
 * library on the host core, so that a machine without it can compile that file.
 * tests/sw_athread_test.c defines what is here, as a stand-in. */
#ifndef TESTS_ATHREAD_ATHREAD_H
#define TESTS_ATHREAD_ATHREAD_H

/* The name that the compiler for the CPEs gives to a function. */
#define SLAVE_FUN(name) slave_##name

int athread_init(void);
int athread_halt(void);
int athread_join(void);

/* Starts a function of the CPEs, named without its prefix, on all of them. */
#define athread_spawn(name, argument)                                          \
    athread_spawn_slave(SLAVE_FUN(name), argument)
int athread_spawn_slave(void (*)(void *), void *argument);

#endif
