/* SPDX-License-Identifier: MIT */
/* The hub's driver: a thread that feeds the state machine sockets and time. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/hub.h"
#include "bootstrap/id.h"
#include "bootstrap/tcp.h"

static const double retry_seconds = .1;

struct server {
    struct server *next;
    uint64_t process; /* a fork has the list, but not the threads */
    pthread_t thread;
    bool ended, joined;           /* the thread; both under the lock */
    bool borrows; /* its listeners, which the next hub there wants */
    unsigned char key[FRAME_KEY]; /* of the job */
    struct hub *hub;
    int listeners[ID_ADDRESSES], nlisteners;
    struct pollfd *polls; /* listeners, then connections; fd -1: free */
    int nconns, room;
    double full_until; /* no accept before: the system is out of something */
};

/* The hubs of this process whose threads were not joined. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct server *first;
} hubs = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};

/* Of one job, or of any, in this process. */
static struct server *find(const unsigned char *key, bool ended)
{
    struct server *s = hubs.first;
    const uint64_t me = tcp_process();
    while (s
           && (s->process != me || (key && memcmp(s->key, key, FRAME_KEY) != 0)
               || (ended && (!s->ended || s->joined))))
        s = s->next;
    return s;
}

/* Its hub has ended; the lock is held, but not while its thread goes. */
static void bury(struct server *s)
{
    s->joined = true;
    pthread_mutex_unlock(&hubs.lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_lock(&hubs.lock);
    struct server **at = &hubs.first;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    free(s);
    pthread_cond_broadcast(&hubs.changed);
}

void serve_await_end(const unsigned char key[FRAME_KEY], double seconds)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    const double until = (double)at.tv_nsec * 1e-9 + seconds;
    at.tv_sec += (time_t)until;
    at.tv_nsec = (long)((until - (double)(time_t)until) * 1e9);
    int late = 0;
    struct server *s;
    pthread_mutex_lock(&hubs.lock);
    while (find(key, false) && !late)
        if ((s = find(key, true)))
            bury(s);
        else
            late = pthread_cond_timedwait(&hubs.changed, &hubs.lock, &at);
    pthread_mutex_unlock(&hubs.lock);
}

static void close_all(int *listeners, int *n)
{
    for (int i = 0; i < *n; i++)
        close(listeners[i]);
    *n = 0;
}

static void close_listeners(struct server *s)
{
    close_all(s->listeners, &s->nlisteners);
}

static void server_close(struct server *s)
{
    close_listeners(s);
    for (int c = 0; c < s->nconns; c++)
        if (s->polls[ID_ADDRESSES + c].fd >= 0)
            close(s->polls[ID_ADDRESSES + c].fd);
    hub_free(s->hub);
    free(s->polls);
}

static void hang_up(struct server *s, int c, const char *why)
{
    close(s->polls[ID_ADDRESSES + c].fd);
    s->polls[ID_ADDRESSES + c].fd = -1;
    hub_closed(s->hub, c, why, tcp_clock());
}

/* A free number for a connection, or -1. */
static int free_number(struct server *s)
{
    for (int c = 0; c < s->nconns; c++)
        if (s->polls[ID_ADDRESSES + c].fd < 0)
            return c;
    if (s->nconns == s->room) {
        const int room = 2 * s->room + 16;
        struct pollfd *polls =
            realloc(s->polls, (size_t)(ID_ADDRESSES + room) * sizeof(*polls));
        if (!polls)
            return -1;
        s->polls = polls;
        s->room = room;
    }
    s->polls[ID_ADDRESSES + s->nconns].fd = -1;
    return s->nconns++;
}

static void greet(struct server *s, int listener)
{
    while (hub_accepts(s->hub, tcp_clock())) {
        const int fd =
            accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0) {
            if (errno != EAGAIN && errno != EWOULDBLOCK) {
                log_line(COLL_LOG_WARN, "bootstrap",
                         "the hub cannot accept a link: %s", strerror(errno));
                s->full_until = tcp_clock() + retry_seconds;
            }
            return;
        }
        const int c = free_number(s);
        if (c < 0) {
            close(fd);
            return;
        }
        tcp_tune(fd);
        s->polls[ID_ADDRESSES + c] = (struct pollfd){.fd = fd};
        hub_opened(s->hub, c, tcp_clock());
    }
}

static void receive(struct server *s, int c)
{
    char bytes[16384];
    const int fd = s->polls[ID_ADDRESSES + c].fd;
    const ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
    if (n > 0)
        hub_received(s->hub, c, bytes, (size_t)n, tcp_clock());
    else if (n == 0)
        hang_up(s, c, "its link ended");
    else if (errno != EAGAIN && errno != EINTR)
        hang_up(s, c, strerror(errno));
}

static void transmit(struct server *s, int c)
{
    const unsigned char *bytes;
    size_t n;
    while ((n = hub_output(s->hub, c, &bytes)) > 0) {
        const ssize_t sent =
            send(s->polls[ID_ADDRESSES + c].fd, bytes, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN)
            hang_up(s, c, strerror(errno));
        if (sent < 0)
            return;
        hub_sent(s->hub, c, (size_t)sent);
    }
}

