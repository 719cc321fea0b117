/* SPDX-License-Identifier: MIT */
/* "did you mean": the name of a list that a mistyped one is closest to. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

/* The closest of count names by edit distance, or NULL if none is close (more
 * than a third of the letters, at least 2, would have to change). */
const char *nearest_name(const char *word, const char *const *names, int count);

#endif
