/* SPDX-License-Identifier: MIT */
/* What tests of the Sunway machine in software share: TAP, and numbers whose
 * sums are exact. */
#ifndef TESTS_SW_CHECKS_H
#define TESTS_SW_CHECKS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/sw/sw_machine.h"
#include "random.h"

/* Says what is wrong, and ends. */
__attribute__((format(printf, 2, 3))) static inline void
require(bool holds, const char *form, ...)
{
    va_list words;
    if (holds)
        return;
    va_start(words, form);
    printf("Bail out! ");
    vprintf(form, words);
    va_end(words);
    putchar('\n');
    exit(1);
}

/* Exactly so much, so that sanitizers see what lies beyond; all NaN. */
static inline float *unset(size_t count)
{
    float *x = malloc(count * sizeof(float) + 1);
    require(x != NULL, "no memory");
    memset(x, 0xff, count * sizeof(float));
    return x;
}

/* Multiples of 1/8, at most 1: float has sums of their products whole. */
static inline float *eighths(size_t count, uint64_t seed)
{
    float *x = unset(count);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)((int)(random_u64(seed, i) % 17) - 8) / 8;
    return x;
}

static inline void equal(const float *found, const float *wanted, size_t count,
                         const char *what)
{
    for (size_t i = 0; i < count; i++)
        require(found[i] == wanted[i], "%s[%zu] is %g, not %g", what, i,
                (double)found[i], (double)wanted[i]);
}

static inline int pick(uint64_t seed, int which, int least, int most)
{
    return least
           + (int)(random_u64(seed, (uint64_t)which)
                   % (uint64_t)(most - least + 1));
}

static inline struct sw_machine *new_machine(void)
{
    enum { LINE = 64 };
    const size_t bytes = (sw_machine_bytes() + LINE - 1) / LINE * LINE;
    void *memory = aligned_alloc(LINE, bytes);
    require(memory != NULL, "no memory");
    return sw_machine_create(memory);
}

static inline void free_machine(struct sw_machine *m)
{
    sw_machine_free(m);
    free(m);
}

struct sw_check {
    const char *claim;
    void (*check)(void);
};

static inline int run_checks(const struct sw_check *checks, int n)
{
    printf("1..%d\n", n);
    for (int i = 0; i < n; i++) {
        checks[i].check();
        printf("ok %d - %s\n", i + 1, checks[i].claim);
        fflush(stdout);
    }
    return 0;
}

/* The same, with a machine for all of them. */
static inline int run_on_machine(const struct sw_check *checks, int n,
                                 struct sw_machine **machine)
{
    *machine = new_machine();
    const int status = run_checks(checks, n);
    free_machine(*machine);
    return status;
}

#endif
