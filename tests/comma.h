/* SPDX-License-Identifier: MIT */
/* A locale in which one and a half is 1,5. */
#ifndef TESTS_COMMA_H
#define TESTS_COMMA_H

#include <stdbool.h>

/* Before all tests: where this system has none, lets localedef make one in a
 * temporary folder, which LOCPATH then names. After all: takes it away. */
void comma_make(void);
void comma_remove(void);

/* Sets one for the process. False: there is none. */
bool comma_locale(void);

#endif
