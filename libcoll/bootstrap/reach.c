/* SPDX-License-Identifier: MIT */
/* Whether packets pass between hosts, how soon and how fast: doors that listen,
 * and a stream round the ring of hosts. The kernel answers a knock by itself,
 * so that a host that is late is no hole in the network. */
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "bootstrap/arrivals.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/ends.h"
#include "bootstrap/id.h"
#include "bootstrap/tcp.h"

/* Bytes to the next host, half as many if it is far. */
enum { PIECE = 65536, ALL = 8 * PIECE };
/* To a far host so many connections that all bytes are in their first windows,
 * of 10 packets each: they come without a pause, where one connection would
 * take five round trips. */
enum {
    PARTS = 20,
    CALLS_MAX = PARTS + BOOTSTRAP_VISITS_MAX,
    GUESTS_MAX = 2 * CALLS_MAX,
    DISCARD = 9 /* a port */
};
static const double stream_seconds = 0.5;
/* Once one part has been answered, for the others, whose packets may be lost:
 * less than the next host waits for the stream. */
static const double others_seconds = 0.4;

int bootstrap_open_door(const char *interface, struct bootstrap_door *door)
{
    struct id id = {.naddresses = 0};
    struct sockaddr_storage a;
    *door = (struct bootstrap_door){.port = 0};
    if (id_local_addresses(&id, interface) < 0 || !id.naddresses)
        return -1;
    const int fd = socket(id.addresses[0].family,
                          SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t length = id_socket_address(&id, 0, &a);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&a, length) < 0
        || listen(fd, GUESTS_MAX) < 0
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

/* A call to a door. */
struct call {
    int fd, error; /* EINPROGRESS: no answer yet */
    size_t left;   /* of what is to be sent there */
};

/* One host's part of the ring: what it sends on, and what comes. */
struct stream {
    struct call call[CALLS_MAX]; /* visits, then parts */
    int nvisits, ncalls, door, nin, in[GUESTS_MAX];
    bool stamped; /* by the kernel */
    struct arrivals arrivals;
};

static bool has_sent(const struct stream *s)
{
    size_t left = 0;
    for (int i = 0; i < s->ncalls; i++)
        left += s->call[i].left;
    return left == 0;
}

static bool awaits_answers(const struct stream *s)
{
    bool waits = false;
    for (int i = 0; i < s->ncalls; i++)
        waits |= s->call[i].error == EINPROGRESS;
    return waits;
}

/* One part suffices. */
static bool is_answered(const struct stream *s)
{
    bool any = false;
    for (int i = s->nvisits; i < s->ncalls; i++)
        any |= !s->call[i].error;
    return any;
}

static void push(struct call *c, char *bytes)
{
    const ssize_t n =
        send(c->fd, bytes, c->left < PIECE ? c->left : PIECE, MSG_NOSIGNAL);
    c->left = n > 0 ? c->left - (size_t)n : errno == EAGAIN ? c->left : 0;
}

static double seconds_of(const struct timespec *t)
{
    return (double)t->tv_sec + 1e-9 * (double)t->tv_nsec;
}

/* The clock of the kernel's stamps, or the usual one. */
static double clock_of(const struct stream *s)
{
    struct timespec t;
    clock_gettime(s->stamped ? CLOCK_REALTIME : CLOCK_MONOTONIC, &t);
    return seconds_of(&t);
}

/* So that a rank that was late to read does not take what had come meanwhile
 * for fast. What is read at once has the stamp of its last packet: that tells
 * it as long as parts come one after another, as they are sent. */
static void ask_for_stamps(const struct stream *s, int fd)
{
    const int on = 1;
    if (s->stamped)
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
}

static double stamp_of(const struct stream *s, struct msghdr *message)
{
    struct timespec t;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c;
         c = CMSG_NXTHDR(message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
            memcpy(&t, CMSG_DATA(c), sizeof(t));
            return seconds_of(&t);
        }
    return clock_of(s);
}

/* A part of a stream, or a guest who has seen what it came for, ends. */
static void pull(struct stream *s, int i, char *bytes)
{
    union {
        struct cmsghdr aligned;
        char bytes[CMSG_SPACE(sizeof(struct timespec))];
    } control;
    struct iovec piece = {.iov_base = bytes, .iov_len = PIECE};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    const ssize_t n = recvmsg(s->in[i], &message, MSG_DONTWAIT);
    if (n > 0) {
        arrivals_add(&s->arrivals, stamp_of(s, &message), (size_t)n);
    } else if (n == 0 || errno != EAGAIN) {
        close(s->in[i]);
        s->in[i] = s->in[--s->nin];
    }
}

static bool is_want(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM
           || error == ENOBUFS;
}

/* Where something is wanting a guest stays at the door, which would be ready
 * for ever. */
static void let_in(struct stream *s)
{
    const int fd = accept4(s->door, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        if (is_want(errno))
            s->door = -1;
        return;
    }
    ask_for_stamps(s, fd);
    s->in[s->nin++] = fd;
}

/* False: the deadline is over. */
static bool step(struct stream *s, double deadline, char *bytes)
{
    enum { DOOR, OUT, IN = OUT + CALLS_MAX, N = IN + GUESTS_MAX };
    const bool listens = !arrivals_complete(&s->arrivals);
    const int nin = s->nin;
    const double now = tcp_clock();
    struct pollfd p[N];
    if (now >= deadline)
        return false;
    for (int i = 0; i < N; i++)
        p[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    if (listens && nin < GUESTS_MAX)
        p[DOOR].fd = s->door;
    for (int i = 0; i < s->ncalls; i++)
        if (s->call[i].left || s->call[i].error == EINPROGRESS)
            p[OUT + i] =
                (struct pollfd){.fd = s->call[i].fd, .events = POLLOUT};
    for (int i = 0; i < nin && listens; i++)
        p[IN + i].fd = s->in[i];
    const int n = poll(p, N, tcp_milliseconds(deadline, now));
    if (n <= 0)
        return n < 0 && errno == EINTR;
    for (int i = nin - 1; i >= 0; i--) /* the last replaces one that ends */
        if (p[IN + i].revents)
            pull(s, i, bytes);
    for (int i = 0; i < s->ncalls; i++)
        if (p[OUT + i].revents && s->call[i].left)
            push(&s->call[i], bytes);
        else if (p[OUT + i].revents)
            s->call[i].error = tcp_answer(s->call[i].fd);
    if (p[DOOR].revents)
        let_in(s);
    return true;
}

static void stop_waiting(struct stream *s)
{
    for (int i = 0; i < s->ncalls; i++)
        if (s->call[i].error == EINPROGRESS)
            s->call[i].error = ETIMEDOUT;
}

/* What is to be sent, by the parts that have answered. */
static void share_out(struct stream *s)
{
    size_t nparts = 0;
    for (int i = s->nvisits; i < s->ncalls; i++)
        nparts += !s->call[i].error;
    size_t rest = nparts ? s->arrivals.all % nparts : 0;
    for (int i = s->nvisits; i < s->ncalls; i++)
        if (!s->call[i].error) {
            s->call[i].left = s->arrivals.all / nparts + rest;
            rest = 0;
        }
}

/* Until all has come and gone. What comes is heard from the beginning, else it
 * would seem to come at once; what is sent would delay answers. */
static void pass_on(struct stream *s, double seconds, char *bytes)
{
    double patience = tcp_clock() + seconds;
    bool answered = false;
    while (awaits_answers(s) && step(s, patience, bytes))
        if (!answered && is_answered(s)) {
            answered = true;
            patience = fmin(patience, tcp_clock() + others_seconds);
        }
    stop_waiting(s);
    share_out(s);
    const double deadline = tcp_clock() + stream_seconds;
    while (is_answered(s) && !(arrivals_complete(&s->arrivals) && has_sent(s))
           && step(s, deadline, bytes))
        ;
}

static struct call call_door(const struct bootstrap_door *door)
{
    struct sockaddr_storage a;
    struct id id = {.port = (uint16_t)door->port, .naddresses = 1};
    id.addresses[0].family = (int)door->at.family;
    memcpy(id.addresses[0].bytes, door->at.bytes, sizeof(door->at.bytes));
    const socklen_t length = id_socket_address(&id, 0, &a);
    const int fd = tcp_dial(&a, length);
    return (struct call){.fd = fd, .error = fd < 0 ? errno : EINPROGRESS};
}

int bootstrap_knock(int door, struct bootstrap_knock *k, double seconds)
{
    struct stream s = {
        .door = door,
        .nvisits = k->nvisited,
        .ncalls = k->nvisited + (k->far ? PARTS : 1),
        .stamped = k->far,
        .arrivals = {.all = k->far ? ALL / 2 : ALL},
    };
    char *bytes = calloc(1, PIECE);
    if (!bytes)
        return ENOMEM;
    ask_for_stamps(&s, door);
    /* First the one part that is needed, should descriptors run out. */
    s.call[k->nvisited] = call_door(&k->next);
    for (int i = 0; i < s.ncalls; i++)
        if (i != k->nvisited)
            s.call[i] = call_door(i < k->nvisited ? &k->visited[i] : &k->next);
    pass_on(&s, seconds, bytes);
    free(bytes);
    arrivals_sort(&s.arrivals);
    k->bytes_per_second = arrivals_rate(&s.arrivals, clock_of(&s));
    k->seconds_per_byte = arrivals_without_pause(&s.arrivals);
    for (int i = 0; i < k->nvisited; i++)
        k->round_trip[i] = s.call[i].error ? 0 : ends_round_trip(s.call[i].fd);
    for (int i = 0; i < s.nin; i++)
        close(s.in[i]);
    for (int i = 0; i < s.ncalls; i++)
        if (s.call[i].fd >= 0)
            close(s.call[i].fd);
    return is_answered(&s) ? 0 : s.call[k->nvisited].error;
}

void bootstrap_wave(const struct bootstrap_end *end)
{
    struct sockaddr_storage a;
    struct id id = {.port = DISCARD, .naddresses = 1};
    id.addresses[0].family = (int)end->family;
    memcpy(id.addresses[0].bytes, end->bytes, sizeof(end->bytes));
    const socklen_t length = id_socket_address(&id, 0, &a);
    const int fd =
        socket(a.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, "", 0, MSG_NOSIGNAL, (struct sockaddr *)&a, length);
    close(fd);
}

void bootstrap_close_door(int fd)
{
    if (fd >= 0)
        close(fd);
}