/* Sends and closes as the hub wishes; says what to poll for next. */
static void attend(struct server *s, int c)
{
    struct pollfd *p = &s->polls[ID_ADDRESSES + c];
    const unsigned char *bytes;
    if (hub_wish(s->hub, c) != LINK_DROP)
        transmit(s, c);
    if (p->fd < 0)
        return;
    const enum link_wish wish = hub_wish(s->hub, c);
    const bool more = hub_output(s->hub, c, &bytes) > 0;
    if (wish == LINK_DROP) {
        hang_up(s, c, "dropped");
        return;
    }
    if (wish == LINK_FINISH && !more)
        shutdown(p->fd, SHUT_WR);
    p->events = (short)(POLLIN | (more ? POLLOUT : 0));
}

static void serve_once(struct server *s)
{
    /* Those who leave come last: with the last word to the rank whose process
     * the hub is in, the process may end, and others still need the news. */
    for (int leaving = 0; leaving < 2; leaving++)
        for (int c = 0; c < s->nconns; c++)
            if (s->polls[ID_ADDRESSES + c].fd >= 0
                && (hub_wish(s->hub, c) != LINK_KEEP) == leaving)
                attend(s, c);
    const double now = tcp_clock();
    const bool full = now < s->full_until;
    const bool room = !full && hub_accepts(s->hub, now);
    for (int i = 0; i < ID_ADDRESSES; i++)
        s->polls[i] = (struct pollfd){
            .fd = i < s->nlisteners && room ? s->listeners[i] : -1,
            .events = POLLIN,
        };
    poll(s->polls, (nfds_t)(ID_ADDRESSES + s->nconns),
         tcp_milliseconds(full ? fmin(hub_deadline(s->hub), s->full_until)
                               : hub_deadline(s->hub),
                          now));
    const int nconns = s->nconns; /* those that are new were not polled */
    for (int c = 0; c < nconns; c++)
        if (s->polls[ID_ADDRESSES + c].fd >= 0
            && s->polls[ID_ADDRESSES + c].revents
                   & (POLLIN | POLLHUP | POLLERR))
            receive(s, c);
    for (int i = 0; i < s->nlisteners; i++)
        if (s->polls[i].revents)
            greet(s, s->listeners[i]);
}

static void *serve(void *context)
{
    struct server *s = context;
    hub_tick(s->hub, tcp_clock());
    while (!hub_finished(s->hub)) {
        serve_once(s);
        hub_tick(s->hub, tcp_clock());
        /* ...before any rank hears that it has joined, and may go on to make
         * the next hub. */
        if (!hub_listens(s->hub) || (s->borrows && hub_runs(s->hub)))
            close_listeners(s);
    }
    log_line(COLL_LOG_DEBUG, "bootstrap", "the hub ends; %lu strangers called",
             hub_strangers(s->hub));
    server_close(s);
    pthread_mutex_lock(&hubs.lock);
    s->ended = true;
    pthread_cond_broadcast(&hubs.changed);
    pthread_mutex_unlock(&hubs.lock);
    return NULL;
}

/* Listens on one address; the first to be bound picks the port of all. -1:
 * errno says why. */
static int listen_on(struct id *id, int i)
{
    struct sockaddr_storage a;
    socklen_t length = id_socket_address(id, i, &a);
    const int on = 1;
    const int fd = socket(id->addresses[i].family,
                          SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&a, length) < 0 || listen(fd, 1024) < 0
        || getsockname(fd, (struct sockaddr *)&a, &length) < 0) {
        const int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    /* The port is at the same place in both families. */
    id->port = ntohs(((struct sockaddr_in *)&a)->sin_port);
    return fd;
}

/* Binds what is local to this host and keeps only that in id if `prune`. */
static coll_status bind_all(int *listeners, int *n, struct id *id, bool prune)
{
    struct id bound = *id;
    int error = 0, failed = 0;
    bound.naddresses = 0;
    for (int i = 0; i < id->naddresses; i++) {
        const int fd = listen_on(id, i);
        if (fd < 0) {
            if (!error || error == EADDRNOTAVAIL) {
                error = errno;
                failed = i;
            }
            continue;
        }
        listeners[(*n)++] = fd;
        bound.addresses[bound.naddresses++] = id->addresses[i];
    }
    if (!*n)
        return fail(COLL_ERR_SYSTEM, "bootstrap", "cannot listen on %s: %s%s",
                    id_print(id, failed).text, strerror(error),
                    error == EADDRNOTAVAIL
                        ? " (rank 0 must run on the root's host)"
                        : "");
    bound.port = id->port;
    if (prune)
        *id = bound;
    return COLL_OK;
}

static coll_status run(struct server *s)
{
    struct server *old;
    pthread_mutex_lock(&hubs.lock);
    while ((old = find(NULL, true))) /* for which nobody waited */
        bury(old);
    const int error = tcp_thread(&s->thread, "coll-hub", serve, s);
    if (!error) {
        s->next = hubs.first;
        hubs.first = s;
    }
    pthread_mutex_unlock(&hubs.lock);
    return error ? fail(COLL_ERR_SYSTEM, "bootstrap",
                        "cannot start the hub's thread: %s", strerror(error))
                 : COLL_OK;
}

