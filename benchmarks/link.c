/* SPDX-License-Identifier: MIT */
/* The bandwidth of one TCP stream between two hosts of the job. Rank 0 listens,
 * the first rank on another host connects and reads what comes for a while. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "limit.h"

enum { MAX_ADDRESSES = 8, BLOCK = 1 << 20, PATIENCE_MS = 2000 };
static const double stream_seconds = 0.3;

/* IPv4 addresses of this host but loopback: of the first interface in
 * COLL_INTERFACE if set. */
static int addresses(uint64_t *out)
{
    const char *const wanted = getenv("COLL_INTERFACE");
    const size_t first = wanted ? strcspn(wanted, ",") : 0;
    struct ifaddrs *list;
    int n = 0;
    if (getifaddrs(&list) != 0)
        return 0;
    for (const struct ifaddrs *a = list; a && n < MAX_ADDRESSES;
         a = a->ifa_next) {
        struct sockaddr_in in;
        if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET
            || (a->ifa_flags & IFF_LOOPBACK) || !(a->ifa_flags & IFF_UP))
            continue;
        if (first > 0
            && (strlen(a->ifa_name) != first
                || memcmp(wanted, a->ifa_name, first) != 0))
            continue;
        memcpy(&in, a->ifa_addr, sizeof in);
        out[n++] = ntohl(in.sin_addr.s_addr);
    }
    freeifaddrs(list);
    return n;
}

static int listener(uint64_t *port)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    socklen_t length = sizeof in;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&in, sizeof in) != 0 || listen(fd, 4) != 0
        || getsockname(fd, (struct sockaddr *)&in, &length) != 0) {
        close(fd);
        return -1;
    }
    *port = ntohs(in.sin_port);
    return fd;
}

static bool ready(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    int got;
    do
        got = poll(&p, 1, PATIENCE_MS);
    while (got < 0 && errno == EINTR);
    return got > 0;
}

static int connect_to(uint64_t address, uint64_t port)
{
    const struct sockaddr_in in = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl((uint32_t)address),
    };
    int error = 0;
    socklen_t length = sizeof error;
    const int fd =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)&in, sizeof in) == 0)
        return fd;
    if (errno == EINPROGRESS && ready(fd, POLLOUT)
        && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0
        && error == 0)
        return fd;
    close(fd);
    return -1;
}

/* Sends for a while, then closes: that is the end of the stream. */
static void send_stream(int listening)
{
    char *const block = job_alloc(BLOCK);
    const int fd = ready(listening, POLLIN)
                       ? accept4(listening, NULL, NULL, SOCK_CLOEXEC)
                       : -1;
    const double end = job_clock() + stream_seconds;
    while (fd >= 0 && job_clock() < end)
        if (!ready(fd, POLLOUT)
            || send(fd, block, BLOCK, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
    if (fd >= 0)
        close(fd);
    free(block);
}

/* Counts from the first byte that arrives. */
static double receive_stream(int fd)
{
    char *const block = job_alloc(BLOCK);
    double start = 0, bytes = 0, seconds = 0;
    while (ready(fd, POLLIN)) {
        const ssize_t got = read(fd, block, BLOCK);
        if (got <= 0)
            break;
        if (start == 0) {
            start = job_clock();
            continue;
        }
        bytes += (double)got;
        seconds = job_clock() - start;
    }
    free(block);
    return seconds > 0 ? bytes / seconds : 0;
}

static double receive_from(const uint64_t *address, uint64_t port)
{
    for (int i = 0; i < MAX_ADDRESSES && address[i]; i++) {
        const int fd = connect_to(address[i], port);
        if (fd < 0)
            continue;
        const double rate = receive_stream(fd);
        close(fd);
        return rate;
    }
    return 0;
}

double link_bandwidth(const struct job *job)
{
    uint64_t mine[MAX_ADDRESSES + 1] = {0};
    uint64_t *const all = job_alloc((size_t)job->nranks * sizeof mine);
    const int listening = job->rank == 0 ? listener(&mine[MAX_ADDRESSES]) : -1;
    int peer = 0;
    double rate = 0;
    while (job->host_of[peer] == 0)
        peer++;
    if (listening >= 0)
        addresses(mine);
    job_gather(job, mine, MAX_ADDRESSES + 1, all);
    if (job->rank == peer)
        rate = receive_from(all, all[MAX_ADDRESSES]);
    if (listening >= 0) {
        if (mine[0])
            send_stream(listening);
        close(listening);
    }
    job_max(job, &rate, 1);
    free(all);
    return rate;
}
