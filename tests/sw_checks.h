/* SPDX-License-Identifier: MIT */
/* What tests of the Sunway machine in software share. */
#ifndef TESTS_SW_CHECKS_H
#define TESTS_SW_CHECKS_H

#include <stdlib.h>

#include "exact.h"
#include "kernels/sw/sw_machine.h"

static inline void equal(const float *found, const float *wanted, size_t count,
                         const char *what)
{
    for (size_t i = 0; i < count; i++)
        require(found[i] == wanted[i], "%s[%zu] is %g, not %g", what, i,
                (double)found[i], (double)wanted[i]);
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

/* As run_checks(), with a machine for all of them. */
static inline int run_on_machine(const struct check *checks, int n,
                                 struct sw_machine **machine)
{
    *machine = new_machine();
    const int status = run_checks(checks, n);
    free_machine(*machine);
    return status;
}

#endif
