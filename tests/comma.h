/* SPDX-License-Identifier: MIT */
/* A locale in which one and a half is 1,5. */
#ifndef TESTS_COMMA_H
#define TESTS_COMMA_H

#include <stdbool.h>

/* Sets one for the process: one of this system, else one that localedef makes
 * in a temporary folder. False: there is neither. */
bool comma_locale(void);

#endif
