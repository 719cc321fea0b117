/* SPDX-License-Identifier: MIT */
/* Cache lines asked for before they are needed. */
#ifndef BASE_FETCH_H
#define BASE_FETCH_H

/* Takes a line that this rank will write into its cache, away from whoever read
 * it last, while there is nothing else to do. */
static inline void fetch_to_write(const void *line)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

#endif
