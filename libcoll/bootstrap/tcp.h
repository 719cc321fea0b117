/* SPDX-License-Identifier: MIT */
/* What the two drivers share: sockets, clock, threads. */
#ifndef BOOTSTRAP_TCP_H
#define BOOTSTRAP_TCP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "bootstrap/frame.h"

double tcp_clock(void); /* seconds, monotonic */

/* Random, equal only within this process, also after a fork. */
uint64_t tcp_process(void);

/* Non-blocking, quick to send little, and told within seconds of a peer that
 * became silent. */
void tcp_tune(int fd);

/* A thread that takes no signals. Returns 0 or errno. */
int tcp_thread(pthread_t *, const char *name, void *(*run)(void *),
               void *context);

/* serve.c: returns once no hub of this job runs in this process any more, and no
 * thread of one, or after so many seconds. */
void serve_await_end(const unsigned char key[FRAME_KEY], double seconds);

/* A tuned connection to an address, or -1 with errno (ETIMEDOUT: nobody said
 * anything until the deadline, of tcp_clock()). */
int tcp_call(const struct sockaddr_storage *, socklen_t, double deadline);

/* Its two halves, for several at once: begins, -1 with errno; and once that is
 * writable 0 or errno. */
int tcp_dial(const struct sockaddr_storage *, socklen_t);
int tcp_answer(int fd);

/* Until a deadline, for poll(): rounded up, -1 for ever. */
int tcp_milliseconds(double deadline, double now);

#endif
