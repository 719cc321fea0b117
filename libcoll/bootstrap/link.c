/* SPDX-License-Identifier: MIT */
/* A rank's driver: joins from the caller's thread, then a thread of its own
 * sleeps in poll() and feeds the state machine what the hub says. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/told.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/ends.h"
#include "bootstrap/id.h"
#include "bootstrap/member.h"
#include "bootstrap/tcp.h"

/* How long a rank waits beyond its own deadline for the hub's sentence, which
 * knows more. */
static const double grace_seconds = 1;
static const double try_seconds = 2; /* to connect to one address */
static const double farewell_seconds = 2;

/* ...and where this process has the hub, so long for others to hear the news.
 */
static const double last_news_seconds = .5;

struct bootstrap {
    unsigned char key[FRAME_KEY];   /* of the job */
    int fd, wake;                   /* link; eventfd that wakes the thread */
    struct bootstrap_end mine, hub; /* of the link when it was made */
    double join_seconds;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards member */
    pthread_cond_t changed;
    struct member member;
    bootstrap_calls_fn *calls; /* under the mutex, as its context */
    void *calls_context;
    bool quit;          /* the thread is to end, under the mutex */
    _Atomic int failed; /* a coll_status; the sentence is fixed before */
    char sentence[sizeof(((struct member *)0)->sentence)];
    int culprit; /* likewise */
};

/* --- talking to the hub; the mutex is held once the thread runs ----------- */

/* What the state machine decided becomes visible to other threads. */
static void publish(struct bootstrap *b)
{
    if (b->member.phase == MEMBER_FAILED
        && atomic_load_explicit(&b->failed, memory_order_relaxed) == COLL_OK) {
        memcpy(b->sentence, b->member.sentence, sizeof(b->sentence));
        b->culprit = b->member.culprit;
        if (b->member.told)
            told_by_another();
        /* Read by bootstrap_failure(). */
        atomic_store_explicit(&b->failed, b->member.status,
                              memory_order_release);
    }
    pthread_cond_broadcast(&b->changed);
}

static void transmit(struct bootstrap *b)
{
    const unsigned char *bytes;
    size_t n;
    while (b->fd >= 0 && (n = member_output(&b->member, &bytes)) > 0) {
        const ssize_t sent = send(b->fd, bytes, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN) {
            member_closed(&b->member, strerror(errno));
            close(b->fd);
            b->fd = -1;
        }
        if (sent < 0)
            return;
        member_sent(&b->member, (size_t)sent);
    }
}