struct bootstrap_refuge {
    int listeners[ID_ADDRESSES], nlisteners;
};

/* A hub's sockets are its own, and close with it. */
static coll_status copy_all(struct server *s, const struct bootstrap_refuge *r)
{
    for (int i = 0; i < r->nlisteners; i++) {
        s->listeners[i] = fcntl(r->listeners[i], F_DUPFD_CLOEXEC, 0);
        if (s->listeners[i] < 0)
            return fail(COLL_ERR_SYSTEM, "bootstrap", "fcntl: %s",
                        strerror(errno));
        s->nlisteners++;
    }
    return COLL_OK;
}

/* refuge: NULL, or where to listen. */
static coll_status start(struct id *id, double join_seconds, bool prune,
                         const struct bootstrap_refuge *refuge)
{
    struct server *s = calloc(1, sizeof(*s));
    coll_status status = COLL_ERR_MEMORY;
    if (s) {
        s->process = tcp_process();
        s->hub = hub_create(id->key, s->process, join_seconds, tcp_clock());
        s->polls = calloc(ID_ADDRESSES, sizeof(*s->polls));
    }
    if (!s || !s->hub || !s->polls)
        fail(status, "bootstrap", "no memory for the hub");
    else if ((s->borrows = refuge))
        status = copy_all(s, refuge);
    else
        status = bind_all(s->listeners, &s->nlisteners, id, prune);
    if (status == COLL_OK) {
        memcpy(s->key, id->key, sizeof(s->key));
        status = run(s);
    }
    if (status < 0 && s) {
        server_close(s);
        free(s);
    }
    return status;
}

coll_status bootstrap_serve(const coll_unique_id *packed, double join_seconds)
{
    struct id id;
    if (!id_unpack(packed, &id))
        return fail(COLL_ERR_INVALID, "bootstrap",
                    "these bytes are no id of a job");
    if (id_is_own_name(&id)) { /* the others know it by other addresses */
        struct id local = id;
        const coll_status status = id_local_addresses(&local, "");
        if (status < 0)
            return status;
        for (int i = 0; i < local.naddresses; i++)
            if (id.naddresses < ID_ADDRESSES)
                id.addresses[id.naddresses++] = local.addresses[i];
    }
    return start(&id, join_seconds, false, NULL);
}

coll_status bootstrap_create_id(coll_unique_id *packed, const char *interfaces,
                                double join_seconds)
{
    struct id id = {.port = 0};
    if (getrandom(id.key, sizeof(id.key), 0) != sizeof(id.key))
        return fail(COLL_ERR_SYSTEM, "bootstrap", "getrandom: %s",
                    strerror(errno));
    coll_status status = id_local_addresses(&id, interfaces);
    if (status == COLL_OK)
        status = start(&id, join_seconds, true, NULL);
    if (status == COLL_OK)
        *packed = id_pack(&id);
    return status;
}

bool bootstrap_has_hub(const coll_unique_id *packed)
{
    struct id id;
    if (!id_unpack(packed, &id))
        return false;
    pthread_mutex_lock(&hubs.lock);
    const bool found = find(id.key, false);
    pthread_mutex_unlock(&hubs.lock);
    return found;
}

coll_status bootstrap_open_refuge(struct bootstrap_refuge **refuge,
                                  coll_unique_id *packed,
                                  const char *interfaces, int most)
{
    struct id id = {.listens = true};
    struct bootstrap_refuge *r = calloc(1, sizeof(*r));
    coll_status status = COLL_OK;
    if (!r)
        status = fail(COLL_ERR_MEMORY, "bootstrap", "no memory for a refuge");
    else if (getrandom(id.key, sizeof(id.key), 0) != sizeof(id.key))
        status = fail(COLL_ERR_SYSTEM, "bootstrap", "getrandom: %s",
                      strerror(errno));
    if (status == COLL_OK)
        status = id_local_addresses(&id, interfaces);
    if (id.naddresses > most)
        id.naddresses = most;
    if (status == COLL_OK)
        status = bind_all(r->listeners, &r->nlisteners, &id, true);
    if (status < 0) {
        bootstrap_close_refuge(r);
        return status;
    }
    *packed = id_pack(&id);
    *refuge = r;
    return COLL_OK;
}

coll_status bootstrap_serve_refuge(struct bootstrap_refuge *refuge,
                                   const coll_unique_id *packed,
                                   double join_seconds)
{
    struct id id;
    if (!id_unpack(packed, &id))
        return fail(COLL_ERR_INVALID, "bootstrap",
                    "these bytes are no id of a job");
    return start(&id, join_seconds, false, refuge);
}

void bootstrap_close_refuge(struct bootstrap_refuge *r)
{
    if (r)
        close_all(r->listeners, &r->nlisteners);
    free(r);
}
