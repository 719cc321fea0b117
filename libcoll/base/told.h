/* SPDX-License-Identifier: MIT */
/* Lets the launcher know that this process fails because another rank has.
 *
 * Of ranks that end within a moment of one another it cannot tell by itself
 * which had a reason of its own. COLL_TOLD names a file with a byte for each
 * rank of the job, all zero at first. */
#ifndef BASE_TOLD_H
#define BASE_TOLD_H

/* Sets this rank's byte; nothing where there is no such launcher. Any thread,
 * any number of times; errno is kept. */
void told_by_another(void);

#endif