static void receive(struct bootstrap *b)
{
    char bytes[16384];
    const ssize_t n = recv(b->fd, bytes, sizeof(bytes), 0);
    if (n > 0) {
        member_received(&b->member, bytes, (size_t)n);
        return;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    member_closed(&b->member, n ? strerror(errno) : "it ended");
    close(b->fd);
    b->fd = -1;
}

static void answer(struct bootstrap *b)
{
    struct bootstrap_call calls[BOOTSTRAP_CALLS_MAX] = {{0}};
    const uint32_t *upto = b->member.asked_upto ? &b->member.upto : NULL;
    const int n = b->calls ? b->calls(b->calls_context, upto, calls) : 0;
    struct frame_bytes *frame =
        frame_make(FRAME_CALLS, b->member.rank, (size_t)n * FRAME_CALL_BYTES);
    _Static_assert((int)BOOTSTRAP_CALLS_MAX == FRAME_CALLS_MAX
                       && 8 + sizeof(calls->text) == FRAME_CALL_BYTES,
                   "a call as it travels");
    for (int i = 0; i < n && frame; i++) {
        unsigned char *to = frame->data + FRAME_HEADER + i * FRAME_CALL_BYTES;
        frame_put32(to, calls[i].number);
        frame_put32(to + 4, calls[i].tag);
        memcpy(to + 8, calls[i].text, sizeof(calls->text));
    }
    member_answer(&b->member, frame);
}

/* --- joining ---------------------------------------------------------------
 */

/* A connection to one address, or -1 with errno. */
static int call_address(const struct id *id, int i, double deadline)
{
    struct sockaddr_storage a;
    const socklen_t length = id_socket_address(id, i, &a);
    return tcp_call(&a, length, deadline);
}

/* Reads and writes until the member has left `phase` or the deadline. */
static void converse(struct bootstrap *b, enum member_phase phase,
                     double deadline)
{
    const unsigned char *bytes;
    while (b->fd >= 0 && b->member.phase == phase) {
        const double now = tcp_clock();
        transmit(b);
        if (b->fd < 0 || now >= deadline)
            return;
        struct pollfd p = {
            .fd = b->fd,
            .events =
                (short)(POLLIN
                        | (member_output(&b->member, &bytes) ? POLLOUT : 0)),
        };
        if (poll(&p, 1, tcp_milliseconds(deadline, now)) > 0
            && p.revents & (POLLIN | POLLHUP | POLLERR))
            receive(b);
    }
}

struct caller {
    const struct id *id;
    int rank, nranks;
    const char *about;
    double begin, join_seconds;
};

/* Goes through the addresses once. True: the hub heard the hello, or answered
 * with a refusal. last says why the last address failed; gone: nobody listens
 * at any of them. */
static bool call_once(struct bootstrap *b, const struct caller *c, char *last,
                      size_t room, bool *gone)
{
    *gone = true;
    const double end = c->begin + c->join_seconds;
    for (int i = 0; i < c->id->naddresses; i++) {
        const double now = tcp_clock();
        const double deadline =
            now + try_seconds < end ? now + try_seconds : end;
        struct frame_hello hello = {
            .nranks = (uint32_t)c->nranks,
            .join_ms = (uint32_t)(c->join_seconds * 1e3),
            .waited_ms = (uint32_t)((now - c->begin) * 1e3),
            .process = tcp_process(),
        };
        memcpy(hello.key, c->id->key, FRAME_KEY);
        b->fd = call_address(c->id, i, deadline);
        if (b->fd < 0) {
            *gone &= errno == ECONNREFUSED;
            snprintf(last, room, "%s: %s", id_print(c->id, i).text,
                     strerror(errno));
            continue;
        }
        *gone = false;
        ends_of_socket(b->fd, &b->mine, &b->hub);
        /* A hub that is late still reads the hello, and takes a link that has
         * ended by then for a death; so hang up only if another address may
         * be the right one, and not soon. */
        const double share = now + (end - now) / c->id->naddresses;
        if (member_call(&b->member, c->rank, &hello, c->about))
            converse(b, MEMBER_CALLING, share > deadline ? share : deadline);
        const bool failed = b->member.phase == MEMBER_FAILED;
        if (b->fd >= 0 && b->member.phase != MEMBER_CALLING
            && !b->member.foreign)
            return true;
        if (failed && b->member.status != COLL_ERR_PEER)
            return true; /* a refusal, and then the link ended */
        snprintf(last, room, "%s: %s", id_print(c->id, i).text,
                 failed ? "it answers, but not as the hub of this job"
                        : "it does not answer");
        if (b->fd >= 0)
            close(b->fd);
        b->fd = -1;
    }
    return false;
}

static coll_status call_hub(struct bootstrap *b, const struct caller *c)
{
    const double deadline = c->begin + c->join_seconds;
    char last[160] = "";
    double pause = 1e-3;
    bool gone;
    while (!call_once(b, c, last, sizeof(last), &gone)) {
        if (gone && c->id->listens)
            return fail(COLL_ERR_PEER, "bootstrap",
                        "rank %d of %d: rank 0 is gone: %s", c->rank, c->nranks,
                        last);
        if (tcp_clock() >= deadline)
            return fail(COLL_ERR_PEER, "bootstrap",
                        "rank %d of %d found no hub within %g s: %s", c->rank,
                        c->nranks, c->join_seconds, last);
        poll(NULL, 0, (int)(pause * 1e3));
        pause = pause < .05 ? 2 * pause : .1;
    }
    converse(b, MEMBER_HEARD, deadline + grace_seconds);
    if (b->member.phase == MEMBER_RUNNING)
        return COLL_OK;
    if (b->member.phase == MEMBER_FAILED) {
        if (b->member.told)
            told_by_another();
        return fail(b->member.status, "bootstrap", "%s", b->member.sentence);
    }
    return fail(COLL_ERR_PEER, "bootstrap",
                "rank %d of %d: not all ranks joined within %g s", c->rank,
                c->nranks, c->join_seconds);
}

/* --- the thread -------------------------------------------------------------
 */

static void *watch(void *context)
{
    struct bootstrap *b = context;
    const unsigned char *bytes;
    pthread_mutex_lock(&b->mutex);
    for (;;) {
        if (b->member.asked)
            answer(b);
        if (b->fd >= 0)
            transmit(b);
        publish(b);
        const bool more = member_output(&b->member, &bytes) > 0;
        if (b->quit && (b->fd < 0 || !more))
            break;
        struct pollfd p[2] = {
            {.fd = b->wake, .events = POLLIN                                },
            {.fd = b->fd,   .events = (short)(POLLIN | (more ? POLLOUT : 0))},
        };
        pthread_mutex_unlock(&b->mutex);
        poll(p, 2, -1);
        if (p[0].revents) {
            uint64_t count;
            if (read(b->wake, &count, sizeof(count)) < 0)
                count = 0; /* somebody else's wake-up: nothing is lost */
        }
        pthread_mutex_lock(&b->mutex);
        if (b->fd >= 0 && p[1].revents & (POLLIN | POLLHUP | POLLERR))
            receive(b);
    }
    pthread_mutex_unlock(&b->mutex);
    return NULL;
}

static void wake(const struct bootstrap *b)
{
    const uint64_t one = 1;
    if (write(b->wake, &one, sizeof(one)) < 0)
        return; /* the counter is full, so the thread will wake */
}

static void release(struct bootstrap *b)
{
    if (b->fd >= 0)
        close(b->fd);
    if (b->wake >= 0)
        close(b->wake);
    member_clear(&b->member);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->mutex);
    free(b);
}

