/* SPDX-License-Identifier: MIT */
/* A plain ring over TCP sockets, measured as peer.h says: what a program would
 * write that has no library. No threads, no choice, no learning.
 *
 *   peer_ring RANK NRANKS FOLDER allreduce MIN MAX FACTOR [PAUSE]
 *
 * FOLDER is empty, and where the ranks find each other. PEER_INTERFACE names
 * the network's interface (lo). */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"

enum { PATIENCE_SECONDS = 60 };

struct ring {
    int rank, nranks;
    int left, right; /* sockets */
    void *came;      /* what the left one sent */
    size_t room;
};

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "peer_ring: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* --- sockets -----------------------------------------------------------------
 */

static struct in_addr own_address(void)
{
    const char *wanted = getenv("PEER_INTERFACE");
    struct ifaddrs *all;
    struct in_addr found = {0};
    if (getifaddrs(&all))
        fail("getifaddrs");
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET
            && !strcmp(i->ifa_name, wanted ? wanted : "lo"))
            found = ((const struct sockaddr_in *)(const void *)i->ifa_addr)
                        ->sin_addr;
    freeifaddrs(all);
    if (!found.s_addr) {
        errno = ENODEV;
        fail(wanted ? wanted : "lo");
    }
    return found;
}

static void path_of(char *to, size_t bytes, const char *folder, int rank,
                    const char *end)
{
    snprintf(to, bytes, "%s/%d%s", folder, rank, end);
}

/* Listens, and tells others where. */
static int announce(const char *folder, int rank)
{
    char path[4096], whole[4096];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = own_address()};
    socklen_t size = sizeof(at);
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&at, size) || listen(s, 1)
        || getsockname(s, (struct sockaddr *)&at, &size))
        fail("listen");
    path_of(path, sizeof(path), folder, rank, ".part");
    path_of(whole, sizeof(whole), folder, rank, "");
    FILE *file = fopen(path, "we");
    if (!file || fwrite(&at, sizeof(at), 1, file) != 1 || fclose(file)
        || rename(path, whole))
        fail(whole);
    return s;
}

static int reach(const char *folder, int rank)
{
    char path[4096];
    struct sockaddr_in at;
    FILE *file = NULL;
    path_of(path, sizeof(path), folder, rank, "");
    for (int i = 0; !file && i < 100 * PATIENCE_SECONDS; i++) {
        file = fopen(path, "re");
        if (!file)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    if (!file || fread(&at, sizeof(at), 1, file) != 1)
        fail(path);
    fclose(file);
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || connect(s, (struct sockaddr *)&at, sizeof(at)))
        fail("connect");
    return s;
}

static void prepare(int s)
{
    const int on = 1;
    if (s < 0 || setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on))
        || fcntl(s, F_SETFL, O_NONBLOCK))
        fail("a neighbour's socket");
}

static void open_ring(struct ring *r, const char *folder)
{
    const int door = announce(folder, r->rank);
    r->right = reach(folder, (r->rank + 1) % r->nranks);
    struct pollfd comes = {.fd = door, .events = POLLIN};
    if (poll(&comes, 1, 1000 * PATIENCE_SECONDS) != 1)
        fail("no neighbour came");
    r->left = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    close(door);
    prepare(r->right);
    prepare(r->left);
}

/* What was moved: of a call that may have had to wait. */
static size_t moved(ssize_t n)
{
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        fail("a neighbour");
    return n > 0 ? (size_t)n : 0;
}

/* To the right and, meanwhile, from the left into r->came. */
static void pass(struct ring *r, const void *out, size_t nout, size_t nin)
{
    size_t sent = 0, got = 0;
    if (nin > r->room) {
        free(r->came);
        r->came = malloc(r->room = nin);
        if (!r->came)
            fail("memory");
    }
    while (sent < nout || got < nin) {
        struct pollfd both[] = {
            {sent < nout ? r->right : -1, POLLOUT, 0},
            {got < nin ? r->left : -1,    POLLIN,  0}
        };
        const int ready = poll(both, 2, 1000 * PATIENCE_SECONDS);
        if (ready == 0)
            errno = ETIMEDOUT;
        if (ready < 1 && errno != EINTR)
            fail("the neighbours");
        if (both[0].revents)
            sent += moved(send(r->right, (const char *)out + sent, nout - sent,
                               MSG_NOSIGNAL));
        if (both[1].revents) {
            const ssize_t n =
                recv(r->left, (char *)r->came + got, nin - got, 0);
            if (n == 0) {
                errno = ECONNRESET;
                fail("the left neighbour");
            }
            got += moved(n);
        }
    }
}

/* --- what is measured --------------------------------------------------------
 */

/* The first count % n chunks have one element more. */
static size_t begin_of(size_t count, int n, int chunk)
{
    const size_t more = count % (size_t)n, c = (size_t)chunk;
    return count / (size_t)n * c + (c < more ? c : more);
}

static float *allreduce(void *context, const struct peer_call *c)
{
    struct ring *r = context;
    const int n = r->nranks;
    memcpy(c->recv, c->send, c->count * sizeof(float));
    for (int step = 0; step < 2 * (n - 1); step++) {
        const bool adds = step < n - 1;
        const int out = (r->rank - step + 2 * n) % n;
        const int in = (out + n - 1) % n;
        const size_t from = begin_of(c->count, n, out),
                     to = begin_of(c->count, n, in),
                     nin = begin_of(c->count, n, in + 1) - to;
        pass(r, c->recv + from,
             (begin_of(c->count, n, out + 1) - from) * sizeof(float),
             nin * sizeof(float));
        const float *came = r->came;
        if (!adds && nin)
            memcpy(c->recv + to, came, nin * sizeof(float));
        for (size_t i = 0; adds && i < nin; i++)
            c->recv[to + i] += came[i];
    }
    return c->recv;
}

/* Each rank's numbers go all round. */
static void largest(void *context, double *x, size_t count)
{
    struct ring *r = context;
    const size_t bytes = count * sizeof(double);
    double *const theirs = malloc(bytes);
    if (!theirs)
        fail("memory");
    memcpy(theirs, x, bytes);
    for (int step = 1; step < r->nranks; step++) {
        pass(r, theirs, bytes, bytes);
        memcpy(theirs, r->came, bytes);
        for (size_t i = 0; i < count; i++)
            x[i] = x[i] > theirs[i] ? x[i] : theirs[i];
    }
    free(theirs);
}

static void together(void *context)
{
    double nothing = 0;
    largest(context, &nothing, 1);
}

int main(int argc, char **argv)
{
    struct ring r = {.rank = argc > 2 ? atoi(argv[1]) : 0,
                     .nranks = argc > 2 ? atoi(argv[2]) : 0};
    if (argc < 8 || strcmp(argv[4], "allreduce") || r.nranks < 2 || r.rank < 0
        || r.rank >= r.nranks) {
        fprintf(stderr, "usage: peer_ring RANK NRANKS FOLDER allreduce MIN "
                        "MAX FACTOR [PAUSE], of 2 ranks or more\n");
        return 2;
    }
    open_ring(&r, argv[3]);
    const struct peer peer = {r.rank,    r.nranks, &r,
                              allreduce, together, largest};
    argv[3] = argv[0];
    const int status = peer_run(&peer, argc - 3, argv + 3);
    together(&r); /* nobody leaves while others still send */
    close(r.left);
    close(r.right);
    free(r.came);
    return status;
}
