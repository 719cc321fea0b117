/* SPDX-License-Identifier: MIT */
/* Whether packets pass between hosts, and how fast: a door that listens, and a
 * stream round the ring of hosts. The kernel answers a knock by itself, so that
 * a host that is late is no hole in the network. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/id.h"
#include "bootstrap/tcp.h"

/* Bytes to the next host. The first ones empty token buckets. */
enum { PIECE = 65536, SKIPPED = 4 * PIECE, ALL = 8 * PIECE };
static const double stream_seconds = 0.5;

int bootstrap_open_door(const char *interface, struct bootstrap_door *door)
{
    struct id id = {.naddresses = 0};
    struct sockaddr_storage a;
    *door = (struct bootstrap_door){.port = 0};
    if (id_local_addresses(&id, interface) < 0 || !id.naddresses)
        return -1;
    const int fd =
        socket(id.addresses[0].family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = id_socket_address(&id, 0, &a);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&a, length) < 0 || listen(fd, 8) < 0
        || getsockname(fd, (struct sockaddr *)&a, &length) < 0) {
        close(fd);
        return -1;
    }
    door->at.family = (uint32_t)id.addresses[0].family;
    memcpy(door->at.bytes, id.addresses[0].bytes, sizeof(door->at.bytes));
    door->port = a.ss_family == AF_INET
                     ? ntohs(((struct sockaddr_in *)&a)->sin_port)
                     : ntohs(((struct sockaddr_in6 *)&a)->sin6_port);
    return fd;
}

/* One host's part of the ring: what it sends on, and what comes. */
struct stream {
    int door, out, in;
    size_t sent, received;
    double met, begun, ended; /* when the first, SKIPPED and ALL bytes had come;
                                 0: not yet */
};

static void push(struct stream *s, char *bytes)
{
    const size_t left = ALL - s->sent;
    const ssize_t n =
        send(s->out, bytes, left < PIECE ? left : PIECE, MSG_NOSIGNAL);
    s->sent = n > 0 ? s->sent + (size_t)n : errno == EAGAIN ? s->sent : ALL;
}

/* False: the other side has gone. */
static bool pull(struct stream *s, char *bytes)
{
    const ssize_t n = recv(s->in, bytes, PIECE, MSG_DONTWAIT);
    if (n <= 0)
        return n < 0 && errno == EAGAIN;
    s->received += (size_t)n;
    if (!s->met)
        s->met = tcp_clock();
    if (!s->begun && s->received >= SKIPPED)
        s->begun = tcp_clock();
    if (s->received >= ALL)
        s->ended = tcp_clock();
    return true;
}

static void pass_on(struct stream *s, double deadline)
{
    char *bytes = calloc(1, PIECE);
    bool here = bytes != NULL;
    while (here && (!s->ended || s->sent < ALL)) {
        struct pollfd p[2] = {
            {.fd = s->in < 0 ? s->door : s->in, .events = POLLIN },
            {.fd = s->sent < ALL ? s->out : -1, .events = POLLOUT},
        };
        if (s->ended)
            p[0].fd = -1;
        if (poll(p, 2, tcp_milliseconds(deadline, tcp_clock())) <= 0)
            break;
        if (p[1].revents)
            push(s, bytes);
        if (p[0].revents && s->in < 0)
            s->in = accept4(s->door, NULL, NULL, SOCK_CLOEXEC);
        else if (p[0].revents)
            here = pull(s, bytes);
    }
    free(bytes);
}

/* Bytes per second; 0: unknown. A stream that did not end came slowly. */
static double rate_of(const struct stream *s, double now)
{
    if (s->ended > s->begun)
        return (ALL - SKIPPED) / (s->ended - s->begun);
    return s->met && !s->ended && now > s->met
               ? (double)s->received / (now - s->met)
               : 0;
}

int bootstrap_knock(int door, const struct bootstrap_door *next, double seconds,
                    double *bytes_per_second)
{
    struct sockaddr_storage a;
    struct id id = {.port = (uint16_t)next->port, .naddresses = 1};
    id.addresses[0].family = (int)next->at.family;
    memcpy(id.addresses[0].bytes, next->at.bytes, sizeof(next->at.bytes));
    const socklen_t length = id_socket_address(&id, 0, &a);
    struct stream s = {.door = door,
                       .out = tcp_call(&a, length, tcp_clock() + seconds),
                       .in = -1};
    *bytes_per_second = 0;
    if (s.out < 0)
        return errno;
    pass_on(&s, tcp_clock() + stream_seconds);
    *bytes_per_second = rate_of(&s, tcp_clock());
    close(s.out);
    if (s.in >= 0)
        close(s.in);
    return 0;
}

void bootstrap_close_door(int fd)
{
    if (fd >= 0)
        close(fd);
}
