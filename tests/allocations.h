/* SPDX-License-Identifier: MIT */
/* Calls that take memory are counted: the linker puts ours in place of the C
 * library's (--wrap). */
#ifndef TESTS_ALLOCATIONS_H
#define TESTS_ALLOCATIONS_H

extern _Thread_local int allocations;

#endif