static struct bootstrap *create(double join_seconds)
{
    pthread_condattr_t attributes;
    struct bootstrap *b = calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    b->fd = -1;
    b->join_seconds = join_seconds;
    b->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&b->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&b->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return b;
}

coll_status bootstrap_join(struct bootstrap **out, const coll_unique_id *packed,
                           int rank, int nranks, const char *about,
                           double join_seconds)
{
    struct id id;
    if (!id_unpack(packed, &id))
        return fail(COLL_ERR_INVALID, "bootstrap",
                    "these bytes are no id of a job");
    struct bootstrap *b = create(join_seconds);
    if (!b)
        return fail(COLL_ERR_MEMORY, "bootstrap", "no memory for a link");
    const struct caller caller = {&id,   rank,        nranks,
                                  about, tcp_clock(), join_seconds};
    memcpy(b->key, id.key, sizeof(b->key));
    coll_status status = b->wake < 0 ? fail(COLL_ERR_SYSTEM, "bootstrap",
                                            "eventfd: %s", strerror(errno))
                                     : call_hub(b, &caller);
    if (status == COLL_OK) {
        const int error = tcp_thread(&b->thread, "coll-link", watch, b);
        if (error) {
            status =
                fail(COLL_ERR_SYSTEM, "bootstrap",
                     "cannot start the link's thread: %s", strerror(error));
            member_abort(&b->member, status, fail_sentence());
            transmit(b);
        }
    }
    if (status < 0) {
        release(b);
        /* This process may end now, and the hub with it. */
        serve_await_end(id.key, last_news_seconds);
        return status;
    }
    *out = b;
    return COLL_OK;
}

/* --- what the communicator asks ----------------------------------------------
 */

coll_status bootstrap_failure(const struct bootstrap *b)
{
    /* Pairs with the store in publish(): the sentence is there. */
    return (coll_status)atomic_load_explicit(&b->failed, memory_order_acquire);
}

const char *bootstrap_failure_sentence(const struct bootstrap *b)
{
    return bootstrap_failure(b) < 0 ? b->sentence : "";
}

int bootstrap_culprit(const struct bootstrap *b)
{
    return bootstrap_failure(b) == COLL_ERR_PEER ? b->culprit
                                                 : BOOTSTRAP_NOBODY;
}

static coll_status failed(const struct bootstrap *b)
{
    return fail(bootstrap_failure(b), "bootstrap", "%s", b->sentence);
}

coll_status bootstrap_allgather_start(struct bootstrap *b, const void *mine,
                                      size_t bytes)
{
    pthread_mutex_lock(&b->mutex);
    const bool started =
        member_gather(&b->member, mine, bytes, b->join_seconds);
    pthread_mutex_unlock(&b->mutex);
    wake(b);
    if (bootstrap_failure(b) < 0)
        return failed(b);
    return started ? COLL_OK
                   : fail(COLL_ERR_MEMORY, "bootstrap",
                          "no memory for an allgather of %zu bytes", bytes);
}

/* The mutex is held. */
static bool taken(struct bootstrap *b, void *all)
{
    const bool ready = b->member.gathered;
    if (ready)
        member_take(&b->member, all);
    return ready;
}

