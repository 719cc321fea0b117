/* SPDX-License-Identifier: MIT */
/* Messages of the library: silent unless COLL_LOG or the program asks.
 *
 * COLL_LOG=warn,select:debug sets a level for all subjects and one for some:
 * bootstrap, comm, explain, probe, recorder, select, settings, shm, sim, store,
 * topo and ucx.
 * Messages go to stderr, one line each, unless a hook takes them.
 */
#ifndef COLL_LOG_H
#define COLL_LOG_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum coll_log_level {
    COLL_LOG_OFF,
    COLL_LOG_ERROR,
    COLL_LOG_WARN,
    COLL_LOG_INFO,
    COLL_LOG_DEBUG,
} coll_log_level;

/* Called with one line without its newline, from any thread, the library's own
 * too. It must call nothing of libcoll, nor fork() or exit(). */
typedef void coll_log_hook(coll_log_level level, const char *subject,
                           const char *line, void *context);

/* Says who takes the messages; NULL goes back to stderr. Not thread-safe: set it
 * before the first call. */
void coll_log_set_hook(coll_log_hook *hook, void *context);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
