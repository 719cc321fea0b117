/* SPDX-License-Identifier: MIT */
/* Numbers that programs read: settings and files. They have a point, whatever
 * locale the program that uses the library has set. */
#ifndef BASE_PLAIN_H
#define BASE_PLAIN_H

#include <locale.h>
#include <stdlib.h>

/* A constant of the C library: nothing to free. For uselocale(), which is of
 * this thread alone; setlocale() is the program's. */
static inline locale_t plain_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* strtod() with a point. */
static inline double plain_number(const char *text, char **end)
{
    return strtod_l(text, end, plain_locale());
}

#endif
