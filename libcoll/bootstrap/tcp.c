/* SPDX-License-Identifier: MIT */
#include "bootstrap/tcp.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

double tcp_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t tcp_process(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t token;
    static pid_t owner;
    pthread_mutex_lock(&mutex);
    if (owner != getpid()) {
        owner = getpid();
        if (getrandom(&token, sizeof(token), 0) != sizeof(token))
            token = (uint64_t)owner << 32 ^ (uint64_t)(tcp_clock() * 1e9);
    }
    const uint64_t mine = token;
    pthread_mutex_unlock(&mutex);
    return mine;
}

void tcp_tune(int fd)
{
    const int on = 1, idle = 2, every = 1, probes = 3, silent_ms = 5000;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent_ms,
               sizeof(silent_ms));
}

int tcp_thread(pthread_t *thread, const char *name, void *(*run)(void *),
               void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        pthread_setname_np(*thread, name);
    return error;
}

int tcp_milliseconds(double deadline, double now)
{
    if (deadline <= now)
        return 0;
    const double ms = ceil((deadline - now) * 1e3);
    return isinf(ms) ? -1 : ms < 3600000 ? (int)ms : 3600000;
}

static bool is_own_end(int fd)
{
    struct sockaddr_storage a = {0}, b = {0};
    socklen_t na = sizeof(a), nb = sizeof(b);
    return !getsockname(fd, (struct sockaddr *)&a, &na)
           && !getpeername(fd, (struct sockaddr *)&b, &nb) && na == nb
           && !memcmp(&a, &b, na);
}

static int give_up(int fd, int error)
{
    close(fd);
    errno = error;
    return -1;
}

int tcp_dial(const struct sockaddr_storage *a, socklen_t length)
{
    const int fd = socket(a->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    tcp_tune(fd);
    if (connect(fd, (const struct sockaddr *)a, length) == 0
        || errno == EINPROGRESS)
        return fd;
    return give_up(fd, errno);
}

/* A port of the ephemeral range may connect to itself. */
int tcp_answer(int fd)
{
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return !error && is_own_end(fd) ? ECONNREFUSED : error;
}

int tcp_call(const struct sockaddr_storage *a, socklen_t length,
             double deadline)
{
    const int fd = tcp_dial(a, length);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    if (fd < 0)
        return -1;
    int n;
    do
        n = poll(&p, 1, tcp_milliseconds(deadline, tcp_clock()));
    while (n < 0 && errno == EINTR);
    const int error = n > 0 ? tcp_answer(fd) : ETIMEDOUT;
    return error ? give_up(fd, error) : fd;
}