coll_status bootstrap_allgather_test(struct bootstrap *b, void *all)
{
    pthread_mutex_lock(&b->mutex);
    const bool ready = taken(b, all);
    pthread_mutex_unlock(&b->mutex);
    if (ready)
        return COLL_OK;
    return bootstrap_failure(b) < 0 ? failed(b) : COLL_IN_PROGRESS;
}

void bootstrap_allgather_nap(struct bootstrap *b, double seconds)
{
    const double until = tcp_clock() + seconds;
    const struct timespec at = {(time_t)until,
                                (long)((until - (double)(time_t)until) * 1e9)};
    int late = 0;
    pthread_mutex_lock(&b->mutex);
    while (!b->member.gathered && bootstrap_failure(b) == COLL_OK && !late)
        late = pthread_cond_timedwait(&b->changed, &b->mutex, &at);
    pthread_mutex_unlock(&b->mutex);
}

coll_status bootstrap_allgather(struct bootstrap *b, const void *mine,
                                void *all, size_t bytes)
{
    const double deadline = tcp_clock() + b->join_seconds + grace_seconds;
    const struct timespec at = {
        (time_t)deadline, (long)((deadline - (double)(time_t)deadline) * 1e9)};
    const coll_status status = bootstrap_allgather_start(b, mine, bytes);
    if (status < 0)
        return status;
    int late = 0;
    pthread_mutex_lock(&b->mutex);
    bool ready;
    while (!(ready = taken(b, all)) && bootstrap_failure(b) == COLL_OK && !late)
        late = pthread_cond_timedwait(&b->changed, &b->mutex, &at);
    pthread_mutex_unlock(&b->mutex);
    if (ready)
        return COLL_OK;
    if (bootstrap_failure(b) < 0)
        return failed(b);
    return fail(COLL_ERR_TIMEOUT, "bootstrap",
                "the hub did not answer within %g s", b->join_seconds);
}

void bootstrap_answer(struct bootstrap *b, bootstrap_calls_fn *calls,
                      void *context)
{
    pthread_mutex_lock(&b->mutex);
    b->calls = calls;
    b->calls_context = context;
    pthread_mutex_unlock(&b->mutex);
}

void bootstrap_inquire(struct bootstrap *b)
{
    pthread_mutex_lock(&b->mutex);
    member_inquire(&b->member);
    pthread_mutex_unlock(&b->mutex);
    wake(b);
}

void bootstrap_abort(struct bootstrap *b, coll_status status, const char *why)
{
    pthread_mutex_lock(&b->mutex);
    member_abort(&b->member, status, why);
    transmit(b); /* at once: the process may be about to end */
    publish(b);
    pthread_mutex_unlock(&b->mutex);
    wake(b);
}

/* Ends once the hub has ended the link; after a failure, or if the hub is
 * silent, once what is queued is sent. */
void bootstrap_depart(struct bootstrap *b)
{
    const double patience =
        bootstrap_failure(b) == COLL_OK ? b->join_seconds : farewell_seconds;
    const double deadline = tcp_clock() + patience;
    const struct timespec at = {
        (time_t)deadline, (long)((deadline - (double)(time_t)deadline) * 1e9)};
    int late = 0;
    pthread_mutex_lock(&b->mutex);
    member_leave(&b->member);
    wake(b);
    while (b->fd >= 0 && b->member.phase == MEMBER_LEAVING && !late)
        late = pthread_cond_timedwait(&b->changed, &b->mutex, &at);
    const unsigned char *bytes;
    while (b->fd >= 0 && member_output(&b->member, &bytes) && !late)
        late = pthread_cond_timedwait(&b->changed, &b->mutex, &at);
    b->quit = true;
    if (late && b->fd >= 0)
        shutdown(b->fd, SHUT_RDWR); /* the thread then finds it closed */
    pthread_mutex_unlock(&b->mutex);
    wake(b);
    pthread_join(b->thread, NULL);
    /* This process may end now, and the hub with it. */
    serve_await_end(b->key, last_news_seconds);
}

void bootstrap_leave(struct bootstrap *b)
{
    if (!b->quit)
        bootstrap_depart(b);
    release(b);
}

void bootstrap_ends(const struct bootstrap *b, struct bootstrap_end *mine,
                    struct bootstrap_end *hub)
{
    *mine = b->mine;
    *hub = b->hub;
}

double bootstrap_round_trip(struct bootstrap *b)
{
    pthread_mutex_lock(&b->mutex);
    const double seconds = b->fd < 0 ? 0 : ends_round_trip(b->fd);
    pthread_mutex_unlock(&b->mutex);
    return seconds;
}
