/* SPDX-License-Identifier: MIT */
/* Logging and error sentences, for inside the library.
 *
 * Who first decides that something is an error calls fail(), once; callers
 * pass the status on.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "coll/log.h"
#include "coll/types.h"

#define PRINTF(format, first)                                                  \
    __attribute__((__format__(__printf__, format, first)))

/* Subjects are plain words: "bootstrap", "shm", "ucx", "select", "topo",
 * "settings". A message below its subject's level costs one comparison. */
PRINTF(3, 4)
void log_line(coll_log_level level, const char *subject, const char *format,
              ...);

/* Sets the calling thread's error sentence, logs it at level error, and
 * returns status. The subject is only for the log. */
PRINTF(3, 4)
coll_status fail(coll_status status, const char *subject, const char *format,
                 ...);

/* The calling thread's last sentence, "" at first. */
const char *fail_sentence(void);

#endif
