/* SPDX-License-Identifier: MIT */
/* The Test Anything Protocol, for programs without Criterion: those that
 * sanitizers or emulators run. */
#ifndef TESTS_CHECKS_H
#define TESTS_CHECKS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

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

/* Of claims that may fail one by one, behind a "1..N": 1 if this one has. */
static inline int report(bool holds, const char *claim)
{
    static int number;
    printf("%sok %d - %s\n", holds ? "" : "not ", ++number, claim);
    fflush(stdout);
    return !holds;
}

struct check {
    const char *claim;
    void (*check)(void);
};

/* Of those that end by require(). */
static inline int run_checks(const struct check *checks, int n)
{
    printf("1..%d\n", n);
    for (int i = 0; i < n; i++) {
        checks[i].check();
        report(true, checks[i].claim);
    }
    return 0;
}

#endif
