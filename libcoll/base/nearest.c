/* SPDX-License-Identifier: MIT */
#include "base/nearest.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 63 };

/* Levenshtein distance, whatever the case; words longer than LONGEST are far
 * from everything. */
static int distance(const char *a, const char *b)
{
    int row[LONGEST + 1];
    const int m = (int)strlen(a), n = (int)strlen(b);
    if (m > LONGEST || n > LONGEST)
        return LONGEST;
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 1; i <= m; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int best = diagonal
                       + (tolower((unsigned char)a[i - 1])
                          != tolower((unsigned char)b[j - 1]));
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

/* The only name that starts so; NULL: none or several. */
static const char *only_start(const char *word, const char *const *names,
                              int count)
{
    const size_t length = strlen(word);
    const char *found = NULL;
    for (int i = 0; length > 2 && i < count; i++) {
        if (strncasecmp(names[i], word, length))
            continue;
        if (found)
            return NULL;
        found = names[i];
    }
    return found;
}

const char *nearest_name(const char *word, const char *const *names, int count)
{
    const char *best = only_start(word, names, count);
    if (best)
        return best;
    int least = (int)strlen(word) / 3;
    least = least < 2 ? 2 : least;
    for (int i = 0; i < count; i++) {
        int d = distance(word, names[i]);
        if (d <= least && d < (int)strlen(names[i])) {
            best = names[i];
            least = d - 1;
        }
    }
    return best;
}
